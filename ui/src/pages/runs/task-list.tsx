import type { ReactNode } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Id, NoValue } from "../../parts/facts.tsx";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { Lasted, Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { type Run, someText, type Task, taskHref } from "./run-texts.ts";

const STATES = [
  ["", "All"],
  ["WAITING", "waiting"],
  ["READY", "ready"],
  ["RUNNING", "running"],
  ["RETRY_WAIT", "waiting for retry"],
  ["SUCCEEDED", "succeeded"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
  ["SKIPPED", "skipped"],
] as const;

const FIELDS = [{ name: "status", label: "State", options: STATES }] as const;

/** How often progress is looked up while something runs: it makes no events. */
const PROGRESS_MS = 2_000;

/** The tasks of a run as a table. */
export function TaskList({ run }: { run: Run }): ReactNode {
  const [{ status }, setFilter] = useFilters(["status"]);
  const list: ListAnswer<Task> = useList(
    "listTasks",
    { params: { run_id: run.run_id }, query: queryOf({ status }) },
    {
      keepPrevious: true,
      everyMs: run.finished_at === null && run.tasks_running > 0 ? PROGRESS_MS : undefined,
    },
  );
  return (
    <>
      <Filters of="tasks" filters={{ status }} setFilter={setFilter} fields={FIELDS} />
      <ListTable
        label="Tasks of the run"
        list={list}
        columns={COLUMNS}
        keyOf={({ task_key }) => task_key}
        empty={<Empty title="No task is in this state." />}
      />
    </>
  );
}

const COLUMNS: Column<Task>[] = [
  {
    heading: "Task",
    cell: ({ run_id, task_key, asset_key, partition_keys }) => (
      <div className="runs-name">
        <Link href={taskHref(run_id, task_key)}>
          {asset_key} {someText(partition_keys)}
        </Link>
      </div>
    ),
  },
  {
    heading: "State",
    cell: ({ state, lacks_worker }) => (
      <>
        <Status state={state} />
        {lacks_worker && <span className="soft"> needs a worker</span>}
      </>
    ),
  },
  { heading: "Attempts", cell: ({ attempt }) => attempt, align: "end", wideOnly: true },
  {
    heading: "Worker",
    cell: ({ worker_id }) => (worker_id === null ? "–" : <Id id={worker_id} />),
    wideOnly: true,
  },
  { heading: "Started", cell: ({ started_at }) => <Time at={started_at} />, wideOnly: true },
  {
    heading: "Took",
    cell: ({ state, started_at, finished_at }) =>
      state === "RETRY_WAIT" ? "–" : <Lasted from={started_at} to={finished_at} />,
    align: "end",
    wideOnly: true,
  },
  { heading: "Progress or error", cell: (task) => <TaskWord task={task} /> },
];

/** The error of a task, or how far it is by its own word. */
function TaskWord({ task }: { task: Task }): ReactNode {
  if (task.error !== null) return <span className="runs-error">{task.error.message}</span>;
  if (task.waits_for !== null) return task.waits_for.message;
  if (task.progress === null) return <NoValue />;
  const { done, total, note } = task.progress;
  return (
    <>
      {done}
      {total === null ? "" : ` of ${total}`} {note}
    </>
  );
}
