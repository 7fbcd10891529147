import type { ReactNode } from "react";
import { Link } from "wouter";
import type { QuarantineDocument } from "../../../../src/work/sync/documents.ts";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Empty, errorText } from "../../parts/notice.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { ExcludeSegment, RetrySegment } from "./segment-actions.tsx";
import { rangeText, syncHref, syncLabel } from "./sync-texts.ts";

/** The segments of all syncs that were quarantined. */
export function AllQuarantine(): ReactNode {
  const list = useList("listQuarantine", {});
  return <Quarantine list={list} label="Quarantined segments" columns={[SYNC, ...COLUMNS]} />;
}

/** The segments of one sync that were quarantined. */
export function SyncQuarantine({ syncId }: { syncId: string }): ReactNode {
  const list = useList("listSyncQuarantine", { params: { sync: syncId } });
  return <Quarantine list={list} label="Quarantined segments of the sync" columns={COLUMNS} />;
}

function Quarantine(props: {
  list: ListAnswer<QuarantineDocument>;
  label: string;
  columns: readonly Column<QuarantineDocument>[];
}): ReactNode {
  return (
    <ListTable
      label={props.label}
      list={props.list}
      columns={props.columns}
      keyOf={({ segment_id }) => segment_id}
      empty={
        <Empty title="Nothing is quarantined.">
          <p>
            Blocks that still fail after all retries are quarantined, so that the others continue.
            You can retry or exclude them here.
          </p>
        </Empty>
      }
    />
  );
}

const SYNC: Column<QuarantineDocument> = {
  heading: "Sync",
  cell: (segment) => (
    <Link href={syncHref(segment.sync_id)} className="sync-label">
      {syncLabel(segment)}
    </Link>
  ),
};

const COLUMNS: readonly Column<QuarantineDocument>[] = [
  {
    heading: "Segment",
    cell: (segment) => (
      <Link href={`${syncHref(segment.sync_id)}?segment=${segment.segment_index}`}>
        {segment.segment_index}: {rangeText(segment)}
      </Link>
    ),
  },
  {
    heading: "Error",
    cell: ({ error_class, error_message }) => (
      <span className="sync-trouble">
        {errorText({ class: error_class ?? "unknown", message: error_message ?? "no message" })}
      </span>
    ),
  },
  {
    heading: "Retries",
    cell: ({ retry_count }) => countText(retry_count),
    align: "end",
    wideOnly: true,
  },
  { heading: "Since", cell: ({ finished_at }) => <Time at={finished_at} />, wideOnly: true },
  {
    heading: "Actions",
    cell: (segment) => (
      <span className="row">
        <RetrySegment segment={segment} syncVersion={segment.sync_state_version} />
        <ExcludeSegment segment={segment} syncVersion={segment.sync_state_version} />
      </span>
    ),
  },
];
