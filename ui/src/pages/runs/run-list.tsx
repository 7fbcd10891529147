import { type ReactNode, useEffect } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { NoValue, RunLink } from "../../parts/facts.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Lasted, Time } from "../../parts/time.tsx";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { WorkList } from "../../parts/work-list.tsx";
import { RequestRun } from "./request-run.tsx";
import { RUN_FILTERS, RunFilters } from "./run-filters.tsx";
import { type Run, taskParts } from "./run-texts.ts";
import "./runs.css";
import { Trigger, type TriggerNames, useTriggerNames } from "./trigger.tsx";

/** All runs, newest first, and the way to ask for one. */
export function RunList(): ReactNode {
  const [filters, setFilter] = useFilters(RUN_FILTERS);
  const query = queryOf(filters);
  const list: ListAnswer<Run> = useList("listRuns", { query }, { keepPrevious: true });
  useLookFurther(list);
  const names = useTriggerNames((list.data?.items ?? []).map((run) => run.trigger_source_ref));
  return (
    <WorkList
      noun="run"
      href="/runs"
      actions={<RequestRun />}
      filters={<RunFilters filters={filters} setFilter={setFilter} />}
      isFiltered={Object.keys(query).length > 0}
      list={list}
      columns={columnsOf(names)}
      keyOf={({ run_id }) => run_id}
      none={
        <Empty title="Nothing has run yet.">
          <p>
            Request a run above, <Link href="/backfills/new">create a backfill</Link> for many
            partitions, or <Link href="/schedules">schedule</Link> runs.
          </p>
        </Empty>
      }
    />
  );
}

/** Filters are looked for in stretches of the ledger: where one has nothing, the next may. */
function useLookFurther(list: ListAnswer<Run>): void {
  const { data, hasNextPage, isFetching, fetchNextPage } = list;
  const isEmpty = data?.items.length === 0;
  useEffect(() => {
    if (isEmpty && hasNextPage && !isFetching) void fetchNextPage();
  }, [isEmpty, hasNextPage, isFetching, fetchNextPage]);
}

/** The first of some names, and how many more there are. */
function Some({ names }: { names: readonly string[] }): ReactNode {
  const title = names.slice(0, 20).join(", ");
  return (
    <span className="runs-some" title={title}>
      {names[0]} {names.length > 1 && <span className="soft">+{names.length - 1}</span>}
    </span>
  );
}

function columnsOf(names: TriggerNames): Column<Run>[] {
  return [
    {
      heading: "Run",
      cell: ({ run_id }) => <RunLink runId={run_id} />,
    },
    { heading: "State", cell: ({ state }) => <Status state={state} /> },
    { heading: "Assets", cell: ({ asset_selection }) => <Some names={asset_selection} /> },
    {
      heading: "Partitions",
      cell: ({ partition_keys: keys }) => (keys === null ? <NoValue /> : <Some names={keys} />),
      wideOnly: true,
    },
    {
      heading: "Triggered by",
      cell: ({ trigger_source_ref }) => (
        <span className="runs-some">
          <Trigger source={trigger_source_ref} names={names} isWhole />
        </span>
      ),
      wideOnly: true,
    },
    { heading: "Requested", cell: ({ requested_at }) => <Time at={requested_at} /> },
    {
      heading: "Took",
      cell: ({ started_at, finished_at }) => <Lasted from={started_at} to={finished_at} />,
      align: "end",
      wideOnly: true,
    },
    {
      heading: "Tasks",
      cell: (run) => <Progress parts={taskParts(run)} total={run.tasks_total} unit="tasks" />,
      wideOnly: true,
    },
  ];
}
