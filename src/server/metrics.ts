import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { EngineStatus } from "../engine/config.ts";
import type { Engine } from "../engine/engine.ts";
import type { LedgerWatch, LedgerWatchStatus } from "../engine/ledger/watch.ts";
import type { Instant } from "../kernel/instant.ts";
import type { AnyTable } from "../kernel/table.ts";
import type { Reader } from "../store/store.ts";
import { BACKFILLS } from "../work/backfill/rows.ts";
import { type MoveRow, OPEN_MOVES } from "../work/move/rows.ts";
import { SCHEDULES } from "../work/schedule/rows.ts";
import { SENSORS, WEBHOOKS } from "../work/sensor/rows.ts";
import { SplitPhaseField } from "../work/split/events.ts";
import type { SplitRow } from "../work/split/rows.ts";
import { TABLES } from "../work/tables.ts";
import {
  notificationMetrics,
  scheduleMetrics,
  sensorMetrics,
  syncMetrics,
  taskMetrics,
  workMetrics,
} from "./metrics-of-kinds.ts";
import { sharedSurvey } from "./overview/stale.ts";
import { currentSegment, settledSegments } from "./routes/move-documents.ts";
import { liveSplits } from "./routes/splits.ts";
import type { NotificationSender } from "./webhooks/sender.ts";

/** Seconds: from a read in memory to a claim that waited for work. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1, 5, 30];

/**
 * What one workspace can be watched by. Each has a registry of its own, so that a token never
 * counts what another workspace does.
 */
export class WorkspaceMetrics {
  readonly #registry = new Registry();
  readonly #durations: Histogram<"operation" | "status">;
  readonly #children = new Map<string, { observe(seconds: number): void }>();
  /** From a decision's arrival to its durable commit. */
  readonly commitDurations: Histogram;
  readonly claimedTasks: Counter;
  readonly storeErrors: Counter;

  constructor(
    engine: Engine,
    now: () => Instant,
    notifications: NotificationSender | null,
    ledgerWatch: LedgerWatch | null,
  ) {
    const registers = [this.#registry];
    this.#durations = new Histogram({
      name: "pawl_http_request_duration_seconds",
      help: "HTTP requests by operation and status",
      labelNames: ["operation", "status"],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.commitDurations = new Histogram({
      name: "pawl_commit_duration_seconds",
      help: "Time from the arrival of a decision to its durable commit",
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.claimedTasks = new Counter({
      name: "pawl_claimed_tasks_total",
      help: "Tasks given to workers",
      registers,
    });
    this.storeErrors = new Counter({
      name: "pawl_store_errors_total",
      help: "Requests that failed because the store did",
      registers,
    });
    taskMetrics(this.#registry, engine);
    countedBy(this.#registry, engine, "pawl_backfills", "Backfills by state", BACKFILLS);
    countedBy(this.#registry, engine, "pawl_schedules", "Schedules by state", SCHEDULES);
    countedBy(this.#registry, engine, "pawl_sensors", "Sensors by state", SENSORS);
    countedBy(this.#registry, engine, "pawl_webhooks", "Webhooks by state", WEBHOOKS);
    scheduleMetrics(this.#registry, engine, now);
    sensorMetrics(this.#registry, engine);
    syncMetrics(this.#registry, engine);
    splitMetrics(this.#registry, engine);
    moveMetrics(this.#registry, engine);
    workMetrics(this.#registry, engine);
    notificationMetrics(this.#registry, engine, notifications, now);
    engineMetrics(this.#registry, engine);
    ledgerMetrics(this.#registry, engine, ledgerWatch);
    logMetrics(this.#registry, engine);
  }

  /** Counts a request; label sets are kept, as looking them up costs more than counting. */
  observe(operation: string, status: number, seconds: number): void {
    const name = `${operation} ${status}`;
    let child = this.#children.get(name);
    if (child === undefined) {
      child = this.#durations.labels({ operation, status: String(status) });
      this.#children.set(name, child);
    }
    child.observe(seconds);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

/** Rows counted by state when somebody looks. */
function countedBy(
  registry: Registry,
  engine: Engine,
  name: string,
  help: string,
  table: AnyTable,
): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames: ["state"],
    registers: [registry],
    async collect() {
      gauge.reset();
      const groups = await engine.read((reader) => reader.countBy(table, [], ["state"]));
      for (const { values, count } of groups) gauge.set({ state: String(values["state"]) }, count);
    },
  });
}

/** Whether the ledger is in order, and how far that was looked at. */
function ledgerMetrics(registry: Registry, engine: Engine, watch: LedgerWatch | null): void {
  const damaged: Gauge = new Gauge({
    name: "pawl_ledger_damaged",
    help: "1 when the ledger was found damaged: nothing is appended until a person decides",
    registers: [registry],
    async collect() {
      const { damage } = await engine.read((reader) => reader.head());
      damaged.set(damage === null ? 0 : 1);
    },
  });
  if (watch === null) return;
  const gauges: [string, string, (status: LedgerWatchStatus) => number][] = [
    [
      "pawl_ledger_checked_pos",
      "All events up to here were read again",
      (status) => status.checked_pos,
    ],
    [
      "pawl_ledger_walked_pos",
      "How far the walk through the whole ledger is",
      (status) => status.walked_pos,
    ],
    [
      "pawl_ledger_walks",
      "Walks through the whole ledger since the start",
      (status) => status.walks,
    ],
    [
      "pawl_ledger_informational_events",
      "Unknown events that say they are informational, and were passed over",
      (status) => status.informational,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(valueOf(watch.status())),
    });
  }
}

/** How much of what tasks logged is kept. */
function logMetrics(registry: Registry, engine: Engine): void {
  const gauge: Gauge = new Gauge({
    name: "pawl_log_bytes",
    help: "Bytes of all kept log lines, as they count against logs_bytes_max",
    registers: [registry],
    async collect() {
      gauge.set(await engine.logBytes());
    },
  });
}

/** What the engine knows of itself. */
function engineMetrics(registry: Registry, engine: Engine): void {
  const counters: [string, string, (status: EngineStatus) => number][] = [
    ["pawl_events_total", "Events in the ledger", ({ pos }) => pos],
    ["pawl_commits_total", "Commits, each of one or more decisions", ({ commits }) => commits],
    [
      "pawl_late_results_total",
      "Results refused because their attempt was not the current one",
      ({ results_refused }) => results_refused,
    ],
    [
      "pawl_log_lines_dropped_total",
      "Log lines that were not kept because a quota was reached",
      ({ log_lines_dropped }) => log_lines_dropped,
    ],
    [
      "pawl_log_lines_expired_total",
      "Log lines of ended runs that were dropped as too old, or to make room",
      ({ log_lines_expired }) => log_lines_expired,
    ],
  ];
  for (const [name, help, valueOf] of counters) {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        counter.reset();
        counter.inc(valueOf(engine.status()));
      },
    });
  }
  const gauges: [string, string, (status: EngineStatus) => number][] = [
    ["pawl_queued_decisions", "Decisions that wait for a commit", ({ queued_jobs }) => queued_jobs],
    ["pawl_waiting_claims", "Claims that wait for work", ({ waiting_claims }) => waiting_claims],
    [
      "pawl_poisoned_entities",
      "Runs and backfills whose controller failed an assertion",
      ({ poisoned }) => Object.keys(poisoned).length,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(valueOf(engine.status())),
    });
  }
}

/** What is about the process rather than a workspace: memory, event loop, turned-away requests. */
export class ProcessMetrics {
  readonly #registry = new Registry();
  readonly #denied: Counter<"code">;

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    this.#denied = new Counter({
      name: "pawl_http_denied_total",
      help: "Requests refused before they reached a workspace",
      labelNames: ["code"],
      registers: [this.#registry],
    });
  }

  deny(code: string): void {
    this.#denied.inc({ code });
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

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
    "Quarantined segments that wait for somebody to decide",
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
