import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { kindOfError } from "../../parts/notice.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { counted, countText } from "../../parts/time-text.ts";
import { Time } from "../../parts/time.tsx";
import { runHref, taskHref } from "../runs/run-texts.ts";
import { type Backfill, backfillHref } from "./backfill-texts.ts";

type Group = AnswerOf<"listFailures">["items"][number];

/** What went wrong in a backfill, failures of one kind as one, with the way to an example. */
export function Failures({ backfill }: { backfill: Backfill }): ReactNode {
  const { backfill_id, chunks_failed } = backfill;
  const answer = useAnswer("listFailures", { params: { backfill_id } });
  return (
    <Section title={`Failures (${counted(chunks_failed, "chunk")})`}>
      <Loaded answer={answer}>
        {({ items, complete }) => (
          <>
            <Table
              label="Failures by error"
              columns={columnsOf(backfill_id)}
              rows={items}
              keyOf={({ error_class, pattern }) => `${error_class} ${pattern}`}
            />
            {!complete && (
              <p className="soft">
                Too many failures to read them all: for some runs only the first is counted.
              </p>
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function columnsOf(backfillId: string): Column<Group>[] {
  return [
    {
      heading: "Error",
      cell: ({ error_class, message, pattern, tasks }) => (
        <div className="backfills-error" title={message}>
          <p>{tasks === 1 ? message : pattern}</p>
          <p className="soft backfills-small">
            {[
              kindOfError({ class: error_class }),
              tasks > 1 && message !== pattern ? `newest: ${message}` : null,
            ]
              .filter((text) => text !== null)
              .join(", ")}
          </p>
        </div>
      ),
    },
    { heading: "Tasks", cell: ({ tasks }) => countText(tasks), align: "end" },
    { heading: "Runs", cell: ({ runs }) => countText(runs), align: "end", wideOnly: true },
    { heading: "First", cell: ({ first_at }) => <When at={first_at} />, wideOnly: true },
    { heading: "Newest", cell: ({ last_at }) => <When at={last_at} />, wideOnly: true },
    { heading: "Example", cell: ({ example }) => <Example {...{ backfillId, example }} /> },
  ];
}

function When({ at }: { at: string }): ReactNode {
  return (
    <span className="backfills-when">
      <Time at={at} />
    </span>
  );
}

function Example(props: { backfillId: string; example: Group["example"] }): ReactNode {
  const { run_id, chunk_index, task_key, partition_key } = props.example;
  return (
    <span className="row">
      <Link href={task_key === null ? runHref(run_id) : taskHref(run_id, task_key)}>
        {partition_key ?? "run"}
      </Link>
      <Link className="soft" href={`${backfillHref(props.backfillId)}?chunk=${chunk_index}`}>
        chunk {countText(chunk_index)}
      </Link>
    </span>
  );
}
