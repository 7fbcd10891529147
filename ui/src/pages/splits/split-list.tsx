import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { NoValue } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { useShards } from "../../parts/use-shards.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { NewLink, WorkList } from "../../parts/work-list.tsx";
import { isBusy, PHASE_OPTIONS, type Split, tenantsText, troubleOf } from "./split-texts.ts";
import "./splits.css";

/** How often what changes without an event is asked for, while there is any. */
const EVERY_MS = 2_000;

const COLUMNS: readonly Column<Split>[] = [
  {
    heading: "Split",
    cell: ({ id, source, target }) => (
      <Link href={`/splits/${id}`}>
        {source} → {target}
      </Link>
    ),
  },
  {
    heading: "Phase",
    cell: ({ phase, step }) => (
      <>
        <Status state={phase} /> {step?.state === "FAILED" && <Status state="FAILED" />}
      </>
    ),
  },
  { heading: "Tenants", cell: ({ tenants }) => tenantsText(tenants) },
  {
    heading: "Rows copied",
    cell: ({ backfill }) => countText(backfill.total_rows_copied),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Lag",
    cell: ({ tail }) => (tail.lag_ms === null ? <NoValue /> : durationText(tail.lag_ms)),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Planned",
    cell: ({ planned_at }) => <Time at={planned_at} />,
    wideOnly: true,
  },
  {
    heading: "Trouble",
    cell: (split) => <span className="splits-trouble">{visibleText(troubleOf(split) ?? "")}</span>,
    wideOnly: true,
  },
];

const FIELDS = [
  { name: "phase", label: "Phase", options: [["", "All"], ...PHASE_OPTIONS] },
] as const;

/** All splits, newest first, and the way to plan one. */
export function SplitList(): ReactNode {
  const [{ phase }, setFilter] = useFilters(["phase"]);
  const query = queryOf({ phase });
  const list = useList("listSplits", { query }, { keepPrevious: true });
  const isMoving = (list.data?.items ?? []).some(isBusy);
  useList("listSplits", { query }, { everyMs: EVERY_MS, enabled: isMoving });
  return (
    <WorkList
      noun="split"
      href="/splits"
      actions={<NewLink href="/splits/new">Plan a split</NewLink>}
      filters={<Filters of="splits" filters={{ phase }} setFilter={setFilter} fields={FIELDS} />}
      isFiltered={phase !== ""}
      list={list}
      columns={COLUMNS}
      keyOf={({ id }) => id}
      none={<NoSplits />}
    />
  );
}

function NoSplits(): ReactNode {
  const shards = useShards();
  if (shards === null) {
    return (
      <Empty title="No shards yet.">
        <p>
          A split moves tenants with live writes to another shard. Define your shards in{" "}
          <code>pawl.config.ts</code> with <code>shards()</code> first.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No splits yet.">
      <p>
        A split moves tenants with live writes to another shard.{" "}
        <Link href="/splits/new">Plan one here</Link>, or with <code>pawl split plan</code>. Nothing
        changes until you start it.
      </p>
    </Empty>
  );
}
