import { PawlError } from "../../src/kernel/errors.ts";
import type {
  ClaimedSplit,
  SplitReport,
  SplitStep,
  StepAnswer,
} from "../../src/work/shard/step-protocol.ts";
import type { SplitLimits } from "../../src/worker/steps/split/work.ts";
import { runSplitStep } from "../../src/worker/steps/split/split-steps.ts";
import type { StepHost } from "../../src/worker/steps/run-step.ts";
import type { Random } from "../simulation/random.ts";
import type { Pair, Variant } from "./broken-shards.ts";
import type { Application, Side } from "./splits-application.ts";
import { Attempt, type FrozenCall, Killed, thaw } from "./splits-attempt.ts";
import { MOVING, TABLES } from "./splits-tables.ts";

/** How often what happens between two calls of a coordinator. */
export type SplitPace = {
  readonly writeRate: number;
  readonly otherRate: number;
  readonly killRate: number;
  /** How often the ledger does not answer, having heard or not. */
  readonly lossRate: number;
  /** The step after which the tenants are not written any more. */
  readonly freezeAfter: SplitStep | null;
  /** How often a write is left open while the coordinator goes on. */
  readonly openRate: number;
  /** How often the tenants are written between two calls of a cutover, whatever else. */
  readonly cutoverRate: number;
};

/** Nobody writes and nothing fails. */
export const QUIET_PACE: SplitPace = {
  writeRate: 0,
  otherRate: 0,
  killRate: 0,
  lossRate: 0,
  freezeAfter: null,
  openRate: 0,
  cutoverRate: 0,
};

/** Attempts at a step after which it is let alone, and in all. */
const TROUBLED_MAX = 12;
const ATTEMPTS_MAX = 40;
/** Calls of an attempt during which others write, and after which it goes on for ever. */
const BUSY_CALLS_MAX = 120;
const CALLS_MAX = 20_000;
const RETRIED = new Set(["FENCE_BUSY", "FENCE_EXPIRED", "NOT_YET", "SHARD_BUSY"]);

type Times = Pick<ClaimedSplit, "fence_wait_ms" | "fence_hold_ms">;

/** Takes splits through their steps, with crashes, and looks after every one of them. */
export class SplitDriver {
  readonly violations: string[] = [];
  attempts = 0;
  readonly #application: Application;
  readonly #random: Random;
  readonly #pace: SplitPace;
  readonly #variant: Variant | null;
  readonly #notes: Record<string, string> = {};
  #pair: Pair | null = null;
  #now = 0;
  #version = 1;
  #epoch = 1;
  #cutover: number | null = null;
  #rollback: number | null = null;
  #isWriting = true;
  /** Whether the other side refuses, and whether both refuse what was not routed. */
  #isArmed = false;
  #isChecked = false;
  #step: SplitStep | null = null;
  #words = 0;
  #frozen: FrozenCall | null = null;
  #ddls = 0;

  constructor(application: Application, random: Random, pace: SplitPace, variant: Variant | null) {
    this.#application = application;
    this.#random = random;
    this.#pace = pace;
    this.#variant = variant;
  }

  async open(): Promise<void> {
    this.#pair = await this.#application.openShards();
  }

  async close(): Promise<void> {
    this.#application.commit();
    await this.#pair?.source.close();
    await this.#pair?.target.close();
  }

  /** Takes one split through its steps, each as often as it takes. */
  async runSplit(
    plan: string,
    steps: readonly SplitStep[],
    limits: SplitLimits,
    times: Times,
  ): Promise<void> {
    this.#cutover = null;
    this.#rollback = null;
    for (const [at, step] of steps.entries()) {
      if (!(await this.#runStep(this.#claimed(plan, step, at + 1, times), limits))) return;
      if (step === this.#pace.freezeAfter) this.#isWriting = false;
      if (step === "arm") this.#isArmed = this.#isChecked = true;
      if (step === "ddl") this.#application.changeSchema(ddlOf(this.#ddls++));
      this.#lookAfter(step);
      if (this.violations.length > 0) return;
    }
    this.#epoch = this.#rollback ?? this.#cutover ?? this.#epoch;
  }

  /** What a step found; null when it failed for good. */
  async #runStep(step: ClaimedSplit, limits: SplitLimits): Promise<boolean> {
    for (let tries = 1; tries <= ATTEMPTS_MAX; tries++) {
      const isTroubled = tries <= TROUBLED_MAX;
      const recorded = {
        routing_version_cutover: this.#cutover,
        routing_version_rollback: this.#rollback,
      };
      // A fence that is too short for this machine would never do.
      const patient = isTroubled ? {} : { fence_wait_ms: 5_000, fence_hold_ms: 60_000 };
      const claimed = { ...step, ...recorded, ...patient };
      const failure = await this.#attempt(claimed, limits, isTroubled ? this.#pace.killRate : 0);
      this.#application.commit();
      if (failure === null) return true;
      if (failure instanceof Killed) continue;
      if (failure instanceof PawlError && RETRIED.has(failure.code)) continue;
      const said = failure instanceof PawlError ? `${failure.code} ` : "";
      const what = failure instanceof Error ? (failure.stack ?? failure.message) : "";
      this.violations.push(`I57 ${step.step} fails: ${said}${what}`);
      return false;
    }
    this.violations.push(`I57 ${step.step} does not end`);
    return false;
  }

  async #attempt(step: ClaimedSplit, limits: SplitLimits, killRate: number): Promise<unknown> {
    this.attempts += 1;
    this.#words = 0;
    this.#step = step.step;
    if (step.step === "discard") this.#isArmed = this.#rollback !== null;
    if (step.step === "discard" || step.step === "finish") this.#isChecked = false;
    const attempt = new Attempt(this.#random.fork(), killRate, {
      between: async (calls) => this.#between(calls),
      freeze: (call) => {
        if (this.#random.chance(0.5)) this.#frozen ??= call;
      },
    });
    try {
      await runSplitStep(step, this.#host(step, attempt), limits);
      return null;
    } catch (error) {
      return error;
    }
  }

  #host(step: ClaimedSplit, attempt: Attempt): StepHost<SplitReport> {
    if (this.#pair === null) throw new Error("The shards are not open.");
    const { source, target } = this.#pair;
    const inside = this.#variant?.inside;
    const made =
      inside === undefined
        ? { source, target }
        : { source: inside(source, this.#notes), target: inside(target, this.#notes) };
    const seen = attempt.around(made);
    const pair = this.#variant?.outside?.(seen, this.#notes) ?? seen;
    return {
      shard: async (name) => pair[name as Side],
      token: this.attempts,
      allowsDdl: true,
      signal: new AbortController().signal,
      now: () => (this.#now += 1),
      pause: async (ms) => {
        this.#now += ms;
        await attempt.call(async () => undefined);
      },
      say: async (_, record) => attempt.call(async () => this.#answer(step.step, record)),
    };
  }

  /** What happens while a coordinator waits for a call. */
  async #between(calls: number): Promise<void> {
    const { otherRate, openRate, cutoverRate } = this.#pace;
    const isCutover = this.#step === "cutover" || this.#step === "cutback";
    const still = this.#isWriting ? this.#pace.writeRate : 0;
    const writeRate = isCutover ? Math.max(cutoverRate, still) : still;
    if (calls > CALLS_MAX) throw new Error("the step goes on for ever");
    this.#application.commit();
    // With a batch of one change, no tail keeps up with writers that never rest.
    const isBusy = calls < BUSY_CALLS_MAX;
    if (isBusy && this.#random.chance(otherRate)) {
      this.#application.write(this.#random.pick(["stays", "native"]));
      this.#application.commit();
    }
    if (isBusy && this.#random.chance(writeRate)) {
      this.#application.write(this.#random.pick(["t1", "t2"]));
      // Ended while the coordinator's own call waits for it.
      if (this.#random.chance(openRate)) setImmediate(() => this.#application.commit());
      else this.#application.commit();
    }
    if (this.#random.chance(isCutover ? 0.1 : 0.02)) this.#probe();
    // Whoever goes on has both shards by then.
    if (this.#frozen === null || calls < 8 || !this.#random.chance(0.3)) return;
    const call = this.#frozen;
    this.#frozen = null;
    const wrong = await thaw(call);
    if (wrong !== null) this.violations.push(`I57 ${wrong}`);
  }

  #answer(step: SplitStep, record: "caught_up" | "commit" | null): StepAnswer {
    const isLost = this.#random.chance(this.#pace.lossRate);
    const isHeard = !isLost || this.#random.chance(0.5);
    if (isHeard && record === "commit") this.#commit(step);
    if (isLost) throw new PawlError("SERVER_UNREACHABLE", "The server does not answer.");
    this.#words += 1;
    if (this.#words > 2_000) throw new Error(`${step} never ends`);
    const isEnough = step === "reverse" && this.#words > 3;
    const routing_version = step === "cutback" ? this.#rollback : this.#cutover;
    return { status: "current", stop: record === "caught_up" || isEnough, routing_version };
  }

  #commit(step: SplitStep): void {
    if ((step === "cutback" ? this.#rollback : this.#cutover) !== null) return;
    this.#application.commit();
    const [ours, theirs] = [this.#application.rowsOn("source"), this.#application.rowsOn("target")];
    this.#expectSame("I55 at the commit record the shards differ", ours, theirs);
    const from = this.#owner();
    for (const tenant of MOVING) {
      if (this.#application.wouldTake(from, tenant, this.#present())) {
        this.violations.push(`I55 ${from} takes writes at the commit record`);
      }
      const state = this.#application.fenceOn(from, tenant);
      if (state !== "held") this.violations.push(`I55 a fence is ${state} at the commit record`);
    }
    this.#version += 1;
    if (step === "cutback") this.#rollback = this.#version;
    else this.#cutover = this.#version;
  }

  /** Looks whether anybody but the owner serves, or takes a write that was not routed. */
  #probe(): void {
    if (!this.#isArmed) return;
    const other = this.#owner() === "source" ? "target" : "source";
    const tenant = this.#random.pick(MOVING);
    const epochs = Array.from({ length: this.#version }, (_, at) => at + 1);
    if (epochs.some((epoch) => this.#application.wouldTake(other, tenant, epoch))) {
      this.violations.push(`I53 ${other} takes a write of ${tenant}, which is not there`);
    }
    const answering = (["source", "target"] as const).filter((side) =>
      epochs.some((epoch) => this.#application.wouldAnswer(side, tenant, epoch)),
    );
    if (answering.length > 1) this.violations.push(`I53 both shards answer reads of ${tenant}`);
    for (const side of this.#isChecked ? (["source", "target"] as const) : []) {
      if (!this.#application.wouldTake(side, tenant, null)) continue;
      this.violations.push(`I53 ${side} takes a write of ${tenant} that was not routed`);
    }
  }

  /** What must be so after every step. */
  #lookAfter(step: SplitStep): void {
    const application = this.#application;
    const owner = this.#owner();
    this.#expectSame(
      `I54 after ${step} ${owner} differs from what was acknowledged`,
      application.acknowledgedRows(),
      application.rowsOn(owner),
    );
    for (const [tenant, side] of [
      ["stays", "source"],
      ["native", "target"],
    ] as const) {
      const [truth, found] = [
        application.acknowledgedRows([tenant]),
        application.rowsOn(side, [tenant]),
      ];
      this.#expectSame(`I54 after ${step} ${tenant} differs`, truth, found);
      const elsewhere = application.rowsOn(side === "source" ? "target" : "source", [tenant]);
      this.#expectSame(`I54 after ${step} ${tenant} is elsewhere too`, [], elsewhere);
    }
    if (step === "discard")
      this.#expectSame("I56 the copy is left", [], application.rowsOn("target"));
    if (step === "remove") this.#expectSame("I56 rows are left", [], application.rowsOn("source"));
    this.#probe();
  }

  #expectSame(what: string, expected: readonly string[], found: readonly string[]): void {
    const missing = expected.filter((row) => !found.includes(row));
    const extra = found.filter((row) => !expected.includes(row));
    if (missing.length + extra.length === 0) return;
    this.violations.push(`${what}: missing ${missing.join(" | ")}; extra ${extra.join(" | ")}`);
  }

  #owner(): Side {
    return this.#cutover !== null && this.#rollback === null ? "target" : "source";
  }

  #present(): number {
    return this.#rollback ?? this.#cutover ?? this.#epoch;
  }

  #claimed(split_id: string, step: SplitStep, n: number, times: Times): ClaimedSplit {
    return {
      work: "split",
      split_id,
      step,
      n,
      source: "source",
      target: "target",
      tenants: [...MOVING],
      tables: [...TABLES],
      epochs: MOVING.map(() => this.#epoch),
      routing_version_cutover: null,
      routing_version_rollback: null,
      lag_limit_ms: 1_000,
      ...times,
      ddl: step === "ddl" ? ddlOf(this.#ddls) : null,
    };
  }
}

/** A change of the schema that means the same before and after any write. */
function ddlOf(at: number): string {
  return `alter table accounts add column extra${at} integer default ${at}`;
}
