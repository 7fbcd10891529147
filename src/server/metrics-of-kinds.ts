import { Counter, Gauge, type Registry, Histogram } from "prom-client";
import { type Condition, keyOf } from "../kernel/table.ts";
import type { WorkProgress } from "../work/kind.ts";
import { SHOWN_KINDS } from "../work/kinds.ts";
import { tableOf } from "./routes/work.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { sharedSurvey } from "./overview/stale.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import { addMs, type Instant, msBetween } from "../kernel/instant.ts";
import { ACTIVE_RUNS, type RunRow, RUNS, type TaskState } from "../work/run/rows.ts";
import { SCHEDULES } from "../work/schedule/rows.ts";
import type { SensorStatus } from "../engine/probes/sensor-view.ts";
import { deliveryParts } from "../engine/notifications.ts";
import type { NotificationSender } from "./webhooks/sender.ts";
import type { SegmentStatus, SyncRow } from "../work/sync/rows.ts";
import { TABLES } from "../work/tables.ts";

/** Most open things of a kind that are shown. */
const ACTIVE_MAX = 1_000;

/** Seconds: from a tick on time to one that was caught up after a day. */
const LATENESS_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 60, 3_600, 86_400];

/** What has been due for so long should have been decided. */
const OVERDUE_MS = 5_000;

/** Metrics of schedules: ticks that this server decided, and ticks that are late. */
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

/** Metrics of sensors: outcomes of evaluations here, and how far they are behind. */
export function sensorMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const evaluations: Counter<"result"> = new Counter({
    name: "pawl_sensor_evaluations_total",
    help: "Evaluations of sensors that this server took in, by what came of them",
    labelNames: ["result"],
    registers,
    async collect() {
      evaluations.reset();
      const { evaluations: counts } = await engine.sensorStatus();
      for (const [result, count] of Object.entries(counts)) evaluations.inc({ result }, count);
    },
  });
  const gauges: [string, string, (status: SensorStatus) => number][] = [
    [
      "pawl_sensor_poll_lag_seconds",
      "How long the poll sensor that waits longest is overdue",
      ({ poll_lag_ms }) => poll_lag_ms / 1_000,
    ],
    [
      "pawl_sensor_message_lag_seconds",
      "Age of the oldest message that waits for a sensor which acts",
      ({ message_lag_ms }) => message_lag_ms / 1_000,
    ],
    [
      "pawl_sensor_messages_pending",
      "Messages that wait to be evaluated",
      ({ messages_pending }) => messages_pending,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: async () => gauge.set(valueOf(await engine.sensorStatus())),
    });
  }
}

/** Deliveries that are counted at most, those due soonest. */
const COUNTED_MAX = 10_000;

/** Metrics of webhooks: what was sent here, and what waits. */
export function notificationMetrics(
  registry: Registry,
  engine: Engine,
  sender: NotificationSender | null,
  now: () => Instant,
): void {
  const registers = [registry];
  if (sender !== null) {
    const deliveries: Counter<"outcome"> = new Counter({
      name: "pawl_webhook_deliveries_total",
      help: "Attempts of this server to tell a webhook, by outcome",
      labelNames: ["outcome"],
      registers,
      collect() {
        deliveries.reset();
        for (const [outcome, count] of Object.entries(sender.counts)) {
          deliveries.inc({ outcome }, count);
        }
      },
    });
  }
  const survey = sharedSurvey(() => waitingOf(engine));
  const waiting: Gauge<"status"> = new Gauge({
    name: "pawl_webhook_deliveries_waiting",
    help: "What webhooks have still to tell, and what they could not",
    labelNames: ["status"],
    registers,
    async collect() {
      const { pending, failed } = await survey();
      waiting.set({ status: "pending" }, pending);
      waiting.set({ status: "failed" }, failed);
    },
  });
  const oldest: Gauge = new Gauge({
    name: "pawl_webhook_oldest_pending_seconds",
    help: "Age of the oldest that a webhook has still to tell",
    registers,
    async collect() {
      const { oldestAt } = await survey();
      oldest.set(oldestAt === null ? 0 : Math.max(0, msBetween(oldestAt, now())) / 1_000);
    },
  });
}

function waitingOf(engine: Engine) {
  return engine.read(async (reader) => {
    let [pending, failed] = [0, 0];
    let oldestAt: Instant | null = null;
    for await (const part of deliveryParts(reader, null, COUNTED_MAX)) {
      for (const { delivery } of part) {
        if (delivery.failed_at !== null) failed++;
        else {
          pending++;
          if (oldestAt === null || delivery.created_at < oldestAt) oldestAt = delivery.created_at;
        }
      }
    }
    return { pending, failed, oldestAt };
  });
}

/** Metrics of kinds that have none of their own: the progress of each piece of running work. */
export function workMetrics(registry: Registry, engine: Engine): void {
  if (SHOWN_KINDS.length === 0) return;
  const survey = sharedSurvey(() => engine.read(openWork));
  for (const part of ["done", "failed", "total"] as const) {
    const gauge: Gauge<"kind" | "id" | "unit"> = new Gauge({
      name: `pawl_work_${part}`,
      help: `How much of some work that has not ended is ${part}, in its own unit`,
      labelNames: ["kind", "id", "unit"],
      registers: [registry],
      async collect() {
        gauge.reset();
        for (const { kind, id, progress } of await survey()) {
          const value = progress[part];
          if (value !== null) gauge.set({ kind, id, unit: progress.unit }, value);
        }
      },
    });
  }
}

async function openWork(reader: Reader) {
  const found: { kind: string; id: string; progress: WorkProgress }[] = [];
  for (const kind of SHOWN_KINDS) {
    const { name, surface } = kind;
    const table = tableOf(kind);
    const states = Object.entries(surface.states);
    const values = states.flatMap(([state, is]) => (is.startsWith("ended") ? [] : [state]));
    const where: Condition[] = [{ cell: "state", is: "in", values }];
    const order = [{ cell: "created_pos", descending: true }];
    for (const row of await reader.find({ table, where, order, limit: ACTIVE_MAX })) {
      const id = String(keyOf(table, row)[0]);
      found.push({ kind: name, id, progress: surface.progress(row) });
    }
  }
  return found;
}

/** Syncs that are read at once, so that others have their turn in between. */
const PAGE = 1_000;

/** What is counted of the syncs of one name and source. */
type SourceCounts = { sync: string; source: string; lag: number; blocks: number };

/** What all syncs together come to. */
type Survey = {
  byStatus: Map<string, number>;
  segments: Record<SegmentStatus, number>;
  sources: Map<string, SourceCounts>;
};

/** Metrics of syncs: how many there are, how far they are behind, and what audits found. */
export function syncMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const survey = sharedSurvey(() => surveyOf(engine));
  const syncs: Gauge<"status"> = new Gauge({
    name: "pawl_syncs",
    help: "Syncs by status",
    labelNames: ["status"],
    registers,
    async collect() {
      const { byStatus } = await survey();
      syncs.reset();
      for (const [status, count] of byStatus) syncs.set({ status }, count);
    },
  });
  const segments: Gauge<"status"> = new Gauge({
    name: "pawl_sync_segments",
    help: "Segments of syncs by status",
    labelNames: ["status"],
    registers,
    async collect() {
      const counts = Object.entries((await survey()).segments);
      for (const [status, count] of counts) segments.set({ status }, count);
    },
  });
  const quarantined: Gauge = new Gauge({
    name: "pawl_sync_quarantined_segments",
    help: "Segments that could not be fetched and wait for somebody to decide",
    registers,
    collect: async () => quarantined.set((await survey()).segments.QUARANTINED),
  });
  const gauges: [string, string, (counts: SourceCounts) => number][] = [
    [
      "pawl_sync_lag_blocks",
      "Blocks between what may be synced and the end of the complete prefix, the largest of a source",
      ({ lag }) => lag,
    ],
    ["pawl_sync_blocks_complete", "Blocks in complete segments", ({ blocks }) => blocks],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge<"sync" | "source"> = new Gauge({
      name,
      help,
      labelNames: ["sync", "source"],
      registers,
      async collect() {
        const { sources } = await survey();
        gauge.reset();
        for (const counts of sources.values()) {
          gauge.set({ sync: counts.sync, source: counts.source }, valueOf(counts));
        }
      },
    });
  }
  auditMetrics(registry, engine);
}

function auditMetrics(registry: Registry, engine: Engine): void {
  const counters = [
    ["pawl_sync_audits_total", "Syncs whose segments this server went through", "audits"],
    ["pawl_sync_faults_total", "Syncs that were found with a fault and paused", "faults"],
  ] as const;
  for (const [name, help, count] of counters) {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        counter.reset();
        counter.inc(engine.syncAudits()[count]);
      },
    });
  }
}

async function surveyOf(engine: Engine): Promise<Survey> {
  const survey: Survey = {
    byStatus: new Map(),
    segments: { PENDING: 0, RUNNING: 0, COMPLETE: 0, FAILED: 0, QUARANTINED: 0 },
    sources: new Map(),
  };
  const safe = await engine.read(safeBlocks);
  for (let after = ""; ; ) {
    const page = await engine.read((reader) => livingSyncs(reader, after));
    for (const sync of page) {
      addTo(survey, sync, safe.get(nameOf(sync)) ?? null);
      after = sync.sync_id;
    }
    if (page.length < PAGE) return survey;
  }
}

async function livingSyncs(reader: Reader, after: string): Promise<SyncRow[]> {
  return reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "state", is: "<>", value: "REMOVED" },
      { cell: "sync_id", is: ">", value: after },
    ],
    order: [{ cell: "sync_id" }],
    limit: PAGE,
  });
}

function addTo({ byStatus, segments, sources }: Survey, sync: SyncRow, safe: number | null): void {
  byStatus.set(sync.status, (byStatus.get(sync.status) ?? 0) + 1);
  segments.PENDING += sync.segments_pending;
  segments.RUNNING += sync.segments_running;
  segments.COMPLETE += sync.segments_complete;
  segments.FAILED += sync.segments_failed;
  segments.QUARANTINED += sync.segments_quarantined;
  const known = sources.get(nameOf(sync));
  const end = Math.min(safe ?? sync.synced_to, sync.to_limit ?? Number.POSITIVE_INFINITY);
  sources.set(nameOf(sync), {
    sync: sync.name,
    source: sync.source,
    lag: Math.max(known?.lag ?? 0, end - sync.synced_to),
    blocks: (known?.blocks ?? 0) + sync.blocks_complete,
  });
}

function nameOf({ name, source }: { name: string; source: string }): string {
  return JSON.stringify([name, source]);
}

/** The newest block that may be synced, of each source whose definition is there. */
async function safeBlocks(reader: Reader): Promise<Map<string, number>> {
  const order = [{ cell: "name" }, { cell: "source" }];
  const find = { table: TABLES.syncSources, where: [], order, limit: 10_000 };
  const sources = await reader.find(find);
  const names = [...new Set(sources.map(({ name }) => name))];
  const definitions = await reader.load(
    TABLES.definitions,
    names.map((name) => ["sync", name]),
  );
  const hashes = definitions.map(({ spec_hash }) => [spec_hash]);
  const specs = new Map(
    (await reader.load(TABLES.specs, hashes)).map(({ name, body }) => [name, body]),
  );
  return new Map(
    sources.flatMap((source) => {
      const spec = specs.get(source.name);
      if (spec?.kind !== "sync") return [];
      const safe = source.head - spec.finality;
      return [[nameOf(source), spec.to === null ? safe : Math.min(safe, spec.to)] as const];
    }),
  );
}

/** Most unfinished runs that are read at once for their counts. */
const RUNS_READ = 1_000;

/** The cells of a run that count its tasks, by the state they are in. */
const TASK_COUNTS = {
  WAITING: "tasks_waiting",
  READY: "tasks_ready",
  RUNNING: "tasks_running",
  RETRY_WAIT: "tasks_retry_wait",
  SUCCEEDED: "tasks_succeeded",
  FAILED: "tasks_failed",
  CANCELLED: "tasks_cancelled",
  SKIPPED: "tasks_skipped",
} as const satisfies Record<TaskState, keyof RunRow>;

/** Tasks of unfinished runs by state, as their runs count them. */
export function taskMetrics(registry: Registry, engine: Engine): void {
  const gauge = new Gauge({
    name: "pawl_tasks",
    help: "Tasks of unfinished runs by state",
    labelNames: ["state"],
    registers: [registry],
    async collect() {
      gauge.reset();
      const counts = await engine.read(countTasks);
      for (const [state, count] of counts) if (count > 0) gauge.set({ state }, count);
    },
  });
}

async function countTasks(reader: Reader): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const cells = ["run_pos", ...Object.values(TASK_COUNTS)];
  for (let after = 0; ; ) {
    const where: Condition[] = [ACTIVE_RUNS, { cell: "run_pos", is: ">", value: after }];
    const order = [{ cell: "run_pos" }];
    const page = await reader.findCells({ table: RUNS, where, order, limit: RUNS_READ }, cells);
    for (const [, ...own] of page) {
      for (const [at, state] of Object.keys(TASK_COUNTS).entries()) {
        counts.set(state, (counts.get(state) ?? 0) + Number(own[at]));
      }
    }
    if (page.length < RUNS_READ) return counts;
    after = Number(page.at(-1)?.[0]);
  }
}
