import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Id } from "../../parts/facts.tsx";
import { Choice } from "../../parts/field.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { TypedFilter } from "../../parts/typed-filter.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { type Segment, segmentNotes, segmentState, type Sync, syncHref } from "./sync-texts.ts";

const STATES = [
  ["", "any"],
  ["PENDING", "pending"],
  ["RUNNING", "running"],
  ["FAILED", "failed"],
  ["QUARANTINED", "quarantined"],
  ["ABANDONED", "abandoned"],
  ["COMPLETE", "complete"],
] as const;

const VERIFICATIONS = [
  ["", "any"],
  ["REQUESTED,RUNNING", "under way"],
  ["PASSED", "passed"],
  ["FAILED", "did not pass"],
  ["ERROR", "could not be done"],
] as const;

/** The segments of a sync by their blocks, with filters. */
export function SegmentTable(props: { sync: Sync; everyMs: number | undefined }): ReactNode {
  const { sync, everyMs } = props;
  const [filters, setFilter] = useFilters(["status", "verification", "from", "to"]);
  const { status, verification } = filters;
  const [from, to] = [blockOf(filters.from), blockOf(filters.to)];
  const query = {
    ...(status === "" ? {} : { status }),
    ...(verification === "" ? {} : { verification }),
    ...(from === null ? {} : { from_block: from }),
    ...(to === null ? {} : { to_block: to }),
  };
  const list: ListAnswer<Segment> = useList(
    "listSegments",
    { params: { sync: sync.sync_id }, query },
    { keepPrevious: true, everyMs },
  );
  return (
    <>
      <search className="filters" aria-label="Filters of segments">
        <Choice
          label="Status"
          value={status}
          options={STATES}
          onChange={(value) => setFilter("status", value)}
        />
        <Choice
          label="Verification"
          value={verification}
          options={VERIFICATIONS}
          onChange={(value) => setFilter("verification", value)}
        />
        <TypedFilter
          label="From block"
          value={filters.from}
          isNumber
          onChange={(value) => setFilter("from", value)}
        />
        <TypedFilter
          label="To block"
          value={filters.to}
          isNumber
          onChange={(value) => setFilter("to", value)}
        />
      </search>
      <ListTable
        label="Segments"
        list={list}
        columns={COLUMNS}
        keyOf={({ segment_index }) => segment_index}
        empty={
          <Empty title="There are no such segments.">
            <p>Leave a filter out. Segments are planned when the head of the source is known.</p>
          </Empty>
        }
      />
    </>
  );
}

function blockOf(text: string): number | null {
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Opens a segment above the list, which stays as it is filtered. */
function SegmentLink({ segment: { sync_id, segment_index } }: { segment: Segment }): ReactNode {
  const query = useAddressQuery();
  query.set("segment", String(segment_index));
  return <Link href={`${syncHref(sync_id)}?${query.toString()}`}>{segment_index}</Link>;
}

const COLUMNS: readonly Column<Segment>[] = [
  { heading: "Segment", cell: (segment) => <SegmentLink segment={segment} /> },
  { heading: "Status", cell: (segment) => <Status state={segmentState(segment)} /> },
  {
    heading: "Blocks",
    cell: ({ from_block, to_block }) => `${countText(from_block)} – ${countText(to_block)}`,
    align: "end",
  },
  { heading: "Done", cell: ({ progress_pct }) => `${progress_pct.toFixed(1)} %`, align: "end" },
  {
    heading: "Rows",
    cell: ({ rows_stored }) => countText(rows_stored),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Tried again",
    cell: ({ retry_count, next_retry_at }) =>
      retry_count === 0 ? (
        ""
      ) : (
        <>
          {countText(retry_count)}
          {next_retry_at !== null && (
            <>
              , next <Time at={next_retry_at} />
            </>
          )}
        </>
      ),
    wideOnly: true,
  },
  {
    heading: "Run",
    cell: ({ run_id }) =>
      run_id === null ? (
        <span className="soft">–</span>
      ) : (
        <Link href={`/runs/${encodeURIComponent(run_id)}`}>
          <Id id={run_id} />
        </Link>
      ),
    wideOnly: true,
  },
  {
    heading: "Note",
    cell: (segment) => <span className="sync-trouble">{segmentNotes(segment).join("; ")}</span>,
    wideOnly: true,
  },
];
