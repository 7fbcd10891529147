import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { Facts, RunLink } from "../../parts/facts.tsx";
import { Field } from "../../parts/field.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted, Moment, Time } from "../../parts/time.tsx";
import { visibleText } from "../../parts/visible-text.ts";
import { type SegmentCommand, whyNotSegment } from "./move-commands.ts";
import { bytesText, keysText, type Move } from "./move-texts.ts";

type Details = AnswerOf<"getMoveSegment">;

/** One segment with its runs, and what can be done with it. */
export function MoveSegment(props: { move: Move; index: number; close: () => void }): ReactNode {
  const { move, index, close } = props;
  const params = { move: move.move_id, segment_index: index };
  const answer = useAnswer("getMoveSegment", { params });
  const ledger = `/ledger/${encodeURIComponent(`${move.move_id}:${index}`)}`;
  return (
    <section className="card stack moves-segment" aria-label={`Segment ${index}`}>
      <div className="row moves-segment-heading">
        <h3>Segment {index}</h3>
        {answer.data !== undefined && (
          <Status state={answer.data.state === "REMOVED" ? "MOVED" : answer.data.state} />
        )}
        <span className="moves-gap" />
        <Link href={`${ledger}?view=why`} className="button">
          Why<span className="visually-hidden"> segment {index}</span>
        </Link>
        <button type="button" className="button" onClick={close}>
          Close<span className="visually-hidden"> segment {index}</span>
        </button>
      </div>
      <Loaded answer={answer}>
        {(segment) => (
          <>
            <SegmentFacts segment={segment} />
            {segment.error !== null && segment.excluded === null && (
              <Notice tone={segment.state === "POISONED" ? "bad" : "warn"}>
                <p>
                  <ErrorText error={segment.error} />
                </p>
              </Notice>
            )}
            <div className="row">
              <SegmentAction move={move} segment={segment} command="retry" label="Retry" />
              <SegmentAction move={move} segment={segment} command="recopy" label="Copy again" />
              <SegmentAction move={move} segment={segment} command="exclude" label="Exclude" />
            </div>
            {segment.runs.length > 0 && (
              <Table
                label={`Runs of segment ${index}`}
                columns={RUN_COLUMNS}
                rows={segment.runs}
                keyOf={({ run_id }) => run_id}
              />
            )}
          </>
        )}
      </Loaded>
    </section>
  );
}

const RUN_COLUMNS: readonly Column<Details["runs"][number]>[] = [
  {
    heading: "Run",
    cell: ({ run_id }) => <RunLink runId={run_id} />,
  },
  { heading: "Step", cell: ({ step }) => step },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  {
    heading: "Requested",
    cell: ({ requested_at }) => <Moment at={requested_at} />,
    wideOnly: true,
  },
  {
    heading: "Took",
    cell: ({ started_at, finished_at }) => <Lasted from={started_at} to={finished_at} />,
    align: "end",
  },
  {
    heading: "Error",
    cell: ({ error }) => <span className="moves-note">{visibleText(error?.message ?? "")}</span>,
  },
];

function SegmentFacts({ segment }: { segment: Details }): ReactNode {
  const { verification, excluded, next_retry_at: retryAt } = segment;
  return (
    <Facts
      facts={[
        ["Table", <code key="table">{segment.table_name}</code>],
        ["Route", `${segment.from} → ${segment.to}`],
        ["Keys", <code key="keys">{keysText(segment)}</code>],
        ["Rows", `${countText(segment.rows_copied)} of about ${countText(segment.rows_estimated)}`],
        ["Bytes", bytesText(segment.bytes_copied)],
        [
          "Copied up to",
          segment.cursor === null ? null : <code>{visibleText(segment.cursor.join(", "))}</code>,
        ],
        ["Attempts", `${segment.attempts}, ${segment.failures} failed since the last retry`],
        ["Next retry", retryAt === null ? null : <Time key="retry" at={retryAt} />],
        [
          "Compared",
          verification === null
            ? null
            : verification.ok === null
              ? "not yet"
              : `${verification.ok ? "equal" : "differs"} ${verification.note ?? ""}`,
        ],
        [
          "Excluded",
          excluded === null ? null : (
            <span key="excluded">
              by {visibleText(excluded.by)} <Time at={excluded.at} />:{" "}
              {visibleText(excluded.reason)}
            </span>
          ),
        ],
        ["Generation", segment.generation === 0 ? null : String(segment.generation)],
      ]}
    />
  );
}

const CONSEQUENCES: Readonly<Record<SegmentCommand, (segment: Details) => ReactNode>> = {
  retry: () => <p>It continues where it stopped. Retry once the cause is fixed.</p>,
  recopy: ({ to }) => (
    <p>
      It is copied again from its beginning.{" "}
      <strong>What {to} has of its rows is deleted first</strong>, also what was there before the
      move, if the source has a row with the same key.
    </p>
  ),
  exclude: ({ from, to }) => (
    <p>
      Its rows stay on {from}, on record with your reason. What was copied of it is removed from{" "}
      {to}, unless others wrote among it. The move ends without it.
    </p>
  ),
};

function SegmentAction(props: {
  move: Move;
  segment: Details;
  command: SegmentCommand;
  label: string;
}): ReactNode {
  const { move, segment, command, label } = props;
  const [why, setWhy] = useState("");
  const { segment_index } = segment;
  const run = (reason: string, version?: number): Promise<{ message: string }> => {
    const params = { move: move.move_id, segment_index };
    const expected = { expected_state_version: version ?? move.state_version };
    if (command === "exclude") {
      return call("excludeMoveSegment", { params, body: { ...expected, reason: why.trim() } });
    }
    const body = { ...expected, ...(reason === "" ? {} : { reason }) };
    return command === "retry"
      ? call("retryMoveSegment", { params, body })
      : call("recopyMoveSegment", { params, body });
  };
  return (
    <Action
      label={`${label} segment ${segment_index}`}
      tone={command === "retry" ? "plain" : "danger"}
      asksReason={command !== "exclude"}
      unavailable={whyNotSegment(move, segment, command)}
      consequence={CONSEQUENCES[command](segment)}
      version={move.state_version}
      run={run}
      onDone={() => setWhy("")}
    >
      {command === "exclude" && (
        <Field label="Reason for excluding it" hint="Kept in the ledger.">
          {(control) => (
            <input
              {...control}
              required
              maxLength={1_000}
              value={why}
              onChange={(event) => setWhy(event.target.value)}
            />
          )}
        </Field>
      )}
    </Action>
  );
}
