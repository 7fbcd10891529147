import type { WorkerConnection } from "../../client/worker-connection.ts";
import { doNotRetry } from "../../define/errors.ts";
import type { ShardAddress } from "../../define/shards.ts";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import type { Shard } from "../../shards/shard.ts";
import type {
  ClaimedStep,
  MoveReport,
  SplitReport,
  StepAnswer,
  StepReport,
  StepWord,
} from "../../work/shard/step-protocol.ts";
import { type Clock, pause } from "../outbox.ts";
import type { TaskAttempt } from "../tasks/attempt.ts";
import { runMoveStep } from "./move/move-steps.ts";
import { runSplitStep } from "./split/split-steps.ts";

/** What steps on shards need of the worker they run in. */
export type StepSurroundings = {
  connection: WorkerConnection;
  shards: OpenShards;
  workerId: string;
  clock: Clock;
  /** Whether the project's code lets splits change schemas. */
  allowsDdl: boolean;
};

/** More attempts than a run ever has: the token of a later run is greater than all of an earlier one. */
const ATTEMPTS_MAX = 1_000_000;

/** Refusals that say nothing about the step: the next attempt begins from where things are. */
const PASSING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "COORDINATOR_STALE",
  "LEASE_LOST",
  "STREAM_MOVED",
]);
/** A fence that could not be had is for a person, or the policy, to ask for again. */
const FALLS_BACK: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["FENCE_BUSY", "FENCE_EXPIRED"]);

/** Runs a claimed step on shards; what it throws is how the attempt failed. */
export async function runStep(
  attempt: TaskAttempt,
  step: ClaimedStep,
  surroundings: StepSurroundings,
): Promise<void> {
  let last: StepReport | null = null;
  attempt.reportStep = () => last;
  const { connection, shards, workerId, clock, allowsDdl } = surroundings;
  const { run_pos, attempt: number } = attempt.ref;
  const say = async (report: StepReport, record: StepWord["record"]): Promise<StepAnswer> => {
    last = report;
    attempt.progressed(null);
    const word = { ...attempt.ref, worker_id: workerId, report, record };
    const answer = await connection.sayStep(word);
    if (answer.status === "current") return answer;
    throw new PawlError("LEASE_LOST", "The step is no longer this worker's.");
  };
  const host = {
    shard: (name: string) => shards.shard(name),
    token: run_pos * ATTEMPTS_MAX + number,
    signal: attempt.signal,
    allowsDdl,
    now: () => clock.now(),
    pause: (ms: number) => pause(clock, ms, attempt.signal),
  };
  try {
    if (step.work === "split") {
      const report = await runSplitStep(step, {
        ...host,
        say: (said, record) => say({ ...said, work: "split" }, record),
      });
      last = { ...report, work: "split" };
    } else {
      const report = await runMoveStep(step, {
        ...host,
        say: (said, record) => say({ ...said, work: "move" }, record),
      });
      last = { ...report, work: "move" };
    }
  } catch (error) {
    throw isFinal(error) ? doNotRetry(`${error.message} (${error.code})`) : error;
  }
}

function isFinal(error: unknown): error is PawlError {
  if (!(error instanceof PawlError) || PASSING.has(error.code)) return false;
  return !error.retryable || FALLS_BACK.has(error.code);
}

/** What a step on shards has around it. */
export interface StepHost<Report = SplitReport | MoveReport> {
  /** An open shard of that name. Throws SHARD_NOT_FOUND, or SHARD_UNREACHABLE. */
  shard(name: string): Promise<Shard>;
  /** The token of the guard: greater than that of every earlier attempt and step. */
  readonly token: number;
  readonly signal: AbortSignal;
  /** Whether splits may change schemas here; they may not unless told. */
  readonly allowsDdl?: boolean;
  /** Milliseconds that only grow. */
  now(): number;
  /** Waits so long, or less when the signal is aborted. */
  pause(ms: number): Promise<void>;
  /**
   * Says how far the step is, and has something recorded. Throws LEASE_LOST when the attempt is not
   * the current one, and SERVER_UNREACHABLE when it is not known what came of it.
   */
  say(report: Report, record: "caught_up" | "commit" | null): Promise<StepAnswer>;
}

/** Something that opens shards. */
export type ShardOpener = (address: ShardAddress) => Promise<Shard>;

/** Opens a shard where it is. Its driver is loaded then: most workers have no shards. */
export async function openShard(address: ShardAddress): Promise<Shard> {
  switch (address.type) {
    case "sqlite": {
      const { openSqliteShard } = await import("../../shards/sqlite/open-sqlite-shard.ts");
      return openSqliteShard({ file: address.file });
    }
    case "postgres": {
      const { openPostgresShard } = await import("../../shards/postgres/open-postgres-shard.ts");
      const { connectionString, schema } = address;
      return openPostgresShard({ connectionString, schema });
    }
    case "http": {
      const { openHttpShard } = await import("../../shards/http/open-http-shard.ts");
      return openHttpShard({ url: address.url, token: address.token });
    }
  }
}

/** The shards that a worker knows, each opened when it is first needed and kept open. */
export class OpenShards {
  readonly #addresses: ReadonlyMap<string, ShardAddress>;
  readonly #open = new Map<string, Promise<Shard>>();
  readonly #opener: ShardOpener;

  constructor(addresses: ReadonlyMap<string, ShardAddress>, opener: ShardOpener = openShard) {
    this.#addresses = addresses;
    this.#opener = opener;
  }

  /** The shard of a name. Throws SHARD_NOT_FOUND, and whatever keeps it from opening. */
  async shard(name: string): Promise<Shard> {
    const known = this.#open.get(name);
    if (known !== undefined) return known;
    const address = this.#addresses.get(name);
    if (address === undefined) {
      throw new PawlError(
        "SHARD_NOT_FOUND",
        `This worker's code does not say where the shard ${JSON.stringify(name)} is; it knows ` +
          `${[...this.#addresses.keys()].join(", ") || "none"}.`,
        { details: { shard: name } },
      );
    }
    const opening = this.#opener(address);
    this.#open.set(name, opening);
    // One that could not be opened is tried again by whoever needs it next.
    opening.catch(() => this.#open.delete(name));
    return opening;
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    const shards = await Promise.allSettled(open);
    await Promise.allSettled(
      shards.flatMap((each) => (each.status === "fulfilled" ? [each.value.close()] : [])),
    );
  }
}
