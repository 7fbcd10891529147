import {
  type MovePhase,
  type MoveRow,
  MOVE_SEGMENTS,
  type MoveSegmentRow,
} from "../../work/move/rows.ts";
import {
  LANES_SHOWN_MAX,
  MOVE_FIELDS,
  type MoveDetails,
  type MoveDocument,
  MOVE_SEGMENT_FIELDS,
  type MoveSegmentDocument,
  type MoveSegmentRun,
  type LaneProgress,
  MoveCellState,
  type MoveSegmentMap,
} from "../../work/move/api.ts";
import { offeredCommands } from "../../work/command.ts";
import { MOVE_RULES } from "../../work/move/rules.ts";
import { type NextField, shardWorkName } from "../../work/shard/spec.ts";
import type { Reader } from "../../store/store.ts";
import { pickFields } from "../http/read-within.ts";
import { percent } from "./sync-documents.ts";
import { stepRunKey } from "../../work/keys.ts";
import { loadTasks } from "../../work/run/task-blocks.ts";
import type { Condition } from "../../kernel/table.ts";
import { StepReport } from "../../work/shard/step-protocol.ts";
import { runsOfKeys, knownMoveRow } from "../look-ups.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { runLengths } from "../../kernel/intervals.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";

/** What a move does now, in words, and which commands make sense. */
export function nextOfMove(move: MoveRow, phase: MovePhase, lacksWorker: boolean): NextField {
  const aside = move.segments_poisoned;
  const asideText =
    aside === 0
      ? ""
      : ` ${aside === 1 ? "1 segment is" : `${aside} segments are`} quarantined: retry, copy again ` +
        "or exclude.";
  const waits = lacksWorker ? " Waiting for a worker with these shards." : "";
  const facts = { ...move, keep_source: move.plan.keep_source };
  const commands = offeredCommands(MOVE_RULES, move.state, facts);
  return { text: `${doing(move, phase)}${waits}${asideText}`, commands };
}

function doing(move: MoveRow, phase: MovePhase): string {
  switch (move.state) {
    case "PLANNED":
      return plannedText(move);
    case "RUNNING":
      return move.check_run_pos !== null && (phase === "survey" || phase === "copy")
        ? "Checking whether all rows can be copied."
        : RUNNING_TEXT[phase];
    case "PAUSED": {
      const why = move.reason === null ? "" : ` (${move.reason})`;
      return `Paused${why}; nothing is copied or removed.`;
    }
    case "COMPLETE":
      return completeText(move);
    case "CANCELLED":
      return "Cancelled; copied rows stay where they are.";
  }
}

function plannedText(move: MoveRow): string {
  const { lanes, lanes_sealed, rows_estimated, segments_total, dry_run, check_ok } = move;
  const sizes = `${counted(rows_estimated, "row")} in ${counted(segments_total, "segment")}`;
  if (lanes_sealed < lanes.length) return `Counting rows: ${sizes} so far.`;
  const looked = check_ok === null ? "checking whether that is possible" : "this was a dry run";
  const end = dry_run === 1 ? looked : "nothing is copied yet";
  return `${sizes} to move; ${end}.`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

const RUNNING_TEXT: Readonly<Record<MovePhase, string>> = {
  survey: "Counting rows, and copying the segments known so far.",
  copy: "Copying and verifying segments.",
  remove: "All segments are copied and verified; removing rows from the source.",
  check: "Checking that every row is on its shard.",
  done: "Done.",
};

function completeText({ check_ok, check_report }: MoveRow): string {
  if (check_ok !== 0) return "Complete; every row is on its shard.";
  if (check_report?.equal === false) {
    return "Complete, but some rows are misplaced.";
  }
  const why = check_report?.note?.replace(/\.$/, "") ?? "it failed";
  return `Complete, but the last check gave no answer: ${why}.`;
}

/** Moves as the API lists them. */
export async function moveDocuments(
  reader: Reader,
  rows: readonly MoveRow[],
  claimed: ReadonlySet<string>,
): Promise<MoveDocument[]> {
  const documents: MoveDocument[] = [];
  for (const row of rows) {
    documents.push(documentOf(row, await currentSegment(reader, row), claimed));
  }
  return documents;
}

/** A move with all that is known of it. */
export async function moveDetails(
  reader: Reader,
  row: MoveRow,
  claimed: ReadonlySet<string>,
): Promise<MoveDetails> {
  const document = documentOf(row, await currentSegment(reader, row), claimed);
  const lanes = row.lanes.slice(0, LANES_SHOWN_MAX).map(({ table, from, to, sealed }, lane) => ({
    lane,
    ...table,
    from,
    to,
    sealed,
  }));
  return { ...document, from: row.plan.from, to: row.plan.to, lanes };
}

/** The first of the segments that have a run; null when none has. */
export async function currentSegment(reader: Reader, row: MoveRow): Promise<number | null> {
  if (row.segments_active === 0) return null;
  const [first] = await reader.find({
    table: MOVE_SEGMENTS,
    where: [
      { cell: "move_id", is: "=", value: row.move_id },
      { cell: "run_pos", is: "not null" },
    ],
    order: [{ cell: "segment_index" }],
    limit: 1,
  });
  return first?.segment_index ?? null;
}

function documentOf(
  row: MoveRow,
  current_segment: number | null,
  claimed: ReadonlySet<string>,
): MoveDocument {
  const { plan, lanes } = row;
  const lacks_worker = moveLacksWorker(row, claimed);
  const phase = phaseOfMove(row);
  // What an earlier look found does not count any more.
  const found = row.check_ok === null ? null : row.check_report;
  return {
    ...pickFields(row, MOVE_FIELDS),
    dry_run: row.dry_run === 1,
    phase,
    shards_from: distinct(lanes.map(({ from }) => from)),
    shards_to: distinct(lanes.map(({ to }) => to)),
    tables: distinct(lanes.map(({ table }) => table.table)),
    strategy: plan.strategy,
    replication_lag_ms: plan.replication_lag_ms,
    segment_attempts: plan.segment_attempts,
    retry_budget: plan.retry_budget,
    keep_source: plan.keep_source,
    lanes_total: lanes.length,
    surveyed: isSurveyed(row),
    lacks_worker,
    current_segment,
    progress_pct: percent(settledSegments(row), row.segments_total),
    rate_rows_per_second: rowsPerSecond(row),
    eta_seconds: etaSeconds(row),
    check: {
      n: row.checks,
      running: row.check_run_pos !== null,
      answers: row.checked_n,
      ok: row.check_ok === null ? null : row.check_ok === 1,
      note: found?.note ?? null,
      excepted: found?.excepted ?? 0,
      misplaced: found?.misplaced ?? [],
    },
    next: nextOfMove(row, phase, lacks_worker),
  };
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)];
}

function isSurveyed({ lanes, lanes_sealed }: MoveRow): boolean {
  return lanes_sealed === lanes.length;
}

/** Whether there is something to do between shards that nobody has asked for lately. */
function moveLacksWorker(row: MoveRow, claimed: ReadonlySet<string>): boolean {
  const isSurvey = row.state === "PLANNED";
  if (!isSurvey && row.state !== "RUNNING") return false;
  return row.lanes.some(({ from, to, sealed }) => {
    // A survey needs only the shard that it is of.
    const name = isSurvey || !sealed ? shardWorkName(from) : shardWorkName(from, to);
    return !(isSurvey && sealed) && !claimed.has(name);
  });
}

/** What a move is busy with, or would be if it went on; of a cancelled one, how far it came. */
export function phaseOfMove(row: MoveRow): MovePhase {
  if (row.state === "COMPLETE") return "done";
  if (!isSurveyed(row) || row.state === "PLANNED" || row.started_at === null) return "survey";
  if (row.segments_pending > 0 || row.segments_poisoned > 0) return "copy";
  if (row.segments_copied > 0 && !row.plan.keep_source) return "remove";
  return "check";
}

/** Segments that need no copying any more. */
export function settledSegments(row: MoveRow): number {
  return row.segments_copied + row.segments_removed + row.segments_excluded;
}

/** What the segments do together that can still run, by the work so far and within the limit. */
function rowsPerSecond(row: MoveRow): number | null {
  const { state, segments_pending, rows_copied, work_ms, segment_concurrency } = row;
  if (state !== "RUNNING" || segments_pending === 0 || rows_copied === 0 || work_ms === 0) {
    return null;
  }
  const atOnce = Math.min(segments_pending, segment_concurrency);
  const rate = (rows_copied / work_ms) * 1_000 * atOnce;
  const limited = Math.min(rate, row.rows_per_second ?? Number.POSITIVE_INFINITY);
  return Math.max(0.001, Math.round(limited * 1_000) / 1_000);
}

function etaSeconds(row: MoveRow): number | null {
  const rate = rowsPerSecond(row);
  if (rate === null || !isSurveyed(row)) return null;
  return Math.ceil(Math.max(0, row.rows_estimated - row.rows_copied) / rate);
}

/** Most runs of a segment that are shown: the newest. */
const RUNS_SHOWN_MAX = 50;

/** Segments of a move as the API shows them; how far a copy is now only its checkpoint knows. */
export async function moveSegmentDocuments(
  reader: Reader,
  move: MoveRow,
  segments: readonly MoveSegmentRow[],
): Promise<MoveSegmentDocument[]> {
  const tasks = segments.flatMap(({ run_pos, step }) => {
    return run_pos === null || step !== "copy" ? [] : [{ run_pos, task_key: 0 }];
  });
  const kept = tasks.length === 0 ? [] : await reader.checkpoints(tasks);
  const checkpointOf = new Map(kept.map((checkpoint) => [checkpoint.run_pos, checkpoint]));
  const attempts = await attemptsOf(reader, tasks);
  return segments.map((segment) => {
    const checkpoint = checkpointOf.get(segment.run_pos ?? -1);
    const report = StepReport.safeParse(checkpoint?.value).data;
    if (checkpoint === undefined || report?.work !== "move")
      return segmentDocumentOf(move, segment);
    // Rows are those of all attempts, bytes of one, which the row has once that has ended.
    const isGoingOn =
      segment.running === 1 && attempts.get(checkpoint.run_pos) === checkpoint.attempt;
    return segmentDocumentOf(move, {
      ...segment,
      rows_copied: report.rows ?? segment.rows_copied,
      bytes_copied: segment.bytes_copied + (isGoingOn ? (report.bytes ?? 0) : 0),
      cursor: report.cursor ?? segment.cursor,
      position: report.position ?? segment.position,
    });
  });
}

/** The present attempt of each of these runs. */
async function attemptsOf(
  reader: Reader,
  tasks: readonly { run_pos: number; task_key: number }[],
): Promise<Map<number, number>> {
  if (tasks.length === 0) return new Map();
  const rows = await loadTasks(reader, tasks);
  return new Map(rows.map(({ run_pos, attempt }) => [run_pos, attempt]));
}

function segmentDocumentOf(move: MoveRow, segment: MoveSegmentRow): MoveSegmentDocument {
  const { verify_n, verify_ok, verify_note, verified_at, running } = segment;
  const lane = move.lanes[segment.lane];
  return {
    ...pickFields(segment, MOVE_SEGMENT_FIELDS),
    from: lane?.from ?? "",
    to: lane?.to ?? "",
    running: running === 1,
    worker_id: running === 1 ? segment.worker_id : null,
    verification:
      verify_n === 0
        ? null
        : {
            n: verify_n,
            ok: verify_ok === null ? null : verify_ok === 1,
            note: verify_note,
            at: verified_at,
          },
  };
}

/** The runs of a segment, newest first. */
export async function runsOfSegment(
  reader: Reader,
  { move_id, segment_index: index, runs: count }: MoveSegmentRow,
): Promise<MoveSegmentRun[]> {
  const refs = [];
  for (let n = count; n > 0 && n > count - RUNS_SHOWN_MAX; n--) {
    for (const step of ["copy", "verify", "remove"] as const) {
      refs.push({ run_key: stepRunKey({ work: "move", move_id, step, index, n }), step, n });
    }
  }
  const runs = await runsOfKeys(reader, refs);
  return runs.map(({ run, step, n }) => ({
    run_id: run.run_id,
    step,
    n,
    state: run.state,
    requested_at: run.requested_at,
    started_at: run.started_at,
    finished_at: run.finished_at,
    error: run.first_error,
  }));
}

/** Rows that are read between two turns of the process: some ten milliseconds. */
const PAGE_ROWS = 5_000;

const STATES = MoveCellState.options;

const CELLS = [
  "segment_index",
  "lane",
  "state",
  "running",
  "step",
  "rows_estimated",
  "rows_copied",
] as const;

/** A segment as far as a map needs it. */
type Piece = {
  index: number;
  lane: number;
  state: MoveCellState;
  estimated: number;
  copied: number;
};

/** Reads the segments of a move in the order of their indexes, and lets others have a turn. */
async function eachPiece(
  reader: Reader,
  { move_id, state: moveState }: MoveRow,
  visit: (piece: Piece) => void,
): Promise<void> {
  let after = -1;
  for (;;) {
    const where: Condition[] = [
      { cell: "move_id", is: "=", value: move_id },
      { cell: "segment_index", is: ">", value: after },
    ];
    const order = [{ cell: "segment_index" }];
    const page = await reader.findCells(
      { table: MOVE_SEGMENTS, where, order, limit: PAGE_ROWS },
      CELLS,
    );
    for (const [index, lane, state, running, step, estimated, copied] of page) {
      // Whoever is at another step of a paused move was told to stop, and leaves the segment as it was.
      const isStopping = moveState === "CANCELLED" || (moveState === "PAUSED" && step !== "verify");
      const shown = running === 1 && !isStopping ? "RUNNING" : state;
      visit({ index, lane, state: shown, estimated, copied } as Piece);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    after = last[0] as number;
    await nextTurn();
  }
}

function countedRanges(
  lanes: Map<number, LaneProgress>,
  { lane, state, estimated, copied }: Piece,
): void {
  const before = lanes.get(lane) ?? {
    lane,
    segments: 0,
    states: {},
    rows_estimated: 0,
    rows_copied: 0,
  };
  before.segments += 1;
  before.states[state] = (before.states[state] ?? 0) + 1;
  before.rows_estimated += estimated;
  before.rows_copied += copied;
  lanes.set(lane, before);
}

function mapMoveSegments(call: Call<"mapMoveSegments">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const move = await knownMoveRow(reader, call.params.move);
    const states = new Uint8Array(move.next_segment);
    const lanes = new Map<number, LaneProgress>();
    await eachPiece(reader, move, (piece) => {
      states[piece.index] = STATES.indexOf(piece.state);
      countedRanges(lanes, piece);
    });
    const answer: MoveSegmentMap = {
      move_id: move.move_id,
      cells: states.length,
      states: [...STATES],
      lengths: runLengths(states),
      lanes: [...lanes.values()]
        .toSorted((one, other) => one.lane - other.lane)
        .slice(0, LANES_SHOWN_MAX),
      state_version: move.state_version,
      row_version: move.row_version,
      pos,
    };
    return { answer, pos };
  });
}

/** What shows all segments of a move at once. */
export const MOVE_MAP_HANDLERS = {
  mapMoveSegments,
} satisfies Handlers;
