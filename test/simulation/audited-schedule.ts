import type { ScheduleSpec } from "../../src/work/definition/spec.ts";
import { type CronTimes, cronTimes } from "../../src/kernel/cron/times.ts";
import { nodeHash } from "../../src/engine/config.ts";

/** Times that one decision, or several at the same instant, came to. */
export type AuditedDecision = {
  at: number;
  /** Times that were acted on, and how many of those before they were due. */
  acted: number;
  actedEarly: number;
  /** Whether times were skipped because there were too many. */
  isLimited: boolean;
};

/** A schedule as the auditor follows it through the ledger. */
export class AuditedSchedule {
  readonly id: string;
  readonly name: string;
  spec: ScheduleSpec;
  specHash: string;
  definitionVersion: number;
  state: "ACTIVE" | "PAUSED" | "DELETED";
  version = 1;
  /** Everything up to here is decided. */
  throughMs: number;
  /** Positions of runs that have not ended. */
  readonly activeRuns = new Set<number>();
  lastRunEndedMs: number | null = null;
  lastBackfillId: string | null = null;
  readonly counts = { triggered: 0, skipped: 0, failed: 0 };
  tickEvents = 0;
  /** When times were decided that only a resumption or another definition may decide. */
  closingAt: number | null = null;
  decision: AuditedDecision | null = null;
  #cron: CronTimes;

  constructor(id: string, spec: ScheduleSpec, atMs: number) {
    this.id = id;
    this.name = spec.name;
    this.spec = spec;
    this.specHash = "";
    this.definitionVersion = 0;
    this.state = spec.enabled ? "ACTIVE" : "PAUSED";
    this.throughMs = atMs;
    this.#cron = cronOf(spec);
  }

  /** Another definition is in force from now on. */
  define(spec: ScheduleSpec, specHash: string, definitionVersion: number): void {
    this.spec = spec;
    this.specHash = specHash;
    this.definitionVersion = definitionVersion;
    this.#cron = cronOf(spec);
  }

  /** How long after its nominal time each tick is due, by the formula. */
  get offsetMs(): number {
    const { jitter_ms } = this.spec;
    if (jitter_ms === 0) return 0;
    return Number.parseInt(nodeHash.sha256(`jitter:${this.id}`).slice(0, 12), 16) % jitter_ms;
  }

  get windowMs(): number {
    return Math.max(this.spec.catchup_window_minutes, 1) * 60_000;
  }

  /** The first time after an instant that is the schedule's. */
  nextAfter(ms: number): number | null {
    const { starts_at, ends_at } = this.spec;
    const from = starts_at === null ? ms : Math.max(ms, Date.parse(starts_at) - 1);
    const at = this.#cron.nextAfter(from);
    return at === null || (ends_at !== null && at >= Date.parse(ends_at)) ? null : at;
  }

  /** All times after an instant and up to another, one by one. */
  timesBetween(afterMs: number, throughMs: number): number[] {
    const times: number[] = [];
    for (let at = this.nextAfter(afterMs); at !== null && at <= throughMs; ) {
      times.push(at);
      at = this.nextAfter(at);
    }
    return times;
  }

  /** Whether a time came before the last run ended, and so had to wait where one run goes at a time. */
  hadToWait(ms: number): boolean {
    return this.lastRunEndedMs !== null && ms <= this.lastRunEndedMs;
  }
}

function cronOf(spec: ScheduleSpec): CronTimes {
  const cron = cronTimes(spec.cron, spec.timezone);
  if (typeof cron === "string") throw new Error(`${spec.name}: ${cron}`);
  return cron;
}
