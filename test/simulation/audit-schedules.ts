import type { EventData } from "../../src/work/events.ts";
import type { ScheduleRow } from "../../src/work/schedule/rows.ts";
import type { BackfillAudit } from "./audit-backfills.ts";
import type { Audited } from "./audit-ledger.ts";
import type { RowDump } from "./audit-rows.ts";
import { AuditedSchedule } from "./audited-schedule.ts";
import type { Violations } from "./violations.ts";

type Ticked = EventData<"ScheduleTicked">;
type Check = (condition: boolean, promise: string, what: string) => void;

/** Follows schedules through the ledger: which times there were, and what became of each. */
export class ScheduleAudit {
  readonly #backfills: BackfillAudit;
  readonly #violations: Violations;
  readonly #byId = new Map<string, AuditedSchedule>();
  readonly #scheduleOfRun = new Map<number, AuditedSchedule>();
  /** The tick whose request must stand directly after it. */
  #awaited: Ticked | null = null;

  constructor(backfills: BackfillAudit, violations: Violations) {
    this.#backfills = backfills;
    this.#violations = violations;
  }

  /** A tick that asked for something is followed by what it asked for, and only by that. */
  expectNext(event: Audited): void {
    const tick = this.#awaited;
    this.#awaited = null;
    const isOurs =
      event.type === "RunRequested" && event.data.trigger_source_ref.type === "schedule";
    if (tick === null) {
      this.#violations.check(!isOurs, "I70", `the run at ${event.pos} has no tick before it`);
      return;
    }
    this.#violations.check(
      isRequestOf(tick, event),
      "I70",
      `tick ${tick.tick_id} and the ${event.type} at ${event.pos} do not belong together`,
    );
  }

  published({ data, pos, occurred_at }: Audited<"DefinitionsPublished">): void {
    const at = Date.parse(occurred_at);
    for (const { body, spec_hash, entity } of data.specs) {
      if (body.kind !== "schedule") continue;
      if (entity === undefined) throw new Error(`Schedule ${body.name} has no id.`);
      const before = this.#byId.get(entity.id);
      const schedule = before ?? new AuditedSchedule(entity.id, body, at);
      if (before !== undefined) {
        this.#close(before, at, pos);
        before.throughMs = Math.max(before.throughMs, at);
        before.version += 1;
      }
      this.#byId.set(entity.id, schedule);
      schedule.define(body, spec_hash, data.definition_version);
      this.#checkNext(schedule, entity.next, schedule.throughMs, pos);
    }
    for (const { kind, id } of data.removed) {
      if (kind !== "schedule") continue;
      const schedule = this.#get(id ?? "");
      this.#close(schedule, at, pos);
      schedule.state = "DELETED";
      schedule.version += 1;
    }
  }

  /** Before another definition, everything up to now is decided by the old one. */
  #close(schedule: AuditedSchedule, at: number, pos: number): void {
    const { name, state } = schedule;
    const check = this.#checker(schedule, pos);
    check(state !== "DELETED", "I24", "it is defined again after it was deleted");
    const left = schedule.timesBetween(schedule.throughMs, at);
    check(left.length === 0, "I24", `${left.length} times of ${name} are lost by a change`);
    this.#endClosing(schedule, at, pos);
    this.#endDecision(schedule);
    schedule.decision = null;
  }

  /** What could be decided only for a resumption or a change stands beside it. */
  #endClosing(schedule: AuditedSchedule, at: number | null, pos: number): void {
    const { closingAt } = schedule;
    schedule.closingAt = null;
    if (closingAt === null || closingAt === at) return;
    this.#checker(schedule, pos)(false, "I24", "its times were decided before they were due");
  }

  ticked({ data, pos, occurred_at }: Audited<"ScheduleTicked">): void {
    const schedule = this.#get(data.schedule_id);
    const check = this.#checker(schedule, pos);
    const at = Date.parse(occurred_at);
    const time = Date.parse(data.scheduled_for);
    schedule.tickEvents += 1;
    schedule.counts[data.status] += 1;
    check(schedule.state !== "DELETED", "I24", "it ticks after it was deleted");
    const isInForce =
      data.definition_version === schedule.definitionVersion &&
      data.spec_hash === schedule.specHash;
    check(isInForce, "I22", "the tick names another definition than the one in force");
    this.#checkShape(schedule, data, check);
    if (data.status === "triggered") {
      this.#awaited = data;
      schedule.lastBackfillId = data.backfill_id ?? schedule.lastBackfillId;
    }
    if (data.manual) {
      const name = `${data.schedule_id}:manual:${Math.floor(at / 1_000)}`;
      check(data.tick_id === name || data.tick_id.startsWith(`${name}:`), "I19", data.tick_id);
      check(data.next === null, "I20", "a manual tick moves the schedule");
      return;
    }
    check(data.tick_id === `${data.schedule_id}:${time / 1_000}`, "I19", data.tick_id);
    this.#decide(schedule, [time], data, at, pos);
    this.#checkNext(schedule, data.next, time, pos, this.#isClosing(schedule, data.next, at));
  }

  skipped({ data, pos, occurred_at }: Audited<"ScheduleTicksSkipped">): void {
    const schedule = this.#get(data.schedule_id);
    const check = this.#checker(schedule, pos);
    const through = Date.parse(data.through);
    const times = schedule.timesBetween(Date.parse(data.from) - 1, through);
    const isExact = times[0] === Date.parse(data.from) && times.at(-1) === through;
    check(isExact, "I21", `${data.from} to ${data.through} are not times of it`);
    check(times.length === data.count, "I21", `${data.count} times are ${times.length}`);
    schedule.tickEvents += 1;
    schedule.counts.skipped += data.count;
    const isInForce = data.definition_version === schedule.definitionVersion;
    check(isInForce, "I22", "the skip names another definition than the one in force");
    const said = { status: "skipped", reason: data.reason } as const;
    const at = Date.parse(occurred_at);
    this.#decide(schedule, times, said, at, pos);
    this.#checkNext(schedule, data.next, through, pos, this.#isClosing(schedule, data.next, at));
  }

  /** Times in a row are decided: the first that was open, and no other before it. */
  #decide(
    schedule: AuditedSchedule,
    times: readonly number[],
    said: Pick<Ticked, "status" | "reason">,
    at: number,
    pos: number,
  ): void {
    const check = this.#checker(schedule, pos);
    const [first = Number.NaN] = times;
    const last = times.at(-1) ?? Number.NaN;
    check(first > schedule.throughMs, "I20", `${instant(first)} was decided before`);
    const next = schedule.nextAfter(schedule.throughMs);
    check(next === first, "I21", `${instant(next)} is left out before ${instant(first)}`);
    check(last <= at, "I21", `${instant(last)} is decided at ${instant(at)}, before it comes`);
    schedule.throughMs = Math.max(schedule.throughMs, last);
    const decision = this.#decisionAt(schedule, at);
    const isEarly = last + schedule.offsetMs > at;
    if (isEarly) schedule.closingAt = at;
    if (schedule.state === "PAUSED") {
      check(said.reason === "paused", "I21", `it is paused, and ${said.reason ?? said.status}`);
      schedule.closingAt = at;
      return;
    }
    check(said.reason !== "paused", "I21", "it skips as paused what it does not");
    if (said.reason === "catchup_limit") decision.isLimited = true;
    if (said.reason === "catchup_window") {
      check(last < at - schedule.windowMs, "I22", `${instant(last)} is within the window`);
    }
    if (said.reason === "overlap") this.#checkOverlap(schedule, last, at, check);
    if (said.reason === "catchup_limit" || said.reason === "catchup_window") return;
    if (said.reason === "overlap" && schedule.spec.overlap === "buffer_one") return;
    this.#checkActed(schedule, last, at, isEarly, said, check);
  }

  /** A time that was acted on is within the limits, and alone where one run goes at a time. */
  #checkActed(
    schedule: AuditedSchedule,
    time: number,
    at: number,
    isEarly: boolean,
    { status }: Pick<Ticked, "status">,
    check: Check,
  ): void {
    const { spec, offsetMs, windowMs } = schedule;
    const decision = this.#decisionAt(schedule, at);
    decision.acted += 1;
    if (isEarly) decision.actedEarly += 1;
    const most = Math.max(1, spec.max_catchup_ticks);
    const onTime = decision.acted - decision.actedEarly;
    check(onTime <= most && decision.actedEarly <= most, "I22", `${decision.acted} at once`);
    const waited = spec.overlap === "buffer_one" && schedule.hadToWait(time);
    const oldest = at - offsetMs - (spec.max_catchup_ticks === 0 ? 60_000 : windowMs);
    check(waited || time >= oldest, "I22", `${instant(time)} is too old at ${instant(at)}`);
    if (status !== "triggered" || spec.overlap === "allow") return;
    check(!this.#isBusy(schedule), "I21", `it asks for a second run at ${instant(at)}`);
  }

  #checkOverlap(schedule: AuditedSchedule, time: number, at: number, check: Check): void {
    const { spec } = schedule;
    if (spec.overlap === "buffer_one") {
      if (schedule.hadToWait(time)) return;
      // What still waits for a run is given up only for a change of the definition.
      check(schedule.activeRuns.size > 0, "I21", `${instant(time)} had nothing to wait for`);
      schedule.closingAt = at;
      return;
    }
    const mayOverlap = spec.selection.type === "stale" || this.#isBusy(schedule);
    check(mayOverlap, "I21", `${instant(time)} overlaps nothing`);
  }

  #isBusy(schedule: AuditedSchedule): boolean {
    if (schedule.activeRuns.size > 0) return true;
    // One that lets a time wait knows runs only; a backfill can be of an earlier definition.
    if (schedule.spec.overlap === "buffer_one") return false;
    const backfill = this.#backfills.byId.get(schedule.lastBackfillId ?? "");
    return backfill !== undefined && !backfill.isEnded;
  }

  /** What is decided at this instant; ends the account of what was decided before. */
  #decisionAt(schedule: AuditedSchedule, at: number) {
    if (schedule.decision?.at !== at) {
      this.#endDecision(schedule);
      schedule.decision = { at, acted: 0, actedEarly: 0, isLimited: false };
    }
    return schedule.decision;
  }

  #endDecision({ decision, spec, name }: AuditedSchedule): void {
    if (decision === null || !decision.isLimited) return;
    const { max_catchup_ticks, overlap } = spec;
    const least = overlap === "buffer_one" ? Math.min(1, max_catchup_ticks) : max_catchup_ticks;
    const what = `${name} skips times at ${instant(decision.at)} and catches up ${decision.acted}`;
    this.#violations.check(decision.acted >= least, "I22", what);
  }

  /** A tick says all that goes with its status, and asks for what the definition says. */
  #checkShape({ spec }: AuditedSchedule, data: Ticked, check: Check): void {
    const { status, reason, error, run_key, run_id, backfill_id } = data;
    check((status === "skipped") === (reason !== null), "I21", `${status} with ${reason}`);
    check((status === "failed") === (error !== null), "I21", `${status} with an error or none`);
    const isStale = spec.selection.type === "stale";
    const hasRun = run_key !== null && run_id !== null && backfill_id === null;
    const hasBackfill = backfill_id !== null && run_key === null && run_id === null;
    const hasNothing = run_key === null && run_id === null && backfill_id === null;
    const isWhole = status === "triggered" ? (isStale ? hasBackfill : hasRun) : hasNothing;
    check(isWhole, "I70", `${status} with ${run_key ?? backfill_id ?? "no request"}`);
    check(run_key === null || run_key === `sched:${data.tick_id}`, "I19", `its run is ${run_key}`);
    check(data.asset_selection.join() === spec.asset_selection.join(), "I70", "other assets");
    if (status !== "triggered" || spec.selection.type !== "tick_time") return;
    const hourMs = Date.parse(data.scheduled_for) + spec.selection.offset * 3_600_000;
    const key = new Date(hourMs).toISOString().slice(0, 13).replace("T", "-");
    check(data.partition_selection?.join() === key, "I70", `its partition is not ${key}`);
  }

  /** Whether a decision knows nothing of the jitter, which only one before a change may do. */
  #isClosing(schedule: AuditedSchedule, next: Ticked["next"], at: number): boolean {
    if (next === null || next.due_at !== next.scheduled_for || schedule.offsetMs === 0)
      return false;
    schedule.closingAt = at;
    return true;
  }

  #checkNext(
    schedule: AuditedSchedule,
    next: Ticked["next"],
    afterMs: number,
    pos: number,
    isClosing = false,
  ): void {
    const expected = schedule.nextAfter(afterMs);
    // A definition that goes puts off nothing any more.
    const offsetMs = isClosing ? 0 : schedule.offsetMs;
    const due = expected === null ? null : expected + offsetMs;
    const check = this.#checker(schedule, pos);
    check(
      next?.scheduled_for === instant(expected),
      "I21",
      `it goes on with ${JSON.stringify(next)}`,
    );
    check(next?.due_at === instant(due), "I21", `it is due next at ${next?.due_at}`);
  }

  paused({ data, pos, occurred_at }: Audited<"SchedulePaused">): void {
    const schedule = this.#get(data.schedule_id);
    this.#transition(schedule, "ACTIVE", "PAUSED", data.state_version, pos);
    const isWaiting = schedule.spec.overlap === "buffer_one" && schedule.activeRuns.size > 0;
    this.#checkNoneDue(schedule, Date.parse(occurred_at), pos, isWaiting);
  }

  resumed({ data, pos, occurred_at }: Audited<"ScheduleResumed">): void {
    const schedule = this.#get(data.schedule_id);
    const at = Date.parse(occurred_at);
    this.#transition(schedule, "PAUSED", "ACTIVE", data.state_version, pos);
    this.#endClosing(schedule, at, pos);
    this.#checkNoneDue(schedule, at, pos, schedule.spec.catch_up_on_resume);
    this.#checkNext(schedule, data.next, schedule.throughMs, pos);
  }

  /** Whatever was due before a pause or during it is decided with it. */
  #checkNoneDue(schedule: AuditedSchedule, at: number, pos: number, isLeft: boolean): void {
    if (isLeft) return;
    const left = schedule.timesBetween(schedule.throughMs, at - schedule.offsetMs);
    this.#checker(schedule, pos)(left.length === 0, "I21", `${left.length} times are left open`);
  }

  #transition(
    schedule: AuditedSchedule,
    from: AuditedSchedule["state"],
    to: AuditedSchedule["state"],
    version: number,
    pos: number,
  ): void {
    const check = this.#checker(schedule, pos);
    check(schedule.state === from, "I24", `it is ${schedule.state} and becomes ${to}`);
    check(version === schedule.version + 1, "I24", `version ${version} of ${schedule.version}`);
    schedule.state = to;
    schedule.version = version;
  }

  requested({ data, pos }: Audited<"RunRequested">): void {
    const source = data.trigger_source_ref;
    if (source.type !== "schedule") return;
    const schedule = this.#get(source.schedule_id);
    schedule.activeRuns.add(pos);
    this.#scheduleOfRun.set(pos, schedule);
  }

  runFinished({ data, occurred_at }: Audited<"RunFinished">): void {
    const schedule = this.#scheduleOfRun.get(data.run_pos);
    if (schedule === undefined) return;
    schedule.activeRuns.delete(data.run_pos);
    schedule.lastRunEndedMs = Date.parse(occurred_at);
  }

  /** Nothing is half done. */
  auditEnd(): void {
    this.#violations.check(this.#awaited === null, "I70", "the last tick has no request");
    for (const schedule of this.#byId.values()) {
      this.#endDecision(schedule);
      this.#endClosing(schedule, null, 0);
    }
  }

  /** The rows say what the auditor counted. */
  auditRows(live: RowDump): void {
    this.#violations.check(live.tables.schedules.size === this.#byId.size, "I21", "schedules");
    let ticks = 0;
    for (const { tickEvents } of this.#byId.values()) ticks += tickEvents;
    this.#violations.check(live.tables.scheduleTicks.size === ticks, "I21", `${ticks} ticks`);
    for (const text of live.tables.schedules.values()) {
      const row = JSON.parse(text) as ScheduleRow;
      const schedule = this.#get(row.schedule_id);
      const { counts } = schedule;
      const expected: Record<string, string | number | undefined> = {
        state: schedule.state,
        state_version: schedule.version,
        ticked_through: instant(schedule.throughMs),
        active_runs: schedule.activeRuns.size,
        ticks_triggered: counts.triggered,
        ticks_skipped: counts.skipped,
        ticks_failed: counts.failed,
      };
      for (const [cell, value] of Object.entries(expected)) {
        const found = row[cell as keyof ScheduleRow];
        const what = `${cell} of ${row.name} is ${JSON.stringify(found)}, not ${value}`;
        this.#violations.check(found === value, "I21", what);
      }
    }
  }

  #get(id: string): AuditedSchedule {
    const schedule = this.#byId.get(id);
    if (schedule === undefined) throw new Error(`There is no schedule ${id}.`);
    return schedule;
  }

  #checker({ name }: AuditedSchedule, pos: number): Check {
    return (condition, promise, what) =>
      this.#violations.check(condition, promise, `schedule ${name} at ${pos}: ${what}`);
  }
}

/** Whether an event is what a tick says it asked for. */
function isRequestOf(tick: Ticked, { type, data }: Audited): boolean {
  if (type === "BackfillCreated") {
    const isSame = data.backfill_id === tick.backfill_id;
    return isSame && data.created_by === `schedule/${tick.schedule_id}`;
  }
  if (type !== "RunRequested") return false;
  const source = data.trigger_source_ref;
  return (
    source.type === "schedule" &&
    source.schedule_id === tick.schedule_id &&
    source.tick_id === tick.tick_id &&
    data.run_key === tick.run_key &&
    data.run_id === tick.run_id &&
    data.request_fingerprint === tick.request_fingerprint
  );
}

function instant(ms: number | null): string | undefined {
  return ms === null || Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
