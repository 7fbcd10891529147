import type { EventDocument } from "../../src/work/server-api.ts";
import type { EventData } from "../../src/work/events.ts";
import { BackfillAudit } from "../simulation/audit-backfills.ts";
import type { Audited } from "../simulation/audit-ledger.ts";
import { ScheduleAudit } from "../simulation/audit-schedules.ts";
import { AuditedProject } from "../simulation/audited-project.ts";
import type { Violations } from "../simulation/violations.ts";
import type { AutomationTraffic } from "./automation-traffic.ts";

/** What a ledger says of messages, files and runs. */
export class AutomationAudit {
  /** How often each message was received and evaluated, and how many runs that made. */
  readonly messages = new Map<string, { received: number; evaluated: number; runs: number }>();
  /** How many runs each file led to. */
  readonly files = new Map<string, number>();
  /** Decided times of all schedules that were acted on, and those that were not. */
  readonly ticks = { triggered: 0, skipped: 0, failed: 0 };
  readonly #openRuns = new Set<number>();
  readonly #sensors = new Map<string, string>();

  constructor(events: readonly EventDocument[]) {
    for (const event of events) this.#take(event as unknown as Audited);
  }

  /** What was sent or dropped and has not come to its end. */
  unfinished({ kept, files }: AutomationTraffic): string[] {
    const waiting = [...kept].filter((name) => this.messages.get(name)?.evaluated !== 1);
    const missing = files.filter((name) => !this.files.has(name));
    const left = [
      { what: "runs go on", count: this.#openRuns.size },
      { what: "messages wait", count: waiting.length },
      { what: "files are not seen", count: missing.length },
    ];
    return left.flatMap(({ what, count }) => (count === 0 ? [] : [`${count} ${what}`]));
  }

  /** Every acknowledged message was evaluated once and every file seen, each with one run. */
  check({ kept, files }: AutomationTraffic, violations: Violations): void {
    for (const name of kept) {
      violations.check(this.messages.has(name), "I25", `message ${name} was kept, and is gone`);
    }
    for (const [name, { received, evaluated, runs }] of this.messages) {
      const counts = `received ${received}, evaluated ${evaluated} times, ${runs} runs`;
      const isOnce = received === 1 && evaluated === 1 && runs === 1;
      violations.check(isOnce, "I25", `message ${name}: ${counts}`);
    }
    for (const name of files) {
      const runs = this.files.get(name) ?? 0;
      violations.check(runs === 1, "I26", `file ${name} led to ${runs} runs`);
    }
    violations.check(this.files.size === files.length, "I26", "no run is of no file");
  }

  #take({ type, data, pos }: Audited): void {
    if (type === "DefinitionsPublished") {
      for (const { name, entity } of data.specs) this.#sensors.set(entity?.id ?? "", name);
    } else if (type === "SensorMessageReceived") {
      this.#message(data.sensor_id, data.message_id).received += 1;
    } else if (type === "SensorEvaluated") this.#evaluated(data);
    else if (type === "RunRequested") this.#openRuns.add(pos);
    else if (type === "RunFinished") this.#openRuns.delete(data.run_pos);
    else if (type === "ScheduleTicked") this.ticks[data.status] += 1;
  }

  #evaluated(data: EventData<"SensorEvaluated">): void {
    const made = data.run_requests.filter(({ outcome }) => outcome === "created");
    const source = data.trigger_source;
    if (source.type === "push") {
      const message = this.#message(data.sensor_id, source.message_id);
      message.evaluated += 1;
      message.runs += made.length;
      return;
    }
    for (const { run_key } of made) {
      const name = run_key.slice(run_key.lastIndexOf(":") + 1);
      this.files.set(name, (this.files.get(name) ?? 0) + 1);
    }
  }

  #message(sensorId: string, messageId: string) {
    const name = `${this.#sensors.get(sensorId)} ${messageId}`;
    const message = this.messages.get(name) ?? { received: 0, evaluated: 0, runs: 0 };
    this.messages.set(name, message);
    return message;
  }
}

/** Every nominal time of every schedule is decided once, and its run stands beside it. */
export function auditSchedules(events: readonly EventDocument[], violations: Violations): void {
  const backfills = new BackfillAudit(new AuditedProject(), violations);
  const audit = new ScheduleAudit(backfills, violations);
  for (const event of events as unknown as Audited[]) {
    audit.expectNext(event);
    if (event.type === "DefinitionsPublished") audit.published(event);
    else if (event.type === "ScheduleTicked") audit.ticked(event);
    else if (event.type === "ScheduleTicksSkipped") audit.skipped(event);
    else if (event.type === "SchedulePaused") audit.paused(event);
    else if (event.type === "ScheduleResumed") audit.resumed(event);
    else if (event.type === "RunRequested") audit.requested(event);
    else if (event.type === "RunFinished") audit.runFinished(event);
  }
  audit.auditEnd();
}
