import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { ErrorText, LacksShardWorker, Notice } from "../../parts/notice.tsx";
import { Section, SectionColumns } from "../../parts/page.tsx";
import { Phases } from "../../parts/phases.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { counted, countText, durationText, rateText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { LedgerButtons, WorkNow, WorkPage } from "../../parts/work-page.tsx";
import { MoveActions } from "./move-actions.tsx";
import { MoveCheck } from "./move-check.tsx";
import { MoveLanes } from "./move-lanes.tsx";
import { MoveSegments } from "./move-segments.tsx";
import {
  bytesText,
  type Move,
  moveName,
  phasesOf,
  segmentParts,
  topologyText,
} from "./move-texts.ts";
import "./moves.css";

/** How often a move is asked for while segments are worked on. */
const EVERY_MS = 1_000;

/** A move: where it stands, its segments, and everything that can be done with it. */
export function MovePage(): ReactNode {
  const params = { move: useAddressName() };
  const answer = useAnswer(
    "getMove",
    { params },
    {
      everyMs: ({ state, surveyed }) => (state === "RUNNING" || !surveyed ? EVERY_MS : undefined),
    },
  );
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Moves", href: "/moves" }}
      title={answer.data === undefined ? "Move" : `Move ${moveName(answer.data)}`}
      state={({ state, dry_run }) => (
        <>
          <Status state={state} /> {dry_run && <span className="soft">dry run</span>}
        </>
      )}
      actions={({ move_id }) => <LedgerButtons entity={move_id} views={["why", "history"]} />}
    >
      {(move) => <Shown key={move.move_id} move={move} />}
    </WorkPage>
  );
}

function Shown({ move }: { move: Move }): ReactNode {
  return (
    <>
      <Phases label="Phases of the move" phases={phasesOf(move)} />
      <WorkNow text={move.next.text}>
        {move.lacks_worker && <LacksShardWorker />}
        <div className="progress-line">
          <Progress parts={segmentParts(move)} total={move.segments_total} unit="segments" />
          <span className="soft">
            {move.progress_pct.toFixed(1)} % of {counted(move.segments_total, "segment")} copied
          </span>
        </div>
        <Numbers move={move} />
        {move.last_error !== null && isOpen(move) && (
          <Notice tone={move.segments_poisoned > 0 ? "bad" : "warn"}>
            <p>
              <ErrorText error={move.last_error} at={move.last_error_at} />
            </p>
          </Notice>
        )}
      </WorkNow>
      <Section title="Actions">
        <MoveActions move={move} />
      </Section>
      <Section title="Segments">
        <MoveSegments move={move} />
      </Section>
      <SectionColumns>
        <Section title="Lanes">
          <MoveLanes move={move} />
        </Section>
        <Section title="Verification">
          <MoveCheck move={move} />
        </Section>
      </SectionColumns>
      <Section title="Plan">
        <Plan move={move} />
      </Section>
    </>
  );
}

function isOpen({ state }: Move): boolean {
  return state !== "COMPLETE" && state !== "CANCELLED";
}

function Numbers({ move }: { move: Move }): ReactNode {
  const { rate_rows_per_second: rate, eta_seconds: eta, retry_budget: budget } = move;
  const about = move.surveyed ? "" : "at least ";
  return (
    <Facts
      facts={[
        [
          "Rows copied",
          `${countText(move.rows_copied)} of ${about}${countText(move.rows_estimated)}`,
        ],
        ["Bytes", bytesText(move.bytes_copied)],
        ["Rows removed", move.keep_source || move.dry_run ? null : countText(move.rows_removed)],
        ["Rate", rate === null ? null : `${rateText(rate)} rows/s`],
        ["ETA", eta === null ? null : `about ${durationText(eta * 1_000)}`],
        [
          "Concurrency",
          `${counted(move.segment_concurrency, "segment")}${
            move.rows_per_second === null ? "" : `, ${countText(move.rows_per_second)} rows/s`
          }`,
        ],
        [
          "Retries",
          move.retries === 0
            ? null
            : `${counted(move.retries, "retry", "retries")}${budget === null ? "" : `, budget ${budget}`}`,
        ],
        ["Reason", move.reason],
        ["Last error", move.last_error === null || isOpen(move) ? null : move.last_error.message],
      ]}
    />
  );
}

function Plan({ move }: { move: Move }): ReactNode {
  return (
    <div className="card">
      <Facts
        facts={[
          ["From", topologyText(move.from)],
          ["To", topologyText(move.to)],
          ["Tables", move.tables.join(", ")],
          ["Segments by", strategyText(move.strategy)],
          [
            "Afterwards",
            move.keep_source ? "source keeps its rows" : "rows are removed from the source",
          ],
          ["Quarantined after", counted(move.segment_attempts, "failure")],
          [
            "Planned",
            <span key="planned">
              <Moment at={move.created_at} /> by {visibleText(move.planned_by)}
            </span>,
          ],
          ["Started", move.started_at === null ? null : <Moment key="s" at={move.started_at} />],
          ["Ended", move.finished_at === null ? null : <Moment key="f" at={move.finished_at} />],
          ["Version", String(move.state_version)],
          ["Id", <code key="id">{move.move_id}</code>],
        ]}
      />
    </div>
  );
}

function strategyText(strategy: Move["strategy"]): string {
  switch (strategy.type) {
    case "uniform":
      return `equal key ranges, ${counted(strategy.segments, "segment")} per table`;
    case "cardinality":
      return `${counted(strategy.rows, "row")} each`;
    case "adaptive":
      return `${counted(strategy.rows, "row")} each, about ${durationText(strategy.target_ms)}`;
  }
}
