import type { ReactNode } from "react";
import { Link, useParams } from "wouter";
import type { AnswerOf } from "../../../../src/work/operations.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { CheckList, ChecksBadge } from "../../parts/checks.tsx";
import { Facts, Id, Json, RunLink } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Metadata } from "../../parts/metadata.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted, Moment, Time } from "../../parts/time.tsx";
import { LacksWorkerOf } from "./lacks-worker.tsx";
import { runHref, someText } from "./run-texts.ts";
import "./runs.css";
import { TaskLogs } from "./task-logs.tsx";

type Detail = AnswerOf<"getTask">;
type Attempt = Detail["attempts"][number];

/** How often a task is looked up: progress, checkpoints and the want of a worker make no events. */
const EVERY_MS: Partial<Record<Detail["state"], number>> = { RUNNING: 1_000, READY: 5_000 };

/** A task of a run: its attempts, what went wrong, how far it is, and what it logged. */
export function TaskPage(): ReactNode {
  const { run_id, task_key } = useParams<{ run_id: string; task_key: string }>();
  const params = { run_id, task_key: Number(task_key) };
  const answer = useAnswer("getTask", { params }, { everyMs: ({ state }) => EVERY_MS[state] });
  const task = answer.data;
  const name = task === undefined ? `task ${task_key}` : nameOf(task);
  return (
    <Page
      title={`${name}, run ${run_id}`}
      heading={
        <>
          {name} {task !== undefined && <Status state={task.state} />}
        </>
      }
      crumbs={[
        { text: "Runs", href: "/runs" },
        { text: `Run ${run_id.slice(0, 12)}…`, href: runHref(run_id) },
      ]}
      actions={
        <Link href={`/ledger/${encodeURIComponent(run_id)}`} className="button">
          Events of the run
        </Link>
      }
    >
      <Loaded answer={answer}>{(shown) => <Shown task={shown} />}</Loaded>
    </Page>
  );
}

function nameOf({ asset_key, partition_keys }: Detail): string {
  return `${asset_key} ${someText(partition_keys)}`.trim();
}

function Shown({ task }: { task: Detail }): ReactNode {
  return (
    <>
      <TaskFacts task={task} />
      {task.error !== null && (
        <Notice tone="bad">
          <p>
            <span className="runs-error-text">
              <ErrorText error={task.error} />
            </span>
          </p>
        </Notice>
      )}
      {task.lacks_worker && <LacksWorkerOf assets={[task.asset_key]} />}
      <Section title="Attempts">
        {!task.complete && <p className="soft">Only the first attempts are shown.</p>}
        <Table
          label="Attempts"
          columns={ATTEMPT_COLUMNS}
          rows={task.attempts}
          keyOf={({ attempt }) => attempt}
          empty={<p className="soft">{untried(task)}</p>}
        />
      </Section>
      {task.metadata !== null && (
        <Section title="Metadata">
          <Metadata value={task.metadata} label="Metadata" />
        </Section>
      )}
      {task.checks.length > 0 && (
        <Section title="Checks">
          <CheckList checks={task.checks} />
        </Section>
      )}
      {task.checkpoint !== null && (
        <Section title="Checkpoint">
          <p className="soft">
            Saved by attempt {task.checkpoint.attempt} <Time at={task.checkpoint.saved_at} />; the
            next attempt continues from it.
          </p>
          <Json value={task.checkpoint.value} label="Checkpoint" />
        </Section>
      )}
      <TaskLogs runId={task.run_id} taskKey={task.task_key} isRunning={task.state === "RUNNING"} />
    </>
  );
}

function TaskFacts({ task }: { task: Detail }): ReactNode {
  const { progress, partition_keys: keys } = task;
  return (
    <div className="card stack runs-facts">
      {progress !== null && task.finished_at === null && (
        <div className="progress-line">
          {progress.total !== null && (
            <Progress
              parts={[{ state: "RUNNING", count: progress.done }]}
              total={progress.total}
              unit="reported by the task"
            />
          )}
          <span>
            {countText(progress.done)}
            {progress.total === null ? " done" : ` of ${countText(progress.total)}`} {progress.note}
          </span>
        </div>
      )}
      <Facts
        facts={[
          ["Run", <RunLink key="run" runId={task.run_id} />],
          ["Task", String(task.task_key)],
          ["Asset", <AssetOf key="asset" task={task} />],
          [
            keys.length > 1 ? "Partitions" : "Partition",
            keys.length === 0 ? null : <PartitionLinks key="keys" task={task} />,
          ],
          ["Worker", task.worker_id === null ? null : <Id key="worker" id={task.worker_id} />],
          ["Started", task.started_at === null ? null : <Time key="began" at={task.started_at} />],
          [
            "Took",
            task.started_at === null || task.state === "RETRY_WAIT" ? null : (
              <Lasted key="took" from={task.started_at} to={task.finished_at} />
            ),
          ],
          ["Next attempt", task.retry_at === null ? null : <Time key="retry" at={task.retry_at} />],
          ["Waiting for", waitsText(task)],
          [
            "Waits until",
            task.waits_for === null ? null : <Time key="until" at={task.waits_for.until} />,
          ],
        ]}
      />
    </div>
  );
}

/** Segments of syncs and steps on shards have the name of their work, which is no asset's. */
function AssetOf({ task }: { task: Detail }): ReactNode {
  const run = useAnswer("getRun", { params: { run_id: task.run_id } });
  const type = run.data?.trigger_source_ref.type;
  if (type === undefined || type === "sync" || type === "shards") return task.asset_key;
  return <Link href={`/assets/${encodeURIComponent(task.asset_key)}`}>{task.asset_key}</Link>;
}

/** Partitions that are shown of a batch. */
const PARTITIONS_SHOWN = 20;

function PartitionLinks({ task }: { task: Detail }): ReactNode {
  const { asset_key, partition_keys: keys } = task;
  const rest = keys.length - PARTITIONS_SHOWN;
  return (
    <ul className="runs-names">
      {keys.slice(0, PARTITIONS_SHOWN).map((key) => (
        <li key={key}>
          <Link
            href={`/assets/${encodeURIComponent(asset_key)}?partition=${encodeURIComponent(key)}`}
          >
            {key}
          </Link>
        </li>
      ))}
      {rest > 0 && <li>and {countText(rest)} more</li>}
    </ul>
  );
}

function waitsText({ unmet, waits_for }: Detail): string {
  if (waits_for !== null) return waits_for.message.replace("waits for ", "");
  if (unmet === null || unmet.length === 0) return "";
  return unmet.length === 1 ? `task ${unmet[0]}` : `${unmet.length} tasks upstream`;
}

function untried({ state, error }: Detail): string {
  if (error?.class === "requires") return "Not started: what it requires was not there.";
  if (state === "SKIPPED") return "Skipped: something upstream failed.";
  if (state === "CANCELLED") return "Cancelled before it started.";
  return state === "WAITING" ? "Waiting for upstream." : "Waiting for a worker.";
}

const ATTEMPT_COLUMNS: Column<Attempt>[] = [
  { heading: "Attempt", cell: ({ attempt }) => attempt },
  {
    heading: "Outcome",
    cell: ({ outcome, check_status }) => (
      <>
        <Status state={outcome ?? "RUNNING"} /> <ChecksBadge status={check_status} />
      </>
    ),
  },
  { heading: "Worker", cell: ({ worker_id }) => <Id id={worker_id} />, wideOnly: true },
  { heading: "Started", cell: ({ started_at }) => <Moment at={started_at} />, wideOnly: true },
  {
    heading: "Took",
    cell: ({ started_at, ended_at }) => <Lasted from={started_at} to={ended_at} />,
    align: "end",
  },
  { heading: "Error", cell: (attempt) => <AttemptWord attempt={attempt} /> },
];

function AttemptWord({ attempt }: { attempt: Attempt }): ReactNode {
  const { error, partitions, partitions_failed: failed, partitions_skipped: skipped } = attempt;
  return (
    <>
      {error !== null && (
        <span className="runs-error">
          <ErrorText error={error} />
        </span>
      )}
      {failed > 0 && ` ${failed} of ${partitions} partitions failed.`}
      {skipped > 0 && ` ${skipped} of ${partitions} partitions were skipped.`}
      {attempt.retry_at !== null && (
        <span className="soft">
          {" "}
          Retry at <Moment at={attempt.retry_at} />.
        </span>
      )}
    </>
  );
}
