import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { RunLink } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { type Segment, segmentNotes, segmentState, type Sync, syncHref } from "./sync-texts.ts";

const STATES = [
  ["", "All"],
  ["PENDING", "pending"],
  ["RUNNING", "running"],
  ["FAILED", "failed"],
  ["QUARANTINED", "quarantined"],
  ["ABANDONED", "abandoned"],
  ["COMPLETE", "complete"],
] as const;

const VERIFICATIONS = [
  ["", "All"],
  ["REQUESTED,RUNNING", "in progress"],
  ["PASSED", "passed"],
  ["FAILED", "failed"],
  ["ERROR", "error"],
] as const;

const FIELDS = [
  { name: "status", label: "Status", options: STATES },
  { name: "verification", label: "Verification", options: VERIFICATIONS },
  { name: "from", label: "From block", type: "number" },
  { name: "to", label: "To block", type: "number" },
] as const;

/** The segments of a sync by their blocks, with filters. */
export function SegmentTable(props: { sync: Sync; everyMs: number | undefined }): ReactNode {
  const { sync, everyMs } = props;
  const [filters, setFilter] = useFilters(["status", "verification", "from", "to"]);
  const { status, verification } = filters;
  const [from, to] = [blockOf(filters.from), blockOf(filters.to)];
  const query = {
    ...queryOf({ status, verification }),
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
      <Filters of="segments" filters={filters} setFilter={setFilter} fields={FIELDS} />
      <ListTable
        label="Segments"
        list={list}
        columns={COLUMNS}
        keyOf={({ segment_index }) => segment_index}
        empty={
          <Empty title="No segment matches these filters.">
            <p>Remove a filter. Segments are planned once the head of the source is known.</p>
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
    heading: "Retries",
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
  { heading: "Run", cell: ({ run_id }) => <RunLink runId={run_id} />, wideOnly: true },
  {
    heading: "Note",
    cell: (segment) => <span className="sync-trouble">{segmentNotes(segment).join("; ")}</span>,
    wideOnly: true,
  },
];
