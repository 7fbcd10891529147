import { Counter, Gauge, type Registry } from "prom-client";
import { type MoveRow, OPEN_MOVES } from "../work/move/rows.ts";
import { TABLES } from "../work/tables.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { currentSegment, settledSegments } from "./routes/move-documents.ts";
import { sharedSurvey } from "./overview/stale.ts";
import { SplitPhaseField } from "../work/split/events.ts";
import type { SplitRow } from "../work/split/rows.ts";
import { liveSplits } from "./routes/splits.ts";

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
