import type { ReactNode } from "react";
import { Link, useParams } from "wouter";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Action } from "../../parts/action.tsx";
import { AssetLinks, Facts, Id, Json, labelsText } from "../../parts/facts.tsx";
import { ErrorText, Notice } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { countText } from "../../parts/time-text.ts";
import { Lasted, Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { LedgerButtons, WorkPage } from "../../parts/work-page.tsx";
import { LacksWorker } from "./lacks-worker.tsx";
import { RunGraph } from "./run-graph.tsx";
import { cancelConsequence, type Run, runHref, settledTasks, taskParts } from "./run-texts.ts";
import { RunTimeline } from "./run-timeline.tsx";
import "./runs.css";
import { TaskList } from "./task-list.tsx";
import { Trigger, useTriggerNames } from "./trigger.tsx";

/** A run: what it is, how far it is, and what its tasks did. */
export function RunPage(): ReactNode {
  const { run_id } = useParams<{ run_id: string }>();
  const answer = useAnswer("getRun", { params: { run_id } });
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Runs", href: "/runs" }}
      title={`Run ${run_id}`}
      heading={
        <>
          Run <Id id={run_id} />
        </>
      }
      state={(run) => <Status state={stateOf(run)} />}
      actions={(run) => (
        <>
          <LedgerButtons entity={run_id} views={["events"]} />
          <CancelRun run={run} />
        </>
      )}
    >
      {(run) => <Shown run={run} />}
    </WorkPage>
  );
}

function stateOf(run: Run): string {
  return run.cancel_requested_at !== null && run.finished_at === null ? "CANCELLING" : run.state;
}

function CancelRun({ run }: { run: Run }): ReactNode {
  const { run_id } = run;
  const isEnded = run.finished_at !== null;
  const isTold = run.cancel_requested_at !== null;
  return (
    <Action
      label="Cancel run"
      tone="danger"
      asksReason
      consequence={<p>{cancelConsequence(run)}</p>}
      unavailable={
        isEnded
          ? "The run has ended; there is nothing to cancel."
          : isTold
            ? "The run is being cancelled already."
            : null
      }
      run={(reason) =>
        call("cancelRun", { params: { run_id }, body: reason === "" ? {} : { reason } })
      }
    />
  );
}

const VIEWS = [
  ["", "Timeline"],
  ["graph", "Graph"],
  ["tasks", "Tasks"],
] as const;

function Shown({ run }: { run: Run }): ReactNode {
  const [{ view }] = useFilters(["view"]);
  const href = runHref(run.run_id);
  return (
    <>
      <RunFacts run={run} />
      {run.first_error !== null && (
        <Notice tone="bad">
          <p>
            <ErrorText error={run.first_error} />
          </p>
          <p>
            <Link href={`${href}?view=tasks&status=FAILED`}>
              {run.tasks_failed === 1
                ? "See the failed task"
                : `See the ${run.tasks_failed} failed tasks`}
            </Link>
          </p>
        </Notice>
      )}
      {run.finished_at === null && run.tasks_ready > 0 && <LacksWorker runId={run.run_id} />}
      <Tabs
        label="Views of the run"
        tabs={VIEWS.map(([name, text]) => ({
          text: name === "tasks" ? `${text} (${countText(run.tasks_total)})` : text,
          href: name === "" ? href : `${href}?view=${name}`,
          isCurrent: view === name,
        }))}
      />
      {view === "" && <RunTimeline run={run} />}
      {view === "graph" && <RunGraph run={run} />}
      {view === "tasks" && <TaskList run={run} />}
    </>
  );
}

function RunFacts({ run }: { run: Run }): ReactNode {
  const names = useTriggerNames([run.trigger_source_ref]);
  const { partition_keys: keys } = run;
  return (
    <div className="card stack runs-facts">
      <div className="progress-line">
        <Progress parts={taskParts(run)} total={run.tasks_total} unit="tasks" />
        <span className="soft">
          {countText(settledTasks(run))} of {countText(run.tasks_total)} tasks ended
        </span>
      </div>
      <Facts
        facts={[
          [
            "Triggered by",
            <Trigger key="trigger" source={run.trigger_source_ref} names={names} isWhole />,
          ],
          ["Assets", <AssetsOf key="assets" run={run} />],
          ["Partitions", keys === null ? null : <Several key="keys" names={keys} />],
          ["Requested", <Time key="requested" at={run.requested_at} />],
          ["Started", run.started_at === null ? null : <Time key="began" at={run.started_at} />],
          [
            "Took",
            run.started_at === null ? null : (
              <Lasted key="took" from={run.started_at} to={run.finished_at} />
            ),
          ],
          ["Run key", <code key="key">{run.run_key}</code>],
          ["Priority", run.priority === 0 ? null : String(run.priority)],
          ["Labels", labelsText(run.labels)],
          ["Code version", run.code_version],
          ["Reason for cancelling", run.cancel_reason],
        ]}
      />
      {hasConfig(run) && (
        <details>
          <summary>Config</summary>
          <Json value={run.config} label="Config of the run" />
        </details>
      )}
    </div>
  );
}

function hasConfig({ config }: Run): boolean {
  return config !== null && JSON.stringify(config) !== "{}";
}

/** Names shown before the rest is folded away. */
const NAMES_SHOWN = 3;

function Several({ names }: { names: readonly string[] }): ReactNode {
  const first = names.slice(0, NAMES_SHOWN).join(", ");
  const rest = names.slice(NAMES_SHOWN, 500);
  if (rest.length === 0) return first;
  return (
    <details>
      <summary>
        {first} and {countText(names.length - NAMES_SHOWN)} more
      </summary>
      {rest.join(", ")}
    </details>
  );
}

/** Steps on shards and segments of syncs have the name of their work, which is no asset's. */
function AssetsOf({ run }: { run: Run }): ReactNode {
  const { type } = run.trigger_source_ref;
  if (type === "sync" || type === "shards") return run.asset_selection.join(", ");
  return <AssetLinks assets={run.asset_selection} />;
}
