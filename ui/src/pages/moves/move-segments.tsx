import type { ReactNode } from "react";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { RunLengthMap } from "../../parts/run-length-map.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { MoveSegment } from "./move-segment.tsx";
import { isStopping, keysText, moveName, type Move, type Segment } from "./move-texts.ts";

/** How often what changes without an event is asked for, while segments are worked on. */
const EVERY_MS = 2_000;

const STATES = [
  ["", "All"],
  ["PENDING", "Pending"],
  ["COPIED", "Copied"],
  ["REMOVED", "Moved"],
  ["POISONED", "Quarantined"],
  ["EXCLUDED", "Excluded"],
] as const;

const FIELDS = [{ name: "state", label: "State", options: STATES }] as const;

/** A segment that was removed from where it came from has arrived. */
export function shownState(state: string): string {
  return state === "REMOVED" ? "MOVED" : state;
}

/** The segments of a move: all at once as a map, one by one as a list, and the one that is open. */
export function MoveSegments({ move }: { move: Move }): ReactNode {
  const [{ state, segment: opened }, setFilter] = useFilters(["state", "segment"]);
  const index = opened === "" ? null : Number(opened);
  if (move.segments_total === 0) {
    return <Empty title={move.surveyed ? "There is nothing to move." : "Counting rows…"} />;
  }
  const open = (segment: number): void => setFilter("segment", String(segment));
  return (
    <div className="stack">
      <SegmentMap move={move} marked={index} onOpen={open} />
      {index !== null && Number.isInteger(index) && (
        <MoveSegment key={index} move={move} index={index} close={() => setFilter("segment", "")} />
      )}
      <Filters of="segments" filters={{ state }} setFilter={setFilter} fields={FIELDS} />
      <SegmentList move={move} state={state} onOpen={open} />
    </div>
  );
}

function SegmentMap(props: {
  move: Move;
  marked: number | null;
  onOpen: (index: number) => void;
}): ReactNode {
  const { move, marked, onOpen } = props;
  const { data } = useAnswer(
    "mapMoveSegments",
    { params: { move: move.move_id } },
    { everyMs: move.state === "RUNNING" ? EVERY_MS : undefined },
  );
  if (data === undefined || data.cells === 0) return null;
  return (
    <RunLengthMap
      label={`Segments of move ${moveName(move)}`}
      noun="segment"
      cells={data.cells}
      states={data.states.map(shownState)}
      lengths={data.lengths}
      marked={marked}
      onOpen={onOpen}
      heightMax={200}
    />
  );
}

function SegmentList(props: {
  move: Move;
  state: string;
  onOpen: (index: number) => void;
}): ReactNode {
  const { move, state, onOpen } = props;
  const list = useList(
    "listMoveSegments",
    { params: { move: move.move_id }, query: { limit: 20, ...queryOf({ state }) } },
    { everyMs: move.state === "RUNNING" ? EVERY_MS : undefined, keepPrevious: true },
  );
  const columns: Column<Segment>[] = [
    {
      heading: "Segment",
      cell: ({ segment_index }) => (
        <button type="button" className="button moves-open" onClick={() => onOpen(segment_index)}>
          {segment_index}
          <span className="visually-hidden">: open</span>
        </button>
      ),
    },
    {
      heading: "State",
      cell: (segment) => (
        <Status
          state={
            segment.running && !isStopping(move, segment) ? "RUNNING" : shownState(segment.state)
          }
        />
      ),
    },
    { heading: "Table", cell: ({ table_name }) => <code>{table_name}</code> },
    {
      heading: "Route",
      cell: ({ from, to }) => (
        <span className="moves-way">
          {from} → {to}
        </span>
      ),
      wideOnly: true,
    },
    {
      heading: "Keys",
      cell: (segment) => <code>{keysText(segment)}</code>,
      wideOnly: true,
    },
    {
      heading: "Rows",
      cell: ({ rows_copied, rows_estimated }) =>
        `${countText(rows_copied)} of ${countText(rows_estimated)}`,
      align: "end",
    },
    {
      heading: "Note",
      cell: (segment) => (
        <span className="moves-note">
          {isStopping(move, segment) ? "stopping" : visibleText(noteOf(segment))}
        </span>
      ),
    },
  ];
  return (
    <ListTable
      label="Segments"
      list={list}
      columns={columns}
      keyOf={({ segment_index }) => segment_index}
      empty={<Empty title="No segment is in this state." />}
    />
  );
}

function noteOf({ excluded, error, verification }: Segment): string {
  if (excluded !== null) return `${excluded.by}: ${excluded.reason}`;
  if (error !== null) return error.message;
  return verification?.ok === false ? `differs ${verification.note ?? ""}` : "";
}
