import type { WorkerConnection } from "../client/worker-connection.ts";
import type { SyncCode, TaskContext } from "../define/automation-context.ts";
import type { Check } from "../define/check.ts";
import type { Project } from "../define/define-pawl.ts";
import type { Json } from "../kernel/canonical.ts";
import { instantOf } from "../kernel/instant.ts";
import { intervalsContain } from "../kernel/intervals.ts";
import { checkDocument, placesOf } from "../work/asset/checks.ts";
import type { ClaimAnswer, ReportedResult, TaskRef } from "../work/run/protocol.ts";
import { messageOf } from "../worker/plain-values.ts";
import type { HoldingNews } from "../worker/tasks/runner.ts";
import type { TestCall, TestFetch, TestLog, TestProgress } from "./records.ts";
import type { TestTime } from "./test-time.ts";

type Filled<Value> = { -readonly [Key in keyof Value]: Value[Key] };
type OpenCall = Omit<Filled<TestCall>, "logs" | "progress" | "checkpoints"> & {
  logs: TestLog[];
  progress: TestProgress[];
  checkpoints: Json[];
  leave: () => void;
};
type OpenFetch = Omit<Filled<TestFetch>, "progress"> & { progress: number[] };

/** Hears what the worker is given and what it says, and what the user's code does meanwhile. */
export class Recorder {
  readonly fetches: OpenFetch[] = [];
  /** All lines of tasks, in their order. */
  readonly logs: TestLog[] = [];
  /** Lines of functions of sensors. */
  readonly sensorLogs: TestLog[] = [];
  /** Whether a sensor got the items that the test has for it. */
  gaveItems = false;
  readonly #time: TestTime;
  readonly #items: readonly Json[] | null;
  readonly #calls: OpenCall[] = [];
  readonly #names = new Map<string, string>();
  readonly #looks = new Map<number, () => void>();

  constructor(time: TestTime, items: readonly Json[] | null) {
    this.#time = time;
    this.#items = items;
  }

  /** What a worker logs by itself is of no interest; what it logs for sensors is. */
  readonly logger = {
    info: (fields: object, message: string): void => {
      if (!("sensor" in fields)) return;
      const { sensor: _sensor, ...rest } = fields;
      this.sensorLogs.push({ message, fields: rest });
    },
    warn: (): void => undefined,
    error: (): void => undefined,
  };

  /** The project with functions that tell when they run. */
  recorded(project: Project): Project {
    const functions = [...project.functions].map(([key, materialize]) => {
      const recorded = (context: TaskContext): ReturnType<typeof materialize> => {
        const call = this.#begin(context);
        return this.#time.spend(() => materialize(withProgress(context, call)), call.leave);
      };
      return [key, recorded] as const;
    });
    const syncs = [...project.syncs].map(
      ([name, code]) => [name, this.#recordedSync(code)] as const,
    );
    const checks = [...project.checks].map(
      ([key, own]) => [key, own.map((each) => this.#recordedCheck(each))] as const,
    );
    return {
      ...project,
      functions: new Map(functions),
      checks: new Map(checks),
      syncs: new Map(syncs),
    };
  }

  /** Calls a function that takes the time that it takes. */
  async #timed<Answer>(call: () => Promise<Answer> | Answer): Promise<Answer> {
    const leave = this.#time.enter();
    try {
      return await call();
    } finally {
      leave();
    }
  }

  #recordedCheck(check: Check): Check {
    return { ...check, judge: (context) => this.#timed(() => check.judge(context)) };
  }

  #recordedSync(code: SyncCode): SyncCode {
    const { head, hash, verify } = code;
    const timed = <Answer>(call: () => Promise<Answer>) => this.#timed(call);
    return {
      ...code,
      fetch: (range, context) => {
        const { from, to, undo } = range;
        const { attempt } = context;
        const call: OpenFetch = {
          from,
          to,
          undo,
          attempt,
          progress: [],
          rows: null,
          error: null,
        };
        this.fetches.push(call);
        const progressTo = async (block: number): Promise<void> => {
          await context.progressTo(block);
          call.progress.push(block);
        };
        return timed(async () => {
          try {
            const result = await code.fetch(range, { ...context, progressTo });
            if (typeof result === "object") call.rows = result.rows ?? null;
            return result;
          } catch (error) {
            call.error = messageOf(error);
            throw error;
          }
        });
      },
      head: head === null ? null : (context) => timed(() => head(context)),
      hash: hash === null ? null : (block, context) => timed(() => hash(block, context)),
      verify: verify === null ? null : (range, context) => timed(() => verify(range, context)),
    };
  }

  /** The connection, with what goes over it kept. */
  listening(connection: WorkerConnection): WorkerConnection {
    return {
      ...connection,
      claim: async (request, signal) => {
        const answer = await connection.claim(request, signal);
        this.#claimed(answer);
        return answer;
      },
      report: async (request) => {
        for (const result of request.results) this.#reported(result);
        const answer = await connection.report(request);
        if (answer.claimed !== undefined) this.#claimed(answer.claimed);
        return answer;
      },
      checkpoint: (request) => {
        for (const { value, ...ref } of request.items) this.#callOf(ref)?.checkpoints.push(value);
        return connection.checkpoint(request);
      },
      log: (request) => {
        for (const { message, fields, ends_attempt, ...ref } of request.items) {
          // What ended the attempt is its error already.
          if (ends_attempt === true) continue;
          this.logs.push({ message, fields });
          this.#callOf(ref)?.logs.push({ message, fields });
        }
        return connection.log(request);
      },
      claimProbes: async (request, signal) => {
        const answer = await connection.claimProbes(request, signal);
        const items = this.#items;
        if (items === null) return answer;
        this.gaveItems ||= answer.probes.length > 0;
        const probes = answer.probes.map((probe) => {
          return { ...probe, found: { items: [...items], cursor: probe.cursor } };
        });
        return { ...answer, probes };
      },
    };
  }

  /** The calls so far, in the order in which they began. */
  callsMade(): TestCall[] {
    return this.#calls.map(({ leave: _leave, ...call }) => call);
  }

  /** A look at the world takes the time that it takes. */
  held(news: HoldingNews): void {
    if (news.type === "look" && "probe" in news) this.#looks.set(news.id, this.#time.enter());
    if (news.type !== "looked") return;
    this.#looks.get(news.id)?.();
    this.#looks.delete(news.id);
  }

  #begin({ asset, runId, partition, partitions, attempt }: TaskContext): OpenCall {
    const call: OpenCall = {
      asset,
      runId,
      partition,
      partitions,
      attempt,
      at: instantOf(this.#time.wallMs()),
      outcome: null,
      error: null,
      metadata: null,
      checks: [],
      addedPartitions: [],
      exceptions: [],
      retryAfterMs: null,
      isFinal: false,
      logs: [],
      progress: [],
      checkpoints: [],
      leave: this.#time.enter(),
    };
    this.#calls.push(call);
    return call;
  }

  #claimed({ groups }: ClaimAnswer): void {
    for (const { run_id, run_pos, asset_key, tasks } of groups) {
      for (const { task_key, attempt, partition_keys } of tasks) {
        const ref = { run_pos, task_key, attempt };
        this.#names.set(refText(ref), nameOf(run_id, asset_key, partition_keys[0] ?? "", attempt));
      }
    }
  }

  #callOf(ref: TaskRef): OpenCall | undefined {
    const name = this.#names.get(refText(ref));
    return this.#calls.findLast(
      ({ runId, asset, partition, attempt }) => nameOf(runId, asset, partition, attempt) === name,
    );
  }

  #reported(result: ReportedResult): void {
    const call = this.#callOf(result);
    if (call === undefined) return;
    // A function that goes on although it was told to stop does not hold up the rest.
    call.leave();
    call.outcome = result.outcome;
    call.error = result.error ?? null;
    call.metadata = result.metadata ?? null;
    const keys = call.partitions.length === 0 ? [""] : call.partitions;
    const judged = (result.checks ?? []).map((check) => {
      return { document: checkDocument(check), places: placesOf(check, keys.length) };
    });
    call.checks = keys.flatMap((partition, place) =>
      judged
        .filter(({ places }) => intervalsContain(places, place))
        .map(({ document }) => ({ ...document, partition })),
    );
    call.addedPartitions = result.added_keys ?? [];
    call.retryAfterMs = result.retry_after_ms ?? null;
    call.isFinal = result.final ?? false;
    call.exceptions = (result.exceptions ?? []).map(({ index, outcome, error }) => {
      return { partition: call.partitions[index] ?? "", outcome, error };
    });
  }
}

/** The same context, which also keeps what is said about progress: that is thinned out on its way. */
function withProgress(context: TaskContext, call: OpenCall): TaskContext {
  return {
    ...context,
    progress(done, total, note) {
      context.progress(done, total, note);
      call.progress.push({ done, total, note: note ?? null });
    },
  };
}

function refText({ run_pos, task_key, attempt }: TaskRef): string {
  return `${run_pos}/${task_key}/${attempt}`;
}

function nameOf(runId: string, asset: string, partition: string, attempt: number): string {
  return JSON.stringify([runId, asset, partition, attempt]);
}
