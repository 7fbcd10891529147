import type { ReactNode } from "react";
import { Link } from "wouter";
import { useList } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { useShards } from "../../parts/use-shards.ts";
import { visibleText } from "../../parts/visible-text.ts";
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
    heading: "Behind",
    cell: ({ tail }) =>
      tail.lag_ms === null ? <span className="soft">–</span> : durationText(tail.lag_ms),
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

/** All splits, newest first, and the way to plan one. */
export function SplitList(): ReactNode {
  const [{ phase }, setFilter] = useFilters(["phase"]);
  const query = phase === "" ? {} : { phase };
  const list = useList("listSplits", { query }, { keepPrevious: true });
  const isMoving = (list.data?.items ?? []).some(isBusy);
  useList("listSplits", { query }, { everyMs: EVERY_MS, enabled: isMoving });
  return (
    <Page
      title="Splits"
      actions={
        <Link href="/splits/new" className="button button-primary">
          Plan a split
        </Link>
      }
    >
      <div className="filters">
        <Choice
          label="Phase"
          value={phase}
          options={[["", "Any"], ...PHASE_OPTIONS]}
          onChange={(value) => setFilter("phase", value)}
        />
      </div>
      <ListTable
        label="Splits"
        list={list}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={phase === "" ? <NoSplits /> : <Empty title="No split is in that phase." />}
      />
    </Page>
  );
}

function NoSplits(): ReactNode {
  const shards = useShards();
  if (shards === null) {
    return (
      <Empty title="There are no shards yet.">
        <p>
          A split takes tenants from one shard to another while they are used. Say in{" "}
          <code>pawl.config.ts</code> which shards there are, with <code>shards()</code>, and it can
          be planned here.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No split was planned yet.">
      <p>
        A split takes tenants from one shard to another while they are used.{" "}
        <Link href="/splits/new">Plan one here</Link>, or with <code>pawl split plan</code>. Nothing
        is changed before you say so.
      </p>
    </Empty>
  );
}
