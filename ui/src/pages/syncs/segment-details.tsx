import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts, RunLink } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted, Time } from "../../parts/time.tsx";
import { useAddressQuery } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { ExcludeSegment, RetrySegment } from "./segment-actions.tsx";
import {
  rangeText,
  type Segment,
  segmentNotes,
  segmentState,
  type Sync,
  syncHref,
  verificationText,
} from "./sync-texts.ts";

/** One segment of a sync: what it is, how it went, and what can be done about it. */
export function SegmentDetails(props: {
  sync: Sync;
  index: number;
  everyMs: number | undefined;
}): ReactNode {
  const { sync, index, everyMs } = props;
  const params = { sync: sync.sync_id, segment_index: index };
  const answer = useAnswer("getSegment", { params }, { everyMs });
  const query = useAddressQuery();
  query.delete("segment");
  return (
    <Section
      title={`Segment ${index}`}
      actions={<Link href={`${syncHref(sync.sync_id)}?${query.toString()}`}>Close</Link>}
    >
      <Loaded answer={answer}>
        {(segment) => <Shown segment={segment} syncVersion={sync.state_version} />}
      </Loaded>
    </Section>
  );
}

function Shown(props: { segment: Segment; syncVersion: number }): ReactNode {
  const { segment, syncVersion } = props;
  const { segment_id, status, verification } = segment;
  const notes = segmentNotes(segment);
  const isAside = status === "QUARANTINED" || status === "ABANDONED";
  const entity = encodeURIComponent(segment_id);
  return (
    <div className="card stack">
      <div className="row">
        <Status state={segmentState(segment)} />
        <span>{rangeText(segment)}</span>
        <Link href={`/ledger/${entity}?view=why`}>Why</Link>
        <Link href={`/ledger/${entity}?view=history`}>History</Link>
      </div>
      {notes.length > 0 && (
        <Notice tone={status === "FAILED" || isAside ? "bad" : "wait"}>
          {notes.map((note) => (
            <p key={note} className="sync-error">
              {note}
            </p>
          ))}
        </Notice>
      )}
      <Facts
        facts={[
          ["Done", `${segment.progress_pct.toFixed(1)} %`],
          [
            "Stored up to",
            segment.last_processed_block === null ? null : countText(segment.last_processed_block),
          ],
          ["Rows", countText(segment.rows_stored)],
          ["Part of", segment.kind === "history" ? "the history" : "new blocks"],
          ["Reopened", segment.generation === 0 ? null : countText(segment.generation)],
          ["Failed attempts", countText(segment.retry_count)],
          [
            "Next attempt",
            segment.next_retry_at === null ? null : <Time key="next" at={segment.next_retry_at} />,
          ],
          ["Worker", segment.worker_id === null ? null : visibleText(segment.worker_id)],
          ["Run", <RunLink key="run" runId={segment.run_id} />],
          [
            "Took",
            segment.started_at === null ? null : (
              <Lasted key="took" from={segment.started_at} to={segment.finished_at} />
            ),
          ],
          [
            "Verification",
            verification === null ? null : visibleText(verificationText(verification)),
          ],
          ["Verified", verification === null ? null : <Time key="at" at={verification.at} />],
          ["Hash of its last block", segment.end_hash],
        ]}
      />
      <SetAside segment={segment} />
      {isAside && (
        <div className="row">
          <RetrySegment segment={segment} syncVersion={syncVersion} />
          <ExcludeSegment segment={segment} syncVersion={syncVersion} />
        </div>
      )}
    </div>
  );
}

/** Blocks that the run of a segment quarantined so far. */
function SetAside({ segment: { set_aside } }: { segment: Segment }): ReactNode {
  if (set_aside === null) return null;
  return (
    <ul className="sync-aside">
      {set_aside.slice(0, 20).map(({ block, error }) => (
        <li key={block}>
          Block {countText(block)}: {visibleText(error.message)}
        </li>
      ))}
    </ul>
  );
}
