import type { MoveReport, SplitReport, StepAnswer } from "../core/step-protocol.ts";
import type { Shard } from "../shards/shard.ts";

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
