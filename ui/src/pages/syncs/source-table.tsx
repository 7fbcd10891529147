import type { ReactNode } from "react";
import { Link } from "wouter";
import type { SyncSourceDocument } from "../../../../src/work/sync/documents.ts";
import { useList } from "../../api/use-answer.ts";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { useNow } from "../../parts/use-now.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** What syncs fetch from: heads, and what was learnt by asking. */
export function SourceTable(): ReactNode {
  // What asking taught makes no events.
  const list = useList("listSyncSources", {}, { everyMs: 5_000 });
  return (
    <ListTable
      label="Sources of syncs"
      list={list}
      columns={COLUMNS}
      keyOf={({ name, source }) => `${name} ${source}`}
      empty={
        <Empty title="No sync has a source yet.">
          <p>
            A source appears once a <Link href="/syncs">sync</Link> has a target.
          </p>
        </Empty>
      }
    />
  );
}

const COLUMNS: readonly Column<SyncSourceDocument>[] = [
  {
    heading: "Source",
    cell: ({ name, source }) => (
      <span className="sync-label">
        {visibleText(source)} <span className="soft">of {visibleText(name)}</span>
      </span>
    ),
  },
  { heading: "Head", cell: (source) => <Head source={source} />, align: "end" },
  {
    heading: "Targets",
    cell: ({ name, source, targets }) => (
      <Link
        href={`/syncs?name=${encodeURIComponent(name)}&source=${encodeURIComponent(source)}`}
        aria-label={`${countText(targets)} targets of ${name} from ${visibleText(source)}`}
      >
        {countText(targets)}
      </Link>
    ),
    align: "end",
  },
  { heading: "Health", cell: (source) => <Answers source={source} /> },
  {
    heading: "Blocks per request",
    cell: ({ request_size }) => (request_size === null ? "no limit" : countText(request_size)),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Request interval",
    cell: ({ interval_ms }) => (interval_ms === 0 ? "no pause" : durationText(interval_ms)),
    align: "end",
    wideOnly: true,
  },
  {
    heading: "Rewrites",
    cell: ({ rewrites, last_rewrite }) =>
      last_rewrite === null ? (
        "none"
      ) : (
        <>
          {countText(rewrites)}, last above {countText(last_rewrite.fork_block)}{" "}
          <Time at={last_rewrite.at} />
        </>
      ),
    wideOnly: true,
  },
  {
    heading: "Workers",
    cell: ({ workers }) => countText(workers),
    align: "end",
    wideOnly: true,
  },
];

function Head({ source }: { source: SyncSourceDocument }): ReactNode {
  if (source.head === null) return <span className="soft">not seen yet</span>;
  return (
    <>
      {countText(source.head)} (<Time at={source.head_at} />)
    </>
  );
}

function Answers({ source }: { source: SyncSourceDocument }): ReactNode {
  const now = useNow();
  const { failures, error, throttled_until, looked_at } = source;
  if (throttled_until !== null && Date.parse(throttled_until) > now) {
    return (
      <>
        <Status state="RETRY_WAIT">throttled</Status> until <Time at={throttled_until} />
      </>
    );
  }
  if (failures > 0) {
    return (
      <>
        <Status state="FAILED">
          {failures === 1 ? "failed once" : `failed ${countText(failures)} times in a row`}
        </Status>{" "}
        <span className="sync-trouble">{error === null ? "" : visibleText(error.message)}</span>
      </>
    );
  }
  if (looked_at === null) return <span className="soft">not polled yet</span>;
  return (
    <>
      <Status state="ACTIVE">responding</Status> <Time at={looked_at} />
    </>
  );
}
