import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Phases } from "../../parts/phases.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { countText, durationText, rateText } from "../../parts/time-text.ts";
import { Moment, Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { MoveActions } from "./move-actions.tsx";
import { MoveCheck } from "./move-check.tsx";
import { MoveLanes } from "./move-lanes.tsx";
import { MoveSegments } from "./move-segments.tsx";
import {
  bytesText,
  counted,
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
  const move_id = useAddressName();
  const params = { move: move_id };
  const answer = useAnswer("getMove", { params });
  const move = answer.data;
  const isMoving = move !== undefined && (move.state === "RUNNING" || !move.surveyed);
  useAnswer("getMove", { params }, { everyMs: EVERY_MS, enabled: isMoving });
  const ledger = `/ledger/${encodeURIComponent(move_id)}`;
  return (
    <Page
      title={move === undefined ? "Move" : `Move ${moveName(move)}`}
      heading={
        move === undefined ? (
          "Move"
        ) : (
          <>
            Move {moveName(move)} <Status state={move.state} />{" "}
            {move.dry_run && <span className="soft">dry run</span>}
          </>
        )
      }
      crumbs={[{ text: "Moves", href: "/moves" }]}
      actions={
        <>
          <Link href={`${ledger}?view=why`} className="button">
            Why
          </Link>
          <Link href={`${ledger}?view=history`} className="button">
            History
          </Link>
        </>
      }
    >
      <Loaded answer={answer}>{(shown) => <Shown key={shown.move_id} move={shown} />}</Loaded>
    </Page>
  );
}

function Shown({ move }: { move: Move }): ReactNode {
  return (
    <>
      <Phases label="Phases of the move" phases={phasesOf(move)} />
      <div className="card moves-now stack">
        <p className="moves-now-text" role="status">
          {visibleText(move.next.text)}
        </p>
        {move.lacks_worker && (
          <Notice tone="warn">
            <p>
              No worker that knows its shards has asked for work within the last minute. Start one
              with <code>pawl start</code> or <code>pawl worker</code>, where the shards can be
              reached.
            </p>
          </Notice>
        )}
        <div className="moves-progress">
          <Progress parts={segmentParts(move)} total={move.segments_total} unit="segments" />
          <span className="soft">
            {move.progress_pct.toFixed(1)} % of {counted(move.segments_total, "segment")} copied
          </span>
        </div>
        <Numbers move={move} />
        {move.last_error !== null && isOpen(move) && (
          <Notice tone={move.segments_poisoned > 0 ? "bad" : "warn"}>
            <p>
              <strong>{visibleText(move.last_error.class)}</strong>:{" "}
              {visibleText(move.last_error.message)} (
              <Time at={move.last_error_at} />)
            </p>
          </Notice>
        )}
      </div>
      <Section title="What can be done">
        <MoveActions move={move} />
      </Section>
      <Section title="Segments">
        <MoveSegments move={move} />
      </Section>
      <div className="moves-columns">
        <Section title="Lanes">
          <MoveLanes move={move} />
        </Section>
        <Section title="Verification">
          <MoveCheck move={move} />
        </Section>
      </div>
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
        ["Left", eta === null ? null : `about ${durationText(eta * 1_000)}`],
        [
          "At once",
          `${counted(move.segment_concurrency, "segment")}${
            move.rows_per_second === null ? "" : `, ${countText(move.rows_per_second)} rows/s`
          }`,
        ],
        [
          "Tried again",
          move.retries === 0
            ? null
            : `${counted(move.retries, "time")}${budget === null ? "" : `, budget ${budget}`}`,
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
          ["Cut by", strategyText(move.strategy)],
          [
            "Afterwards",
            move.keep_source ? "rows stay on both sides" : "rows leave where they were",
          ],
          ["Set aside after", counted(move.segment_attempts, "failure")],
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
      return `width of the key, ${counted(strategy.segments, "segment")} a table`;
    case "cardinality":
      return `${counted(strategy.rows, "row")} each`;
    case "adaptive":
      return `${counted(strategy.rows, "row")} each, about ${durationText(strategy.target_ms)}`;
  }
}
