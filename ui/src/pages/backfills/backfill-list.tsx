import type { ReactNode } from "react";
import { Link } from "wouter";
import { pairsText } from "../../../../src/kernel/keyspace/pairs-text.ts";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Id, NoValue } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText, rateText } from "../../parts/time-text.ts";
import { Lasted, Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { NewLink, WorkList } from "../../parts/work-list.tsx";
import { someText } from "../runs/run-texts.ts";
import {
  type Backfill,
  backfillHref,
  pairsIn,
  partitionParts,
  percentText,
  selectorText,
} from "./backfill-texts.ts";
import "./backfills.css";

const STATES = [
  ["", "All"],
  ["PENDING,RUNNING,PAUSED,CANCELLING", "unfinished"],
  ["RUNNING", "running"],
  ["PAUSED", "paused"],
  ["PENDING", "pending"],
  ["FAILED", "failed"],
  ["SUCCEEDED", "succeeded"],
  ["CANCELLING,CANCELLED", "cancelled"],
] as const;

const FIELDS = [
  { name: "status", label: "State", options: STATES },
  { name: "since", label: "Since (UTC)", type: "day" },
  { name: "until", label: "Before (UTC)", type: "day" },
] as const;

/** All backfills, newest first, and how far they are. */
export function BackfillList(): ReactNode {
  const [filters, setFilter] = useFilters(["status", "since", "until", "parent_backfill_id"]);
  const query = queryOf(filters);
  const list: ListAnswer<Backfill> = useList("listBackfills", { query }, { keepPrevious: true });
  return (
    <WorkList
      noun="backfill"
      href="/backfills"
      actions={<NewLink href="/backfills/new">New backfill</NewLink>}
      filters={
        <Filters of="backfills" filters={filters} setFilter={setFilter} fields={FIELDS}>
          {filters.parent_backfill_id !== "" && (
            <button
              type="button"
              className="button"
              onClick={() => setFilter("parent_backfill_id", "")}
            >
              Retries of <Id id={filters.parent_backfill_id} /> <span aria-hidden="true">✕</span>
            </button>
          )}
        </Filters>
      }
      isFiltered={Object.keys(query).length > 0}
      list={list}
      columns={COLUMNS}
      keyOf={({ backfill_id }) => backfill_id}
      none={<NoneYet />}
    />
  );
}

function NoneYet(): ReactNode {
  return (
    <Empty title="There are no backfills yet.">
      <p>
        A backfill materializes many partitions of an asset, chunk by chunk.{" "}
        <Link href="/backfills/new">Create one</Link>, or on the command line:{" "}
        <code>pawl backfill create --help</code>.
      </p>
    </Empty>
  );
}

const COLUMNS: Column<Backfill>[] = [
  {
    heading: "Backfill",
    cell: ({ backfill_id, asset_selection, partition_selector }) => (
      <div className="backfills-name">
        <Link href={backfillHref(backfill_id)}>{someText(asset_selection)}</Link>
        <div className="soft backfills-small">{selectorText(partition_selector)}</div>
      </div>
    ),
  },
  { heading: "State", cell: ({ display_status }) => <Status state={display_status} /> },
  {
    heading: "Progress",
    cell: (backfill) => (
      <div className="backfills-progress">
        <Progress
          parts={partitionParts(backfill).slice(0, 4)}
          total={backfill.partitions_total}
          unit="partitions"
        />
        <span className="backfills-small">{percentText(backfill)}</span>
      </div>
    ),
  },
  {
    heading: "Partitions",
    cell: (backfill) => (
      <span title={pairsText(pairsIn(backfill))}>{countText(backfill.partitions_total)}</span>
    ),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Failed",
    cell: ({ partitions_failed }) =>
      partitions_failed === 0 ? (
        <span className="soft">0</span>
      ) : (
        <span className="backfills-bad">{countText(partitions_failed)}</span>
      ),
    align: "end",
  },
  {
    heading: "Rate",
    cell: ({ rate_per_second: rate }) => (rate === null ? <NoValue /> : `${rateText(rate)} /s`),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Done, or ETA",
    cell: ({ eta_at, finished_at }) => <Time at={finished_at ?? eta_at} />,
    wideOnly: true,
  },
  { heading: "Created", cell: ({ created_at }) => <Time at={created_at} />, wideOnly: true },
  {
    heading: "Took",
    cell: ({ started_at, finished_at, paused_at, paused_ms }) => (
      <Lasted from={started_at} to={finished_at ?? paused_at} stoodMs={paused_ms} />
    ),
    align: "end",
    wideOnly: true,
  },
];
