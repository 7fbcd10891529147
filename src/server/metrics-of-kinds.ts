import { Counter, Gauge, type Registry, Histogram } from "prom-client";
import { type MoveRow, OPEN_MOVES } from "../work/move/rows.ts";
import { type Condition, keyOf } from "../kernel/table.ts";
import type { WorkProgress } from "../work/kind.ts";
import { SHOWN_KINDS } from "../work/kinds.ts";
import { TABLES } from "../work/tables.ts";
import { tableOf } from "./routes/work.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { currentSegment, settledSegments } from "./routes/move-documents.ts";
import { sharedSurvey } from "./overview/stale.ts";
import { SplitPhaseField } from "../work/split/events.ts";
import type { SplitRow } from "../work/split/rows.ts";
import { liveSplits } from "./routes/splits.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import { addMs, type Instant, msBetween } from "../kernel/instant.ts";
import { SCHEDULES } from "../work/schedule/rows.ts";
import type { SensorStatus } from "../engine/probes/sensor-view.ts";
import { deliveryOf } from "../engine/notifications.ts";
import type { NotificationSender } from "./webhooks/sender.ts";

/** Most moves that are shown: those under way, and the newest of the others. */
const ACTIVE_MAX = 1_000;
const ENDED_MAX = 100;

const MOVE_LABELS = ["move_id", "move"] as const;

type Move = {
  labels: Record<(typeof MOVE_LABELS)[number], string>;
  row: MoveRow;
  current: number | null;
};

const COUNTERS: readonly [string, string, (row: MoveRow) => number][] = [
  [
    "pawl_migration_segment_completed_total",
    "Segments of a move that are copied and verified, removed or excluded",
    settledSegments,
  ],
  [
    "pawl_migration_segment_retries_total",
    "Attempts at segments of a move that came after a failed one",
    ({ retries }) => retries,
  ],
  ["pawl_migration_rows_total", "Rows that a move has copied", ({ rows_copied }) => rows_copied],
  [
    "pawl_migration_bytes_total",
    "Bytes that a move has copied",
    ({ bytes_copied }) => bytes_copied,
  ],
  [
    "pawl_migration_rows_removed_total",
    "Rows that a move has removed from where they came from",
    ({ rows_removed }) => rows_removed,
  ],
];

const MOVE_GAUGES: readonly [string, string, (move: Move) => number | null][] = [
  [
    "pawl_migration_current_segment",
    "The first of the segments that are worked on; absent when none is",
    ({ current }) => current,
  ],
  [
    "pawl_migration_segments",
    "Segments of a move that are known so far",
    ({ row }) => row.segments_total,
  ],
  [
    "pawl_migration_segments_poisoned",
    "Segments that were set aside and wait for somebody to decide",
    ({ row }) => row.segments_poisoned,
  ],
];

/** What moves can be watched by: segments, rows and bytes, and where they are. */
export function moveMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const survey = sharedSurvey(() => engine.read(shownMoves));
  for (const [name, help, valueOf] of COUNTERS) {
    const counter: Counter<(typeof MOVE_LABELS)[number]> = new Counter({
      name,
      help,
      labelNames: MOVE_LABELS,
      registers,
      async collect() {
        const moves = await survey();
        counter.reset();
        for (const { labels, row } of moves) counter.inc(labels, valueOf(row));
      },
    });
  }
  for (const [name, help, valueOf] of MOVE_GAUGES) {
    const gauge: Gauge<(typeof MOVE_LABELS)[number]> = new Gauge({
      name,
      help,
      labelNames: MOVE_LABELS,
      registers,
      async collect() {
        const moves = await survey();
        gauge.reset();
        for (const move of moves) {
          const value = valueOf(move);
          if (value !== null) gauge.set(move.labels, value);
        }
      },
    });
  }
}

async function shownMoves(reader: Reader): Promise<Move[]> {
  const active = await reader.find({
    table: TABLES.moves,
    where: [OPEN_MOVES],
    order: [{ cell: "move_id" }],
    limit: ACTIVE_MAX,
  });
  const ended = await reader.find({
    table: TABLES.moves,
    where: [{ cell: "state", is: "in", values: ["COMPLETE", "CANCELLED"] }],
    order: [{ cell: "created_pos", descending: true }],
    limit: ENDED_MAX,
  });
  const moves: Move[] = [];
  for (const row of [...active, ...ended]) {
    const labels = { move_id: row.move_id, move: row.name ?? "" };
    moves.push({ labels, row, current: await currentSegment(reader, row) });
  }
  return moves;
}

const SPLIT_LABELS = ["split_id", "source_shard", "target_shard"] as const;

type Split = { labels: Record<(typeof SPLIT_LABELS)[number], string>; row: SplitRow };

const PHASES = SplitPhaseField.options;

const SPLIT_GAUGES: readonly [string, string, (row: SplitRow) => number | null][] = [
  [
    "pawl_split_phase",
    `The phase of a split as a number: ${PHASES.map((name, at) => `${at} ${name}`).join(", ")}`,
    ({ phase }) => PHASES.indexOf(phase),
  ],
  [
    "pawl_split_rows_copied",
    "Rows that the backfill of a split has copied",
    ({ total_rows_copied }) => total_rows_copied,
  ],
  [
    "pawl_split_tail_lag_events",
    "Changes that are captured and not applied to the target yet",
    ({ tail_lag_events }) => tail_lag_events,
  ],
  [
    "pawl_split_tail_lag_seconds",
    "How far the target is behind the source",
    ({ tail_lag_ms }) => (tail_lag_ms === null ? null : tail_lag_ms / 1_000),
  ],
  [
    "pawl_split_write_pause_seconds",
    "How long writes stood still at the last cutover of a split",
    ({ write_pause_us }) => (write_pause_us === null ? null : write_pause_us / 1_000_000),
  ],
  ["pawl_split_tenants", "Tenants of a split", ({ tenants }) => tenants.length],
  ["pawl_split_failures", "Attempts at steps of a split that failed", ({ failures }) => failures],
];

/** What splits can be watched by: where they stand, how far behind they are, how long writes stood. */
export function splitMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const survey = sharedSurvey(() => engine.read(shownSplits));
  for (const [name, help, valueOf] of SPLIT_GAUGES) {
    const gauge: Gauge<(typeof SPLIT_LABELS)[number]> = new Gauge({
      name,
      help,
      labelNames: SPLIT_LABELS,
      registers,
      async collect() {
        const splits = await survey();
        gauge.reset();
        for (const { labels, row } of splits) {
          const value = valueOf(row);
          if (value !== null) gauge.set(labels, value);
        }
      },
    });
  }
  const info: Gauge = new Gauge({
    name: "pawl_split_info",
    help: "Splits, with the phase and the state of the copy and the tail in words; always 1",
    labelNames: [...SPLIT_LABELS, "phase", "backfill_status", "tail_status"],
    registers,
    async collect() {
      const splits = await survey();
      info.reset();
      for (const { labels, row } of splits) {
        const { phase, backfill_status, tail_status } = row;
        info.set({ ...labels, phase, backfill_status, tail_status }, 1);
      }
    },
  });
}

async function shownSplits(reader: Reader): Promise<Split[]> {
  const isActive = [
    "planning",
    "dual_write",
    "backfill",
    "tailing",
    "cutover_pending",
    "reversible",
  ];
  const active = await reader.find({
    table: TABLES.splits,
    where: [{ cell: "phase", is: "in", values: isActive }],
    order: [{ cell: "split_id" }],
    limit: ACTIVE_MAX,
  });
  const ended = await reader.find({
    table: TABLES.splits,
    where: [{ cell: "phase", is: "in", values: ["completed", "rolled_back"] }],
    order: [{ cell: "created_pos", descending: true }],
    limit: ENDED_MAX,
  });
  const live = await liveSplits(reader, [...active, ...ended]);
  return live.map(({ row }) => ({
    labels: { split_id: row.split_id, source_shard: row.source, target_shard: row.target },
    row,
  }));
}

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

/** What sensors can be watched by: what came of evaluations here, and how far they are behind. */
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

/** What webhooks can be watched by: what was told here, and what waits. */
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
  const waiting: Gauge<"status"> = new Gauge({
    name: "pawl_webhook_deliveries_waiting",
    help: "What webhooks have still to tell, and what they could not",
    labelNames: ["status"],
    registers,
    async collect() {
      const { pending, failed } = await waitingOf(engine);
      waiting.set({ status: "pending" }, pending);
      waiting.set({ status: "failed" }, failed);
    },
  });
  const oldest: Gauge = new Gauge({
    name: "pawl_webhook_oldest_pending_seconds",
    help: "Age of the oldest that a webhook has still to tell",
    registers,
    async collect() {
      const { oldestAt } = await waitingOf(engine);
      oldest.set(oldestAt === null ? 0 : Math.max(0, msBetween(oldestAt, now())) / 1_000);
    },
  });
}

async function waitingOf(engine: Engine) {
  const probes = await engine.read((reader) => reader.probesOf("notification", null, COUNTED_MAX));
  const deliveries = probes.flatMap(({ value }) => deliveryOf(value) ?? []);
  const open = deliveries.filter(({ failed_at }) => failed_at === null);
  const [oldestAt = null] = open.map(({ created_at }) => created_at).toSorted();
  return { pending: open.length, failed: deliveries.length - open.length, oldestAt };
}

/** What work of kinds without metrics of their own can be watched by: how far each is that goes on. */
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
