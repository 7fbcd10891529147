import { type ReactNode, useEffect, useRef } from "react";
import { Link } from "wouter";
import { type ListAnswer, useAnswer, useList } from "../../api/use-answer.ts";
import { Facts, NoValue, RunLink } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { counted, countText } from "../../parts/time-text.ts";
import { Lasted, Moment } from "../../parts/time.tsx";
import { someText, type Task, taskHref } from "../runs/run-texts.ts";
import { type Backfill, backfillHref, type Chunk, chunkKeys } from "./backfill-texts.ts";

/** One chunk: its partitions, its run and the run's tasks. */
export function ChunkPanel(props: {
  backfill: Backfill;
  index: number;
  close: () => void;
}): ReactNode {
  const { backfill, index, close } = props;
  const heading = useRef<HTMLHeadingElement>(null);
  const params = { backfill_id: backfill.backfill_id };
  const answer = useAnswer("listChunks", { params, query: { from: index, limit: 1 } });
  // Whoever opened it, by a cell or by a link, wants to read it.
  useEffect(() => heading.current?.focus(), [index]);
  return (
    <section className="card stack backfills-chunk" aria-label={`Chunk ${countText(index)}`}>
      <div className="page-heading">
        <h3 ref={heading} tabIndex={-1}>
          Chunk {countText(index)}
        </h3>
        <button type="button" className="button map-button" onClick={close}>
          Close
        </button>
      </div>
      <Loaded answer={answer}>
        {({ items }) => {
          const chunk = items.find(({ chunk_index }) => chunk_index === index);
          if (chunk === undefined) return <Empty title="This backfill has no such chunk." />;
          return <Shown chunk={chunk} />;
        }}
      </Loaded>
    </section>
  );
}

function Shown({ chunk }: { chunk: Chunk }): ReactNode {
  const { chunk_id, run_id, split_into, backfill_id } = chunk;
  const why = `/ledger/${encodeURIComponent(chunk_id)}?view=why`;
  return (
    <>
      <Facts
        facts={[
          ["State", <Status key="state" state={chunk.state} />],
          ["Partitions", `${chunkKeys(chunk)} (${counted(chunk.partitions, "partition")})`],
          ["Planned", <Moment key="planned" at={chunk.planned_at} />],
          ["Took", <Lasted key="took" from={chunk.planned_at} to={chunk.finished_at} />],
          ["Run", run_id === null ? "none yet" : <RunLink key="run" runId={run_id} />],
          [
            "Why",
            <Link key="why" href={why}>
              Events
            </Link>,
          ],
          [
            "Split into",
            split_into?.map((index) => (
              <Link key={index} href={`${backfillHref(backfill_id)}?chunk=${index}`}>
                {" "}
                chunk {countText(index)}
              </Link>
            )),
          ],
        ]}
      />
      {run_id !== null && <Tasks runId={run_id} />}
    </>
  );
}

function Tasks({ runId }: { runId: string }): ReactNode {
  const params = { run_id: runId };
  const list: ListAnswer<Task> = useList("listTasks", { params, query: { limit: 20 } });
  return (
    <ListTable
      label="Tasks of the chunk's run"
      list={list}
      columns={TASK_COLUMNS}
      keyOf={({ task_key }) => task_key}
      empty={<Empty title="The run has no tasks." />}
    />
  );
}

const TASK_COLUMNS: Column<Task>[] = [
  {
    heading: "Task and log",
    cell: ({ run_id, task_key, asset_key, partition_keys }) => (
      <div className="backfills-name">
        <Link href={taskHref(run_id, task_key)}>
          {asset_key} {someText(partition_keys)}
        </Link>
      </div>
    ),
  },
  { heading: "State", cell: ({ state }) => <Status state={state} /> },
  { heading: "Attempts", cell: ({ attempt }) => attempt, align: "end", wideOnly: true },
  {
    heading: "Error",
    cell: ({ error }) =>
      error === null ? <NoValue /> : <span className="backfills-error">{error.message}</span>,
  },
];
