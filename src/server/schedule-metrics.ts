import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";
import { addMs, type Instant, msBetween } from "../core/instant.ts";
import { SCHEDULES } from "../core/rows/schedule-rows.ts";
import type { Engine } from "../engine/engine.ts";

/** Seconds: from a tick on time to one that was caught up after a day. */
const LATENESS_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 60, 3_600, 86_400];

/** What has been due for so long should have been decided. */
const OVERDUE_MS = 5_000;

/** What schedules can be watched by: what this server decided, and what it should have. */
export function scheduleMetrics(registry: Registry, engine: Engine, now: () => Instant): void {
  const registers = [registry];
  const ticks = new Counter({
    name: "pawl_schedule_ticks_total",
    help: "Times of schedules that this server decided, by what became of them",
    labelNames: ["status"],
    registers,
  });
  const lateness = new Histogram({
    name: "pawl_schedule_lateness_seconds",
    help: "How long after it was due a time was acted on",
    buckets: LATENESS_BUCKETS,
    registers,
  });
  const overdue: Gauge = new Gauge({
    name: "pawl_schedules_overdue",
    help: "Schedules with a time that has been due for more than five seconds",
    registers,
    async collect() {
      const value = addMs(now(), -OVERDUE_MS);
      const groups = await engine.read((reader) =>
        reader.countBy(SCHEDULES, [{ cell: "due_at", is: "<=", value }], ["state"]),
      );
      overdue.set(groups.reduce((sum, { count }) => sum + count, 0));
    },
  });
  engine.onCommit((events) => {
    for (const event of events) {
      const skipped = skippedBy(event);
      if (skipped > 0) ticks.inc({ status: "skipped" }, skipped);
      if (event.type !== "ScheduleTicked") continue;
      const tick = JSON.parse(event.data) as EventData<"ScheduleTicked">;
      ticks.inc({ status: tick.status });
      if (tick.status === "triggered" && !tick.manual) {
        lateness.observe(Math.max(0, lateMs(tick, event.occurred_at)) / 1_000);
      }
    }
  });
}

function skippedBy({ type, data }: RecordedEvent): number {
  if (type !== "ScheduleTicksSkipped") return 0;
  return (JSON.parse(data) as EventData<"ScheduleTicksSkipped">).count;
}

/** A schedule's jitter puts all its times off by the same, so the next one tells by how much. */
function lateMs({ scheduled_for, next }: EventData<"ScheduleTicked">, decidedAt: Instant): number {
  const jitterMs = next === null ? 0 : msBetween(next.scheduled_for, next.due_at);
  return msBetween(scheduled_for, decidedAt) - jitterMs;
}
