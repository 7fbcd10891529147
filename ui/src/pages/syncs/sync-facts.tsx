import type { ReactNode } from "react";
import { Link } from "wouter";
import { Facts } from "../../parts/facts.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { lagText, leftText, segmentParts, speedText, type Sync, syncHref } from "./sync-texts.ts";

/** What a sync is, how far it is and how fast, and what keeps it. */
export function SyncFacts({ sync }: { sync: Sync }): ReactNode {
  return (
    <div className="stack">
      {!sync.defined && sync.state !== "REMOVED" && (
        <Notice tone="warn">
          <p>
            {visibleText(sync.name)} is no longer defined, so the sync is stopped. Publish it again
            with <code>pawl deploy</code>, or remove the sync.
          </p>
        </Notice>
      )}
      <div className="card stack">
        <div className="sync-progress">
          <Progress parts={segmentParts(sync)} total={sync.segments_total} unit="segments" />
          <span className="soft">
            {sync.progress_pct.toFixed(1)} % of segments ({countText(sync.segments_complete)} of{" "}
            {countText(sync.segments_total)}), {countText(sync.blocks_complete)} of{" "}
            {countText(sync.blocks_total)} blocks
          </span>
        </div>
        <Facts facts={factsOf(sync)} />
      </div>
      <Trouble sync={sync} />
    </div>
  );
}

function factsOf(sync: Sync): [string, ReactNode][] {
  const left = leftText(sync);
  return [
    ["Behind", lagText(sync) ?? "not known yet"],
    ["Rate", speedText(sync)],
    [
      "ETA",
      left === null ? null : (
        <span key="left">
          {left}
          {sync.eta_at !== null && (
            <>
              {" "}
              (<Time at={sync.eta_at} />)
            </>
          )}
        </span>
      ),
    ],
    ["Synced to", sync.synced_to === null ? "nothing yet" : countText(sync.synced_to)],
    ["Head", <Head key="head" sync={sync} />],
    ["Range", rangeOf(sync)],
    [
      "Source",
      <Link key="source" href="/syncs?view=sources">
        {visibleText(sync.source)}
      </Link>,
    ],
    ["Rows stored", countText(sync.rows_stored)],
    ["Concurrent segments", sync.max_parallel === null ? null : countText(sync.max_parallel)],
    ["Priority", sync.priority === null ? null : String(sync.priority)],
    ["Defined by", sync.origin === "code" ? "code" : "the API"],
    ["Reason", sync.reason === null ? null : visibleText(sync.reason)],
    ["Started", sync.started_at === null ? null : <Time key="started" at={sync.started_at} />],
    [
      "Last complete",
      sync.completed_at === null ? null : <Time key="complete" at={sync.completed_at} />,
    ],
    ["Verified", verifyText(sync)],
  ];
}

function Head({ sync }: { sync: Sync }): ReactNode {
  const { head, head_at, safe_block } = sync;
  if (head === null) return "not seen yet";
  return (
    <>
      {countText(head)} (<Time at={head_at} />)
      {safe_block !== null && safe_block !== head && <>, safe up to {countText(safe_block)}</>}
    </>
  );
}

function rangeOf({ from_block, to_block, to_limit }: Sync): string {
  const end = to_limit === null ? "follows the head" : `ends at ${countText(to_limit)}`;
  if (to_block === null) return `from ${countText(from_block)}, not planned yet; ${end}`;
  return `${countText(from_block)} to ${countText(to_block)}; ${end}`;
}

function verifyText({ verifications, verify_waiting, verify_active }: Sync): string | null {
  if (verifications === 0) return null;
  const open = verify_waiting + verify_active;
  const times = verifications === 1 ? "once" : `${countText(verifications)} times`;
  return `requested ${times}${open === 0 ? "" : `, ${countText(open)} segments to go`}`;
}

/** What went wrong last, how often, and when it is tried again. */
function Trouble({ sync }: { sync: Sync }): ReactNode {
  const { last_error, last_error_at, retry_count, next_retry_at, segments_quarantined } = sync;
  if (last_error === null) return null;
  const isNow = sync.segments_failed > 0 || segments_quarantined > 0;
  return (
    <Notice tone={isNow ? "bad" : "wait"}>
      <p className="sync-error">
        <ErrorText error={last_error} />{" "}
        <span className="soft">
          <Time at={last_error_at} />
        </span>
      </p>
      <p>
        {retry_count === 1 ? "1 attempt" : `${countText(retry_count)} attempts`} failed so far
        {next_retry_at === null ? "." : <>; next attempt </>}
        {next_retry_at !== null && (
          <>
            <Time at={next_retry_at} />.
          </>
        )}{" "}
        {segments_quarantined > 0 && (
          <Link href={`${syncHref(sync.sync_id)}?view=quarantine`}>
            See quarantined segments ({countText(segments_quarantined)})
          </Link>
        )}
      </p>
    </Notice>
  );
}
