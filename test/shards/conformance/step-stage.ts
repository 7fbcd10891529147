import { PawlError } from "../../../src/kernel/errors.ts";
import { type TablePolicy, tenantScope } from "../../../src/work/shard/spec.ts";
import type {
  ClaimedMove,
  ClaimedSplit,
  MoveReport,
  MoveStep,
  SplitReport,
  SplitStep,
} from "../../../src/work/shard/step-protocol.ts";
import type { Shard } from "../../../src/shards/shard.ts";
import { runMoveStep } from "../../../src/worker/steps/move/move-steps.ts";
import { SPLIT_LIMITS } from "../../../src/worker/steps/split/work.ts";
import { runSplitStep } from "../../../src/worker/steps/split/split-steps.ts";
import type { StepHost } from "../../../src/worker/steps/run-step.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** Few rows at once, so that small tables take several turns. */
const LIMITS = { ...SPLIT_LIMITS, chunkRows: 3, chunkRowsMin: 2, chunkRowsMax: 4, removeRows: 3 };

/** What a ledger would know of one split between the shards of a pair. */
export class SplitStage {
  readonly pair: ShardPair;
  readonly tables: readonly TablePolicy[];
  tenants: readonly string[];
  /** The version of the routing, and the epoch under which each tenant was planned. */
  version = 1;
  epoch = 1;
  cutover: number | null = null;
  rollback: number | null = null;
  /** Whether the worker may change schemas. */
  allowsDdl = true;
  /** Counts the plans: one that was ended is planned again under another id. */
  plan = 1;
  #token = 0;

  constructor(pair: ShardPair, tables: readonly TablePolicy[], tenants: readonly string[]) {
    this.pair = pair;
    this.tables = tables;
    this.tenants = tenants;
  }

  /** The epoch under which the owner takes writes now. */
  get writtenUnder(): number {
    return this.rollback ?? this.cutover ?? this.epoch;
  }

  /** Writes as the application does, to whichever shard owns the tenant. */
  async write(tenant: string, ...sql: string[]): Promise<void> {
    const isThere = this.cutover !== null && this.rollback === null;
    await this.pair.write(isThere ? "target" : "source", tenant, this.writtenUnder, ...sql);
  }

  /** Begins the plan anew under its own id, as one that was rolled back. */
  runAgain(): void {
    this.epoch = this.writtenUnder;
    this.cutover = null;
    this.rollback = null;
  }

  /** Forgets the plan, as one that has ended, and begins another. */
  planAgain(): void {
    this.runAgain();
    this.plan += 1;
  }

  /** Runs steps one after the other, each to its end; gives the last report. */
  async run(...steps: readonly SplitStep[]): Promise<SplitReport> {
    let report: SplitReport = {};
    for (const step of steps) report = await this.step(step);
    return report;
  }

  /** Runs one step to its end. */
  step(step: SplitStep, given: Partial<ClaimedSplit> = {}): Promise<SplitReport> {
    this.#token += 1;
    const claimed: ClaimedSplit = {
      work: "split",
      split_id: `plan-${this.plan}`,
      step,
      n: this.#token,
      source: "source",
      target: "target",
      tenants: [...this.tenants],
      tables: [...this.tables],
      epochs: this.tenants.map(() => this.epoch),
      routing_version_cutover: this.cutover,
      routing_version_rollback: this.rollback,
      lag_limit_ms: 1_000,
      fence_wait_ms: 1_000,
      fence_hold_ms: 60_000,
      ddl: null,
      ...given,
    };
    return runSplitStep(claimed, this.#host(step), LIMITS);
  }

  #host(step: SplitStep): StepHost<SplitReport> {
    const host = hostOf<SplitReport>(this.pair, this.#token, async (_report, record) => {
      if (record === "commit" && step === "cutover") this.cutover ??= this.version += 1;
      if (record === "commit" && step === "cutback") this.rollback ??= this.version += 1;
      return {
        status: "current",
        stop: record === "caught_up" || step === "reverse",
        routing_version: step === "cutback" ? this.rollback : this.cutover,
      };
    });
    return { ...host, allowsDdl: this.allowsDdl };
  }
}

function hostOf<Report>(
  { source, target }: ShardPair,
  token: number,
  say: StepHost<Report>["say"],
): StepHost<Report> {
  const shards = new Map<string, Shard>([
    ["source", source],
    ["target", target],
  ]);
  let now = 0;
  return {
    shard: async (name) => {
      const shard = shards.get(name);
      if (shard === undefined) throw new PawlError("SHARD_NOT_FOUND", `There is no ${name}.`);
      return shard;
    },
    token,
    signal: new AbortController().signal,
    now: () => (now += 1),
    pause: async (ms) => {
      now += ms;
    },
    say,
  };
}

let moveTokens = 0;

/** Runs a step of a move of tenant `a` from the source to the target, with what a case is about. */
export function moveStep(
  pair: ShardPair,
  step: MoveStep,
  given: Partial<ClaimedMove> = {},
): Promise<MoveReport> {
  moveTokens += 1;
  const claimed: ClaimedMove = {
    work: "move",
    move_id: "move",
    step,
    index: 0,
    n: moveTokens,
    generation: 0,
    table: null,
    from: "source",
    to: "target",
    scope: tenantScope(["a"]),
    lower: null,
    upper: null,
    strategy: { type: "cardinality", rows: 5 },
    rows_per_second: null,
    replication_lag_ms: null,
    rows: null,
    digest: null,
    places: [],
    excluded: [],
    ...given,
  };
  const say = async () => ({ status: "current" as const, stop: false, routing_version: null });
  return runMoveStep(claimed, hostOf(pair, moveTokens, say), LIMITS);
}
