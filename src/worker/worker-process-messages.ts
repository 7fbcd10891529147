import { z } from "zod";
import { ERRORS, type ErrorCode } from "../kernel/errors.ts";
import { Spec } from "../work/definition/published-spec.ts";
import { HeadResult, ProbeResult } from "../work/probe-protocol.ts";
import {
  CRASH_CLASS,
  type ReportedResult,
  type ReportRequest,
  TaskRef,
} from "../work/run/protocol.ts";

/** What the worker's process says to the one that forked it. */
export const FromWorkerProcess = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("specs"),
    specs: z.array(Spec),
    code_version: z.string().nullable(),
  }),
  z.object({
    type: z.literal("error"),
    code: z.custom<ErrorCode>((code) => typeof code === "string" && Object.hasOwn(ERRORS, code)),
    message: z.string(),
  }),
  /**
   * Tasks that the worker was given under a lease, with the time that the one is to be alone for; that
   * one of them begins, and that some are settled.
   */
  z.object({
    type: z.literal("took"),
    lease_id: z.string(),
    tasks: z.array(TaskRef),
    alone_ms: z.int().positive().optional(),
  }),
  z.object({ type: z.literal("began"), task: TaskRef }),
  z.object({ type: z.literal("settled"), tasks: z.array(TaskRef) }),
  /** That it begins a look of a sensor or at a head, which is given back so; and that one is over. */
  z.object({
    type: z.literal("look"),
    id: z.int(),
    probe: ProbeResult.optional(),
    head: HeadResult.optional(),
  }),
  z.object({ type: z.literal("looked"), id: z.int() }),
]);
export type FromWorkerProcess = z.infer<typeof FromWorkerProcess>;

/** What the parent says: where the server is, and that the worker may begin. */
export const ToWorkerProcess = z.object({
  type: z.literal("connect"),
  url: z.string(),
  worker_id: z.string().min(1).max(200),
  code_version: z.string().nullable().optional(),
  token: z.string().optional(),
  concurrency: z.int().positive().optional(),
  stop_grace_ms: z.int().nonnegative().optional(),
});
export type ToWorkerProcess = z.infer<typeof ToWorkerProcess>;

/** How a worker's process came to its end: by itself, or ended because it did not stop in time. */
export type ProcessEnd = { type: "crashed" | "killed"; reason: string };

const RELEASED = { type: "released" } as const;

/** When a task began, unless it has not, and for how long nothing else was to begin beside it. */
type HeldTask = { ref: TaskRef; begunAt: number | null; aloneMs: number };

/**
 * What a worker's process holds, by its own word, for the one that started it: when the process ends
 * in the middle, that one says what is to become of its tasks.
 */
export class HeldTasks {
  readonly workerId: string;
  readonly #tasks = new Map<string, HeldTask>();
  readonly #leases = new Map<string, Set<string>>();
  readonly #now: () => number;
  readonly #looks = new Map<number, { probe?: ProbeResult; head?: HeadResult }>();

  /** `now` is in milliseconds. */
  constructor(workerId: string, now: () => number = () => performance.now()) {
    this.workerId = workerId;
    this.#now = now;
  }

  hear(word: FromWorkerProcess): void {
    switch (word.type) {
      case "took":
        for (const ref of word.tasks) {
          this.#tasks.set(nameOf(ref), { ref, begunAt: null, aloneMs: word.alone_ms ?? 0 });
        }
        this.#leases.set(word.lease_id, new Set(word.tasks.map(nameOf)));
        return;
      case "began": {
        const task = this.#tasks.get(nameOf(word.task));
        if (task !== undefined) task.begunAt = this.#now();
        return;
      }
      case "settled":
        this.#settle(word.tasks.map(nameOf));
        return;
      case "look": {
        const { id, probe, head } = word;
        if (probe !== undefined) this.#looks.set(id, { probe });
        else if (head !== undefined) this.#looks.set(id, { head });
        return;
      }
      case "looked":
        this.#looks.delete(word.id);
        return;
      default:
        return;
    }
  }

  /** What to report now that the process is gone; null when it held nothing. */
  reportAfter(end: ProcessEnd): ReportRequest | null {
    if (this.#tasks.size === 0) return null;
    const tasks = [...this.#tasks.values()];
    const begun = tasks.filter(({ begunAt }) => begunAt !== null);
    const isAlone = begun.length === 1 && this.#looks.size === 0;
    // One that was suspected before and had to be alone for longer: nobody else is.
    const onTrial = begun.filter((task) => this.#isOnTrial(task));
    const suspects = new Set(onTrial.length > 0 ? onTrial : begun);
    const results = tasks.map((task): ReportedResult => {
      if (end.type === "killed" || !suspects.has(task)) return givenBack(task.ref, end);
      return isAlone ? failed(task.ref, end) : lost(task.ref, end, begun.length);
    });
    return {
      worker_id: this.workerId,
      code_version: null,
      results,
      released_leases: [...this.#leases.keys()],
    };
  }

  /**
   * What became of the looks of a process that is gone: one that was alone in it failed with it, all
   * others are due again at once.
   */
  looksAfter(end: ProcessEnd): { probes: ProbeResult[]; heads: HeadResult[] } {
    const held = [...this.#looks.values()];
    const isAlone = end.type === "crashed" && held.length === 1 && !this.#hasBegun;
    const message = `The worker process ended while it looked, and did nothing else: ${end.reason}`;
    const error = { class: CRASH_CLASS, message };
    const outcome = isAlone ? ({ type: "failed", error } as const) : RELEASED;
    return {
      probes: held.flatMap(({ probe }) => (probe === undefined ? [] : { ...probe, outcome })),
      heads: held.flatMap(({ head }) => (head === undefined ? [] : { ...head, outcome })),
    };
  }

  get #hasBegun(): boolean {
    return [...this.#tasks.values()].some(({ begunAt }) => begunAt !== null);
  }

  #isOnTrial({ begunAt, aloneMs }: HeldTask): boolean {
    return begunAt !== null && this.#now() - begunAt < aloneMs;
  }

  #settle(names: readonly string[]): void {
    for (const name of names) this.#tasks.delete(name);
    for (const [leaseId, own] of this.#leases) {
      for (const name of names) own.delete(name);
      if (own.size === 0) this.#leases.delete(leaseId);
    }
  }
}

/** It had not begun, or could not go on: nothing is said against it. */
function givenBack(ref: TaskRef, { reason }: ProcessEnd): ReportedResult {
  const message = `The worker process ended and gave the task back: ${reason}`;
  const error = { class: "transient", message };
  return { ...ref, outcome: "FAILED", error, retry_after_ms: 0, released: true };
}

/** Nothing else ran in the process: the task ended it, or at least nothing else did. */
function failed(ref: TaskRef, { reason }: ProcessEnd): ReportedResult {
  const message = `The worker process ended while it ran this task alone: ${reason}`;
  return { ...ref, outcome: "FAILED", error: { class: CRASH_CLASS, message } };
}

function lost(ref: TaskRef, { reason }: ProcessEnd, begun: number): ReportedResult {
  const tasks = begun === 2 ? "another task" : `${begun - 1} other tasks`;
  const others = begun === 1 ? "looks of sensors or at heads" : tasks;
  const message = `The worker process ended while this task ran in it beside ${others}, and it is not known which of them ended it: ${reason}`;
  return { ...ref, outcome: "FAILED", error: { class: CRASH_CLASS, message }, crashed: true };
}

function nameOf({ run_pos, task_key, attempt }: TaskRef): string {
  return `${run_pos}/${task_key}/${attempt}`;
}
