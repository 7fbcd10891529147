import { Counter, Gauge, type Registry } from "prom-client";
import type { MoveRow } from "../core/rows/move-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { currentSegment, settledSegments } from "./move-document.ts";
import { sharedSurvey } from "./shared-survey.ts";

/** Most moves that are shown: those under way, and the newest of the others. */
const ACTIVE_MAX = 1_000;
const ENDED_MAX = 100;

const LABELS = ["move_id", "move"] as const;

type Move = {
  labels: Record<(typeof LABELS)[number], string>;
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

const GAUGES: readonly [string, string, (move: Move) => number | null][] = [
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
    const counter: Counter<(typeof LABELS)[number]> = new Counter({
      name,
      help,
      labelNames: LABELS,
      registers,
      async collect() {
        const moves = await survey();
        counter.reset();
        for (const { labels, row } of moves) counter.inc(labels, valueOf(row));
      },
    });
  }
  for (const [name, help, valueOf] of GAUGES) {
    const gauge: Gauge<(typeof LABELS)[number]> = new Gauge({
      name,
      help,
      labelNames: LABELS,
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
  const active = (await reader.find({
    table: TABLES.moves,
    where: [{ cell: "state", is: "in", values: ["PLANNED", "RUNNING", "PAUSED"] }],
    order: [{ cell: "move_id" }],
    limit: ACTIVE_MAX,
  })) as MoveRow[];
  const ended = (await reader.find({
    table: TABLES.moves,
    where: [{ cell: "state", is: "in", values: ["COMPLETE", "CANCELLED"] }],
    order: [{ cell: "created_pos", descending: true }],
    limit: ENDED_MAX,
  })) as MoveRow[];
  const moves: Move[] = [];
  for (const row of [...active, ...ended]) {
    const labels = { move_id: row.move_id, move: row.name ?? "" };
    moves.push({ labels, row, current: await currentSegment(reader, row) });
  }
  return moves;
}
