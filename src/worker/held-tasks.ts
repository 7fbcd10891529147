import type { ReportedResult, ReportRequest, TaskRef } from "../core/protocol.ts";
import type { FromWorkerProcess } from "./worker-process-messages.ts";

/** How a worker's process came to its end: by itself, or ended because it did not stop in time. */
export type ProcessEnd = { type: "crashed" | "killed"; reason: string };

/**
 * What a worker's process holds, by its own word, for the one that started it: when the process ends
 * in the middle, that one says what is to become of its tasks.
 */
export class HeldTasks {
  readonly workerId: string;
  readonly #tasks = new Map<string, { ref: TaskRef; hasBegun: boolean }>();
  readonly #leases = new Map<string, Set<string>>();
  #looks = 0;

  constructor(workerId: string) {
    this.workerId = workerId;
  }

  hear(word: FromWorkerProcess): void {
    switch (word.type) {
      case "took":
        for (const ref of word.tasks) this.#tasks.set(nameOf(ref), { ref, hasBegun: false });
        this.#leases.set(word.lease_id, new Set(word.tasks.map(nameOf)));
        return;
      case "began": {
        const task = this.#tasks.get(nameOf(word.task));
        if (task !== undefined) task.hasBegun = true;
        return;
      }
      case "settled":
        this.#settle(word.tasks.map(nameOf));
        return;
      case "looks":
        this.#looks = word.count;
        return;
      default:
        return;
    }
  }

  /** What to report now that the process is gone; null when it held nothing. */
  reportAfter(end: ProcessEnd): ReportRequest | null {
    if (this.#tasks.size === 0) return null;
    const tasks = [...this.#tasks.values()];
    const begun = tasks.filter(({ hasBegun }) => hasBegun).length;
    const isAlone = begun === 1 && this.#looks === 0;
    const results = tasks.map(({ ref, hasBegun }): ReportedResult => {
      if (end.type === "killed" || !hasBegun) return givenBack(ref, end);
      return isAlone ? failed(ref, end) : lost(ref, end, begun);
    });
    return {
      worker_id: this.workerId,
      code_version: null,
      results,
      released_leases: [...this.#leases.keys()],
    };
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
  return { ...ref, outcome: "FAILED", error: { class: "crash", message } };
}

function lost(ref: TaskRef, { reason }: ProcessEnd, begun: number): ReportedResult {
  const message = `The worker process ended while ${begun} tasks ran in it, and it is not known which of them ended it: ${reason}`;
  return { ...ref, outcome: "FAILED", error: { class: "crash", message }, crashed: true };
}

function nameOf({ run_pos, task_key, attempt }: TaskRef): string {
  return `${run_pos}/${task_key}/${attempt}`;
}
