import type { TablePolicy } from "../../core/shard-spec.ts";
import type { Change, Position, Shard, StreamState, TableShape } from "../../shards/shard.ts";
import type { StreamPlan } from "./decide-step.ts";
import type { SplitLimits } from "./split-limits.ts";

/** A stream at work: what it carries from where to where, its state, and what it did so far. */
export type Stream = {
  readonly from: Shard;
  readonly to: Shard;
  readonly policies: readonly TablePolicy[];
  readonly limits: SplitLimits;
  readonly now: () => number;
  plan: StreamPlan;
  state: StreamState | null;
  /** Changes taken or left out by this attempt, and the last of them. */
  events: number;
  lastEvent: Change | null;
  /** Everything that had happened by then has been taken over; null when that is not known. */
  caughtUpAt: number | null;
};

/** Opens a stream where it stands. Its tables are as the target has them, which is what it can take. */
export async function openStream(
  given: Pick<Stream, "from" | "to" | "policies" | "limits" | "now"> & {
    plan: Omit<StreamPlan, "tables">;
  },
): Promise<Stream> {
  const tables: readonly TableShape[] = await given.to.describe(given.policies);
  return {
    ...given,
    plan: { ...given.plan, tables },
    state: await given.to.loadStream(given.plan.stream),
    events: 0,
    lastEvent: null,
    caughtUpAt: null,
  };
}

/** Whether the whole copy equals the source at the position of the stream, as far as was compared. */
export function isVerified({ state, plan }: Stream): boolean {
  return (
    state !== null &&
    state.reaching === null &&
    state.verified !== null &&
    state.verified.table === plan.tables.length &&
    state.verified.from === state.position
  );
}

/** What the source may forget: everything up to here was taken over and need not be read again. */
export function releasable({ state }: Stream): Position | null {
  return state === null ? null : (state.verified?.from ?? state.position);
}
