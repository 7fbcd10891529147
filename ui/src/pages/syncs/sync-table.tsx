import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty, NothingFits } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { visibleText } from "../../parts/visible-text.ts";
import {
  lagText,
  leftText,
  segmentParts,
  speedText,
  type Sync,
  syncHref,
  syncLabel,
} from "./sync-texts.ts";

const STATES = [
  ["", "All but removed"],
  ["PENDING", "pending"],
  ["RUNNING", "running"],
  ["FAILED", "failed"],
  ["FOLLOWING", "following"],
  ["COMPLETE", "complete"],
  ["PAUSED", "paused"],
  ["REMOVED", "removed"],
] as const;

/** The targets of all syncs, with how far behind each is. */
export function SyncTable({ names }: { names: readonly string[] }): ReactNode {
  const [filters, setFilter] = useFilters(["name", "status", "source", "target"]);
  const query = queryOf(filters);
  const list: ListAnswer<Sync> = useList("listSyncs", { query }, { keepPrevious: true });
  const isFiltered = Object.keys(query).length > 0;
  return (
    <>
      <Filters
        of="syncs"
        filters={filters}
        setFilter={setFilter}
        fields={[
          {
            name: "name",
            label: "Name",
            options: [["", "All"], ...names.map((one) => [one, one] as const)],
          },
          { name: "status", label: "Status", options: STATES },
          { name: "source", label: "Source", type: "text" },
          { name: "target", label: "Target (field=value)", type: "text" },
        ]}
      />
      <ListTable
        label="Syncs"
        list={list}
        columns={COLUMNS}
        keyOf={({ sync_id }) => sync_id}
        empty={isFiltered ? <NothingFits noun="sync" all="/syncs" /> : <NothingThere />}
      />
    </>
  );
}

function NothingThere(): ReactNode {
  return (
    <Empty title="No syncs yet.">
      <p>
        Define a <code>sync()</code> in <code>pawl.config.ts</code> and publish it with{" "}
        <code>pawl deploy</code>. Its targets appear here, and you can add more.
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<Sync>[] = [
  {
    heading: "Sync",
    cell: (sync) => (
      <Link href={syncHref(sync.sync_id)} className="sync-label">
        {syncLabel(sync)}
      </Link>
    ),
  },
  { heading: "Status", cell: ({ status }) => <Status state={status} /> },
  { heading: "Lag", cell: (sync) => lagText(sync) ?? <NoValue />, align: "end" },
  { heading: "Rate", cell: (sync) => speedText(sync) ?? <NoValue />, align: "end", wideOnly: true },
  { heading: "ETA", cell: (sync) => leftText(sync) ?? <NoValue />, align: "end", wideOnly: true },
  {
    heading: "Segments",
    cell: (sync) => (
      <Progress parts={segmentParts(sync)} total={sync.segments_total} unit="segments" />
    ),
    wideOnly: true,
  },
  {
    heading: "Synced to",
    cell: ({ synced_to }) => (synced_to === null ? <NoValue /> : countText(synced_to)),
    align: "end",
    wideOnly: true,
  },
  { heading: "Trouble", cell: (sync) => <Trouble sync={sync} />, wideOnly: true },
];

function Trouble({ sync }: { sync: Sync }): ReactNode {
  const { defined, segments_quarantined: aside, segments_failed: failed, last_error } = sync;
  const parts = [
    defined ? "" : "no longer defined",
    aside === 0 ? "" : `${countText(aside)} quarantined`,
    failed === 0 ? "" : `${countText(failed)} waiting for a retry`,
  ].filter((part) => part !== "");
  const isNow = failed > 0 || aside > 0;
  const error = isNow && last_error !== null ? visibleText(last_error.message) : "";
  if (parts.length === 0) return null;
  return (
    <span className="sync-trouble" title={error}>
      {parts.join(", ")}
      {error !== "" && `: ${error}`}
    </span>
  );
}
