import type { MoveRow, MoveSegmentRow } from "../../src/work/move/rows.ts";
import type { ShardKey } from "../../src/work/shard/step-protocol.ts";

/** What is looked at: moves and their segments. */
export type AuditedMoves = {
  moves(): readonly MoveRow[];
  moveSegments(moveId: string): readonly MoveSegmentRow[];
};

const COUNTERS = {
  PENDING: "segments_pending",
  COPIED: "segments_copied",
  REMOVED: "segments_removed",
  POISONED: "segments_poisoned",
  EXCLUDED: "segments_excluded",
} as const;

/** What is wrong with the rows of moves: segments that do not tile their lane, counters that are off. */
export function faultsOfRows(audited: AuditedMoves): string[] {
  return audited.moves().flatMap((move) => {
    const segments = audited.moveSegments(move.move_id);
    return [
      ...countingFaults(move, segments),
      ...move.lanes.flatMap((_, lane) => laneFaults(move, lane, segments)),
    ].map((fault) => `move ${move.move_id}: ${fault}`);
  });
}

function countingFaults(move: MoveRow, segments: readonly MoveSegmentRow[]): string[] {
  const faults: string[] = [];
  const expect = (name: string, counted: number, is: number): void => {
    if (counted !== is) faults.push(`${name} is ${is}, but there are ${counted}`);
  };
  const sum = (of: (segment: MoveSegmentRow) => number): number =>
    segments.reduce((total, segment) => total + of(segment), 0);
  expect("segments_total", segments.length, move.segments_total);
  for (const state of Object.keys(COUNTERS) as (keyof typeof COUNTERS)[]) {
    const cell = COUNTERS[state];
    expect(
      cell,
      sum((segment) => Number(segment.state === state)),
      move[cell],
    );
  }
  expect(
    "segments_active",
    sum(({ run_pos }) => Number(run_pos !== null)),
    move.segments_active,
  );
  expect(
    "rows_copied",
    sum(({ rows_copied }) => rows_copied),
    move.rows_copied,
  );
  expect(
    "bytes_copied",
    sum(({ bytes_copied }) => bytes_copied),
    move.bytes_copied,
  );
  expect(
    "rows_estimated",
    sum(({ rows_estimated }) => rows_estimated),
    move.rows_estimated,
  );
  const waits = ({ state, verify_n }: MoveSegmentRow): boolean =>
    state === "COPIED" && verify_n < move.verifications;
  expect(
    "verify_waiting",
    sum((segment) => Number(waits(segment))),
    move.verify_waiting,
  );
  const sealed = move.lanes.filter((lane) => lane.sealed).length;
  expect("lanes_sealed", sealed, move.lanes_sealed);
  if (move.segments_active > move.segment_concurrency && move.state === "RUNNING") {
    // It may have been lowered since; what runs is not stopped for that.
    const active = segments.filter(({ run_pos }) => run_pos !== null).length;
    if (active > 64) faults.push(`${active} segments run at once`);
  }
  return faults;
}

function laneFaults(move: MoveRow, lane: number, all: readonly MoveSegmentRow[]): string[] {
  const { after, sealed } = move.lanes[lane] ?? { after: null, sealed: false };
  const segments = all.filter((segment) => segment.lane === lane);
  const byLower = new Map(segments.map((segment) => [keyText(segment.lower), segment]));
  if (byLower.size !== segments.length) return [`lane ${lane} has two segments from one key on`];
  const end = sealed ? null : after;
  let place: ShardKey | null = null;
  for (let walked = 0; walked < segments.length; walked++) {
    const segment = byLower.get(keyText(place));
    if (segment === undefined) return [`lane ${lane} has a gap at ${keyText(place)}`];
    place = segment.upper;
    const isLast = walked === segments.length - 1;
    if (!isLast && place === null) return [`lane ${lane} ends before its last segment`];
  }
  if (segments.length === 0 || keyText(place) === keyText(end)) return [];
  return [`lane ${lane} ends at ${keyText(place)}, not at ${keyText(end)}`];
}

function keyText(key: ShardKey | null): string {
  return JSON.stringify(key);
}
