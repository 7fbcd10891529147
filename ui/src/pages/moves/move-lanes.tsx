import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Progress } from "../../parts/progress.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { shownState } from "./move-segments.tsx";
import type { Move } from "./move-texts.ts";

/** How often how far lanes are is asked for while segments are worked on. */
const EVERY_MS = 2_000;

/** Lanes that are shown. */
const LANES_SHOWN_MAX = 200;

type Lane = Move["lanes"][number];

/** What goes from where to where, table by table, and how far each is. */
export function MoveLanes({ move }: { move: Move }): ReactNode {
  const { data } = useAnswer(
    "mapMoveSegments",
    { params: { move: move.move_id } },
    { everyMs: move.state === "RUNNING" ? EVERY_MS : undefined },
  );
  const progressOf = new Map((data?.lanes ?? []).map((progress) => [progress.lane, progress]));
  const columns: Column<Lane>[] = [
    {
      heading: "Table",
      cell: ({ table, from, to }) => (
        <>
          <code>{table}</code>{" "}
          <span className="moves-way">
            {from} → {to}
          </span>
        </>
      ),
    },
    {
      heading: "Segments",
      cell: ({ lane, sealed }) => {
        const progress = progressOf.get(lane);
        const parts = Object.entries(progress?.states ?? {})
          .filter(([state]) => state !== "PENDING")
          .map(([state, count]) => ({ state: shownState(state), count }));
        return (
          <div className="progress-line">
            <Progress parts={parts} total={progress?.segments ?? 0} unit="segments" />
            <span className="soft">
              {countText(progress?.segments ?? 0)}
              {sealed ? "" : " so far"}
            </span>
          </div>
        );
      },
    },
    {
      heading: "Rows",
      cell: ({ lane }) => {
        const progress = progressOf.get(lane);
        if (progress === undefined) return <NoValue />;
        return `${countText(progress.rows_copied)} of ${countText(progress.rows_estimated)}`;
      },
      align: "end",
    },
  ];
  return (
    <>
      <Table
        label="Lanes"
        columns={columns}
        rows={move.lanes.slice(0, LANES_SHOWN_MAX)}
        keyOf={({ lane }) => lane}
      />
      {move.lanes_total > LANES_SHOWN_MAX && (
        <p className="soft">and {countText(move.lanes_total - LANES_SHOWN_MAX)} more</p>
      )}
    </>
  );
}
