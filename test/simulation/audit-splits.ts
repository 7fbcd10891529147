import type { RouteRow } from "../../src/work/routing/rows.ts";
import type { SplitRow } from "../../src/work/split/rows.ts";
import type { ShardWorkRef } from "../../src/work/shard/step-protocol.ts";
import type { Audited } from "./audit-ledger.ts";
import type { ScratchRows } from "./audit-rows.ts";
import { AuditedSplit, LEGAL_PHASES } from "./audited-split.ts";
import type { Violations } from "./violations.ts";

type Check = (condition: boolean, promise: string, what: string) => void;
type Route = { shard: string; epoch: number };

/** Follows splits and the routing through the ledger. */
export class SplitAudit {
  readonly byId = new Map<string, AuditedSplit>();
  /** Where tenants are that were ever named. */
  readonly routes = new Map<string, Route>();
  readonly #violations: Violations;
  /** The active split of each tenant. */
  readonly #holders = new Map<string, string>();
  #version = 0;
  #default: Route | null = null;
  /** The change of the routing whose commit record must be the next event. */
  #open: Audited<"RoutingChanged"> | null = null;

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  /** A change of the routing by a split stands directly before its commit record. */
  expectNext(event: Audited): void {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    const { version, cause } = open.data;
    const isBeside =
      event.type === "SplitCutOver" &&
      cause.type === "split" &&
      event.data.split_id === cause.split_id &&
      event.data.direction === cause.direction &&
      event.data.routing_version === version;
    this.#violations.check(isBeside, "I53", `version ${version} has no commit record beside it`);
  }

  /** Looks at one event; most are none of its business. */
  see(event: Audited): void {
    switch (event.type) {
      case "RoutingChanged":
        return this.#routed(event);
      case "SplitPlanned":
        return this.#planned(event);
      case "SplitPhaseChanged":
        return this.#phaseChanged(event);
      case "SplitWanted":
        return this.#wanted(event);
      case "SplitStepSettled":
        return this.#settled(event);
      case "SplitCaughtUp":
        return this.#caughtUp(event);
      case "SplitCutOver":
        return this.#cutOver(event);
      case "RunRequested":
        return this.#requested(event);
      case "TasksStarted":
        return this.#tasksStarted(event);
      case "RunFinished":
        return this.#runFinished(event);
      default:
        return undefined;
    }
  }

  #routed(event: Audited<"RoutingChanged">): void {
    const { data, pos } = event;
    const { version, default_shard, routes, cause } = data;
    const check: Check = (condition, promise, what) =>
      this.#violations.check(condition, promise, `the routing at ${pos}: ${what}`);
    check(version === this.#version + 1, "I53", `version ${version} follows ${this.#version}`);
    this.#version = version;
    const split = cause.type === "split" ? this.#get(cause.split_id) : null;
    if (split !== null) {
      this.#open = event;
      const { tenants } = split.data;
      const isWhole =
        routes.length === tenants.length && routes.every(({ tenant }) => tenants.includes(tenant));
      check(isWhole && default_shard === undefined, "I53", "it moves others than its tenants");
    }
    for (const { tenant, shard } of routes) {
      const holder = this.#holders.get(tenant) ?? null;
      const isOwn = holder === (cause.type === "split" ? cause.split_id : null);
      check(isOwn, "I57", `${tenant} is moved although it is under ${holder}`);
      const before = this.#routeOf(tenant);
      check(before === null || before.epoch < version, "I53", `the epoch of ${tenant} stays`);
      this.routes.set(tenant, { shard, epoch: version });
    }
    if (default_shard === undefined) return;
    for (const [tenant, holder] of this.#holders) {
      check(this.routes.has(tenant), "I57", `${tenant} is moved although it is under ${holder}`);
    }
    this.#default = { shard: default_shard, epoch: version };
  }

  #planned({ data, pos }: Audited<"SplitPlanned">): void {
    const { split_id, tenants, source, target } = data;
    const check = this.#checking(split_id, pos);
    check(!this.byId.has(split_id) && source !== target, "I57", "it is there, or goes nowhere");
    check(new Set(tenants).size === tenants.length, "I57", "it names a tenant twice");
    this.#hold(data, data.epochs, check);
    this.byId.set(split_id, new AuditedSplit(data));
  }

  /** Tenants come under a split: they are on its source, and nobody else has them. */
  #hold(
    { split_id, tenants, source }: Audited<"SplitPlanned">["data"],
    epochs: readonly number[],
    check: Check,
  ): void {
    for (const [index, tenant] of tenants.entries()) {
      const route = this.#routeOf(tenant);
      check(route?.shard === source, "I53", `${tenant} is on ${route?.shard}, not ${source}`);
      check(route?.epoch === epochs[index], "I53", `the epoch of ${tenant} is ${route?.epoch}`);
      const holder = this.#holders.get(tenant);
      check(holder === undefined, "I57", `${tenant} is under ${holder} too`);
      this.#holders.set(tenant, split_id);
    }
  }

  #phaseChanged({ data, pos, occurred_at }: Audited<"SplitPhaseChanged">): void {
    const split = this.#get(data.split_id);
    const check = this.#checking(data.split_id, pos);
    const { from_phase, to_phase } = data;
    check(split.phase === from_phase, "I57", `it is ${split.phase}, not ${from_phase}`);
    const isLegal = LEGAL_PHASES[from_phase].includes(to_phase);
    check(isLegal, "I57", `${from_phase} to ${to_phase}`);
    this.#raise(split, data.state_version, check);
    split.phase = to_phase;
    check((from_phase === "rolled_back") === (data.again !== undefined), "I57", "a new plan");
    if (data.again !== undefined) {
      check(data.tenants?.join() === split.data.tenants.join(), "I57", "it leaves tenants out");
      this.#hold(split.data, data.again.epochs, check);
      split.beginAgain();
    }
    if (to_phase === "backfill") check(split.isArmed, "I55", "it copies before it is armed");
    if (to_phase === "tailing") {
      check(split.step === "copy" && split.outcome === "SUCCEEDED", "I55", "it is not copied");
      split.isCopied = true;
    }
    if (split.isActive) return;
    check(!split.isCommitting, "I53", "it ends with a commit record that is not carried out");
    const isBack = split.forward === null || split.back !== null;
    check(
      isBack === (to_phase === "rolled_back"),
      "I56",
      `${to_phase}, routed by ${split.forward}`,
    );
    if (to_phase === "completed") {
      split.removeAfter = new Date(Date.parse(occurred_at) + split.data.grace_ms).toISOString();
    }
    split.wanted = null;
    const { tenants } = split.data;
    check(data.tenants?.join() === tenants.join(), "I57", "it does not free all its tenants");
    for (const tenant of tenants) this.#holders.delete(tenant);
  }

  #wanted({ data, pos }: Audited<"SplitWanted">): void {
    const split = this.#get(data.split_id);
    const check = this.#checking(data.split_id, pos);
    const { wanted } = data;
    this.#raise(split, data.state_version, check);
    check(split.isActive && !split.isCommitting, "I57", `${wanted} while it is ${split.phase}`);
    const isFree = split.wanted === null || (wanted === "rollback" && split.wanted !== wanted);
    check(isFree, "I57", `${wanted} although ${split.wanted} is wanted`);
    const isTakenDown = split.phase === "reversible" && !split.isArmed;
    check(!isTakenDown, "I56", `${wanted} while the way back is taken down`);
    if (wanted === "cutover") {
      check(split.phase === "cutover_pending", "I55", `a cutover while it is ${split.phase}`);
    }
    if (wanted === "complete") {
      check(split.phase === "reversible", "I56", `a completion while it is ${split.phase}`);
    }
    split.wanted = wanted;
  }

  #settled({ data, pos }: Audited<"SplitStepSettled">): void {
    const split = this.#get(data.split_id);
    const check = this.#checking(data.split_id, pos);
    const { n, step, outcome, clears_wanted } = data;
    check(n === split.n && step === split.step, "I57", `step ${n} is settled, not ${split.n}`);
    const hasEnded = split.runPos === null && !split.isSettled;
    check(hasEnded, "I57", `step ${n} is settled before it has ended, or twice`);
    split.isSettled = true;
    if (clears_wanted) {
      const isOf = { cutover: "cutover", cutback: "rollback", ddl: "ddl" }[step as "ddl"];
      check(isOf === split.wanted, "I57", `${step} clears ${split.wanted}`);
      split.wanted = null;
    }
    const isCutover = step === "cutover" || step === "cutback";
    if (outcome === "fell_back") {
      check(isCutover && !split.isCommitting, "I55", `${step} falls back`);
    }
    if (outcome !== "done") return;
    check(split.outcome === "SUCCEEDED", "I57", `${step} is done, and ${split.outcome}`);
    if (isCutover) {
      check(split.isCommitting, "I53", `${step} is done without a commit record`);
      split.isCommitting = false;
    }
    if (step === "arm") split.isArmed = true;
    if (step === "remove") split.removeAfter = null;
  }

  #caughtUp({ data, pos }: Audited<"SplitCaughtUp">): void {
    const split = this.#get(data.split_id);
    const check = this.#checking(data.split_id, pos);
    this.#raise(split, data.state_version, check);
    const isTail = split.step === "tail" && data.n === split.n && split.runPos !== null;
    check(isTail && split.isStarted, "I55", `${split.step} is caught up`);
    check(split.isCopied, "I55", "it is caught up before it is copied");
    const isEarly = split.phase === "tailing" || split.phase === "cutover_pending";
    check(isEarly, "I55", `it is caught up while ${split.phase}`);
    const { verification } = data.report;
    split.isVerified = verification?.finished === true && verification.ok;
    check(split.isVerified, "I55", "it is caught up without being verified");
    split.phase = "cutover_pending";
  }

  #cutOver({ data, pos }: Audited<"SplitCutOver">): void {
    const split = this.#get(data.split_id);
    const check = this.#checking(data.split_id, pos);
    const { direction, routing_version: version } = data;
    this.#raise(split, data.state_version, check);
    check(version === this.#version, "I53", `${version} is not the newest version`);
    check(split.runPos !== null && data.n === split.n, "I53", "no step of it is at work");
    const { source, target, tenants } = split.data;
    const owner = direction === "forward" ? target : source;
    const isMoved = tenants.every((tenant) => this.#routeOf(tenant)?.shard === owner);
    check(isMoved, "I53", `not all of its tenants are on ${owner}`);
    check(!split.isCommitting, "I53", "it commits before the last commit is carried out");
    split.isCommitting = true;
    if (direction === "forward") {
      check(split.forward === null, "I53", "it is cut over twice");
      const isOpen = split.phase === "cutover_pending" && split.wanted === "cutover";
      check(isOpen && split.step === "cutover", "I55", `a commit while it is ${split.phase}`);
      check(split.isCopied && split.isVerified, "I55", "a commit of what is not verified");
      split.phase = "reversible";
      split.forward = version;
      return;
    }
    check(
      split.forward !== null && split.back === null,
      "I53",
      "it is cut back twice, or never cut",
    );
    const isOpen = split.phase === "reversible" && split.wanted === "rollback";
    check(isOpen && split.step === "cutback", "I56", `a way back while it is ${split.phase}`);
    split.back = version;
  }

  #requested({ data, pos, occurred_at }: Audited<"RunRequested">): void {
    const source = data.trigger_source_ref;
    if (source.type !== "shards" || source.work.work !== "split") return;
    const { split_id, step, n } = source.work;
    const split = this.#get(split_id);
    const check = this.#checking(split_id, pos);
    check(split.runPos === null && split.isSettled, "I57", `${step} beside ${split.step}`);
    check(n === split.n + 1, "I57", `step ${n} follows ${split.n}`);
    const fault = split.faultOf(step, occurred_at);
    check(fault === null, "I57", fault ?? "");
    Object.assign(split, { n, step, runPos: pos, isSettled: false, isStarted: false });
    split.outcome = null;
  }

  #tasksStarted({ data }: Audited<"TasksStarted">): void {
    const split = this.#splitOf(data.shard_work);
    if (split === null) return;
    split.isStarted = true;
    if (split.step === "finish" || split.step === "discard") split.isArmed = false;
  }

  #runFinished({ data, pos }: Audited<"RunFinished">): void {
    const split = this.#splitOf(data.shard_work);
    if (split === null) return;
    const check = this.#checking(split.data.split_id, pos);
    check(split.runPos === data.run_pos, "I57", "a run ends that is not its own");
    split.runPos = null;
    split.outcome = data.outcome;
    // What a tail finds wrong has to be found right again before anything is cut over.
    if (split.step === "tail" && data.outcome === "FAILED") split.isVerified = false;
  }

  /** The refolded rows say what the auditor understood. */
  compareRows({ type, data, pos }: Audited, scratch: ScratchRows): void {
    const ids = "split_id" in data ? [data.split_id] : [];
    for (const id of ids) this.#compareSplit(id, pos, scratch);
    if (type !== "RoutingChanged") return;
    for (const { tenant } of data.routes) {
      const row = JSON.parse(scratch.text("routes", tenant) ?? "null") as RouteRow | null;
      const route = this.routes.get(tenant);
      const isSame = row?.shard === route?.shard && row?.epoch === route?.epoch;
      this.#violations.check(isSame, "I12", `the route of ${tenant} at ${pos} is ${row?.shard}`);
    }
  }

  #compareSplit(id: string, pos: number, scratch: ScratchRows): void {
    const split = this.byId.get(id);
    const text = scratch.text("splits", id);
    if (split === undefined || text === null) return;
    const row = JSON.parse(text) as SplitRow;
    for (const [cell, value] of Object.entries(split.expectedRow())) {
      const found = row[cell as keyof SplitRow];
      const what = `${cell} of ${id} at ${pos} is ${JSON.stringify(found)}, not ${JSON.stringify(value)}`;
      this.#violations.check(found === value, "I12", what);
    }
  }

  #raise(split: AuditedSplit, version: number, check: Check): void {
    check(version === split.version + 1, "I7", `version ${version} follows ${split.version}`);
    split.version = version;
  }

  #routeOf(tenant: string): Route | null {
    return this.routes.get(tenant) ?? this.#default;
  }

  #splitOf(work: ShardWorkRef | undefined): AuditedSplit | null {
    return work?.work === "split" ? this.#get(work.split_id) : null;
  }

  #get(id: string): AuditedSplit {
    const split = this.byId.get(id);
    if (split === undefined) throw new Error(`there is no split ${id}`);
    return split;
  }

  #checking(id: string, pos: number): Check {
    return (condition, promise, what) =>
      this.#violations.check(condition, promise, `split ${id} at ${pos}: ${what}`);
  }
}
