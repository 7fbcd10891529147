import type { ReactNode } from "react";
import { Link } from "wouter";
import type { RunningDocument } from "../../../../src/work/server-api.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Progress } from "../../parts/progress.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { countText, rateText } from "../../parts/time-text.ts";
import { causeOf } from "./attention-links.ts";

const COLUMNS: readonly Column<RunningDocument>[] = [
  {
    heading: "What",
    cell: (item) => (
      <span className="overview-running">
        <span className="overview-kind">{item.kind}</span>
        <Link href={causeOf(item)}>{item.name}</Link>
        <span className="soft">{item.text}</span>
      </span>
    ),
  },
  { heading: "Progress", cell: (item) => <Done item={item} /> },
  {
    heading: "Rate",
    align: "end",
    wideOnly: true,
    cell: ({ rate_per_second, unit }) =>
      rate_per_second === null ? <NoValue /> : `${rateText(rate_per_second)} ${unit}/s`,
  },
  { heading: "ETA", align: "end", wideOnly: true, cell: ({ eta_at }) => <Time at={eta_at} /> },
  {
    heading: "Started",
    align: "end",
    wideOnly: true,
    cell: ({ started_at }) => <Time at={started_at} />,
  },
];

/** What is under way, with how far it is. */
export function RunningTable({ running }: { running: readonly RunningDocument[] }): ReactNode {
  return (
    <Table
      label="Running"
      columns={COLUMNS}
      rows={running}
      keyOf={({ kind, id }) => `${kind} ${id}`}
    />
  );
}

function Done({ item }: { item: RunningDocument }): ReactNode {
  const { done, total, failed, unit } = item;
  if (total === null) return <span className="overview-done">{`${countText(done)} ${unit}`}</span>;
  // Segments that failed are counted in their own unit, and shown in words.
  const isCounted = unit === "partitions" || unit === "tasks";
  const parts = [
    { state: "SUCCEEDED", count: isCounted ? done - failed : done },
    { state: "FAILED", count: isCounted ? failed : 0 },
  ];
  return (
    <span className="overview-done">
      <Progress parts={parts} total={total} unit={unit} />
      <span className="overview-numbers">
        {countText(done)} of {countText(total)}{" "}
        <span className="soft">
          {unit}
          {failed > 0 && `, ${countText(failed)} failed`}
        </span>
      </span>
    </span>
  );
}
