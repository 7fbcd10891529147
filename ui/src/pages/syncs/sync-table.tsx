import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Empty, NothingFits } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
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
import { TypedFilter } from "../../parts/typed-filter.tsx";

const STATES = [
  ["", "any but removed"],
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
  const { name, status, source, target } = filters;
  const query = {
    ...(name === "" ? {} : { name }),
    ...(status === "" ? {} : { status }),
    ...(source === "" ? {} : { source }),
    ...(target === "" ? {} : { target }),
  };
  const list: ListAnswer<Sync> = useList("listSyncs", { query }, { keepPrevious: true });
  const isFiltered = Object.keys(query).length > 0;
  return (
    <>
      <search className="filters" aria-label="Filters of syncs">
        <Choice
          label="Name"
          value={name}
          options={[["", "any"], ...names.map((one) => [one, one] as const)]}
          onChange={(value) => setFilter("name", value)}
        />
        <Choice
          label="Status"
          value={status}
          options={STATES}
          onChange={(value) => setFilter("status", value)}
        />
        <TypedFilter
          label="Source"
          value={source}
          onChange={(value) => setFilter("source", value)}
        />
        <TypedFilter
          label="Target (field=value)"
          value={target}
          onChange={(value) => setFilter("target", value)}
        />
      </search>
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
    <Empty title="Nothing is synced.">
      <p>
        Define a <code>sync()</code> in <code>pawl.config.ts</code> and publish it with{" "}
        <code>pawl deploy</code>; then its targets stand here, and you can add more.
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
  { heading: "Lag", cell: (sync) => lagText(sync) ?? <Unknown />, align: "end" },
  { heading: "Rate", cell: (sync) => speedText(sync) ?? <Unknown />, align: "end", wideOnly: true },
  { heading: "Left", cell: (sync) => leftText(sync) ?? <Unknown />, align: "end", wideOnly: true },
  {
    heading: "Segments",
    cell: (sync) => (
      <Progress parts={segmentParts(sync)} total={sync.segments_total} unit="segments" />
    ),
    wideOnly: true,
  },
  {
    heading: "Synced to",
    cell: ({ synced_to }) => (synced_to === null ? <Unknown /> : countText(synced_to)),
    align: "end",
    wideOnly: true,
  },
  { heading: "Trouble", cell: (sync) => <Trouble sync={sync} />, wideOnly: true },
];

function Unknown(): ReactNode {
  return <span className="soft">–</span>;
}

function Trouble({ sync }: { sync: Sync }): ReactNode {
  const { defined, segments_quarantined: aside, segments_failed: failed, last_error } = sync;
  const parts = [
    defined ? "" : "no longer defined",
    aside === 0 ? "" : `${countText(aside)} set aside`,
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
