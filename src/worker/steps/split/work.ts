import { PawlError } from "../../../kernel/errors.ts";
import type { SplitReport, ClaimedSplit } from "../../../work/shard/step-protocol.ts";
import type { StepHost } from "../run-step.ts";
import { type TablePolicy, type Scope, tenantScope } from "../../../work/shard/spec.ts";
import type {
  RowChange,
  Position,
  Shard,
  StreamState,
  TableShape,
  Guard,
} from "../../../shards/shard.ts";
import type { StreamPlan } from "./decide-step.ts";

/** Says about once a second how far a step is, and hears whether it should end. */
export class Pulse {
  readonly #host: StepHost<SplitReport>;
  readonly #everyMs: number;
  #saidAt: number;
  #isStopped = false;
  #isRecorded = false;

  constructor(host: StepHost<SplitReport>, everyMs: number) {
    this.#host = host;
    this.#everyMs = everyMs;
    this.#saidAt = host.now();
  }

  /** Says the report when it is time; answers whether the step should end. Throws LEASE_LOST. */
  async beat(report: () => Promise<SplitReport>): Promise<boolean> {
    this.#host.signal.throwIfAborted();
    if (this.#host.now() - this.#saidAt < this.#everyMs) return this.#isStopped;
    return this.say(await report(), null);
  }

  /** Says the report now. A server that is away is no reason to stop: the lease says when to. */
  async say(report: SplitReport, record: "caught_up" | null): Promise<boolean> {
    this.#saidAt = this.#host.now();
    try {
      const { stop } = await this.#host.say(report, record);
      this.#isStopped ||= stop;
      this.#isRecorded ||= record !== null;
    } catch (error) {
      if (!(error instanceof PawlError && error.code === "SERVER_UNREACHABLE")) throw error;
    }
    return this.#isStopped;
  }

  /** Whether something was recorded. */
  get isRecorded(): boolean {
    return this.#isRecorded;
  }
}

/** A stream at work: what it carries from where to where, its state, and what it did so far. */
export type Stream = {
  readonly from: Shard;
  readonly to: Shard;
  readonly policies: readonly TablePolicy[];
  readonly limits: SplitLimits;
  readonly now: () => number;
  /** Whether the worker takes changes of the schema over: the log may be anybody's who writes there. */
  readonly allowsDdl: boolean;
  plan: StreamPlan;
  state: StreamState | null;
  /** Changes taken or left out by this attempt, and the last of them. */
  events: number;
  lastEvent: RowChange | null;
  /** Everything that had happened by then has been taken over; null when that is not known. */
  caughtUpAt: number | null;
};

/** Opens a stream where it stands. Its tables are as the target has them, which is what it can take. */
export async function openStream(
  given: Pick<Stream, "from" | "to" | "policies" | "limits" | "now" | "allowsDdl"> & {
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

/** A step of a split at work on its two shards. */
export type SplitWork = {
  readonly step: ClaimedSplit;
  readonly host: StepHost<SplitReport>;
  readonly limits: SplitLimits;
  readonly guard: Guard;
  readonly scope: Scope;
  readonly source: Shard;
  readonly target: Shard;
  readonly pulse: Pulse;
};

/** From the source to the target, or the way back. */
export type Direction = "forward" | "back";

/** Opens both shards and lets nobody but this step act on them for the split from now on. */
export async function takeSplit(
  step: ClaimedSplit,
  host: StepHost<SplitReport>,
  limits: SplitLimits,
): Promise<SplitWork> {
  const guard = { plan: step.split_id, token: host.token };
  const [source, target] = [await host.shard(step.source), await host.shard(step.target)];
  if (source.engine !== target.engine) {
    throw new PawlError(
      "INPUT_INVALID",
      `Shard ${step.source} is kept in ${source.engine} and ${step.target} in ${target.engine}. ` +
        "Split between shards of one engine.",
      { details: { source: source.engine, target: target.engine } },
    );
  }
  for (const shard of [source, target]) {
    await shard.install();
    await shard.take(guard);
  }
  const scope = tenantScope(step.tenants);
  const pulse = new Pulse(host, limits.sayEveryMs);
  return { step, host, limits, guard, scope, source, target, pulse };
}

/** Codes of a stream that cannot be made good: what it has missed nobody knows. */
const LOST = new Set(["SCHEMA_CHANGED", "VERIFICATION_FAILED"]);

/**
 * The failure of a stream, with what can be done about it where that is not what a shard advises: the
 * way back cannot be rolled back while it is broken, but it can be given up.
 */
export function advised(error: unknown, direction: Direction, { step }: SplitWork): unknown {
  if (direction === "forward" || !(error instanceof PawlError) || !LOST.has(error.code))
    return error;
  return new PawlError(
    error.code,
    `The way back of split ${step.split_id} is broken, so it cannot be rolled back now; ${step.target} ` +
      `serves on. If a schema was changed, put it back and resume; else complete the split, which gives the ` +
      `way back up. The reason: ${error.message}`,
    { details: { ...error.details }, cause: error },
  );
}

/** The name of a split's stream; the state of it is on the shard that it leads to. */
export function streamName(step: ClaimedSplit, direction: Direction): string {
  return direction === "forward" ? step.split_id : `${step.split_id}:back`;
}

/**
 * Opens the stream of a direction where it stands. What was given up because the stream had it must
 * not lie before it: then the shard that it leads to has gone back, and nobody knows what it lacks.
 */
export async function openSplitStream(work: SplitWork, direction: Direction): Promise<Stream> {
  const { step, host, limits, guard, scope, source, target } = work;
  const [from, to] = direction === "forward" ? [source, target] : [target, source];
  const stream = await openStream({
    from,
    to,
    policies: step.tables,
    limits,
    now: () => host.now(),
    allowsDdl: host.allowsDdl === true,
    plan: { guard, scope, stream: streamName(step, direction) },
  });
  const position = releasable(stream);
  if (position !== null) await from.release(guard, position);
  return stream;
}

/** How much a step on a split takes at once. */
export type SplitLimits = {
  /** Rows of the first chunk, of the smallest and of the greatest. */
  readonly chunkRows: number;
  readonly chunkRowsMin: number;
  readonly chunkRowsMax: number;
  /** Bytes that a chunk should not be much greater than. */
  readonly chunkBytes: number;
  /** How long reading and writing a chunk should take. */
  readonly chunkMs: number;
  /** Changes that are read at once. */
  readonly changesMax: number;
  /** Changes that are read once more to compare them, before the whole is compared again. */
  readonly recheckMax: number;
  /** Rows of a range that is compared. */
  readonly verifyRows: number;
  /** Rows that are deleted in one transaction. */
  readonly removeRows: number;
  /** How often a step says how far it is. */
  readonly sayEveryMs: number;
  /** How long a tail waits when there is nothing to do, at first and at most. */
  readonly idleMs: number;
  readonly idleMsMax: number;
  /** How long until a server is asked again what became of a commit record. */
  readonly askAgainMs: number;
};

/** What steps take when nobody says otherwise. */
export const SPLIT_LIMITS: SplitLimits = Object.freeze({
  chunkRows: 200,
  chunkRowsMin: 50,
  chunkRowsMax: 50_000,
  chunkBytes: 16_000_000,
  chunkMs: 100,
  changesMax: 5_000,
  recheckMax: 50_000,
  verifyRows: 50_000,
  removeRows: 5_000,
  sayEveryMs: 1_000,
  idleMs: 10,
  idleMsMax: 200,
  askAgainMs: 200,
});
