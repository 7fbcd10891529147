import { type ReactNode, useEffect } from "react";
import { Link } from "wouter";
import { type ListAnswer, useList } from "../../api/use-answer.ts";
import { Id } from "../../parts/facts.tsx";
import { Empty, NothingFits } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, ListTable } from "../../parts/table.tsx";
import { Lasted, Time } from "../../parts/time.tsx";
import { useFilters } from "../../parts/use-filters.ts";
import { RequestRun } from "./request-run.tsx";
import { RUN_FILTERS, RunFilters } from "./run-filters.tsx";
import { type Run, runHref, taskParts } from "./run-texts.ts";
import "./runs.css";
import { Trigger, type TriggerNames, useTriggerNames } from "./trigger.tsx";

/** All runs, newest first, and the way to ask for one. */
export function RunList(): ReactNode {
  const [filters, setFilter] = useFilters(RUN_FILTERS);
  const { status, trigger, asset, backfill_id, since, until } = filters;
  const query = {
    ...(status === "" ? {} : { status }),
    ...(trigger === "" ? {} : { trigger }),
    ...(asset === "" ? {} : { asset }),
    ...(backfill_id === "" ? {} : { backfill_id }),
    ...(since === "" ? {} : { since }),
    ...(until === "" ? {} : { until }),
  };
  const list: ListAnswer<Run> = useList("listRuns", { query }, { keepPrevious: true });
  useLookFurther(list);
  const names = useTriggerNames((list.data?.items ?? []).map((run) => run.trigger_source_ref));
  const isFiltered = Object.keys(query).length > 0;
  return (
    <Page title="Runs" actions={<RequestRun />}>
      <RunFilters filters={filters} setFilter={setFilter} />
      <ListTable
        label="Runs"
        list={list}
        columns={columnsOf(names)}
        keyOf={({ run_id }) => run_id}
        empty={
          isFiltered ? (
            <NothingFits noun="run" all="/runs" />
          ) : (
            <Empty title="Nothing has run yet.">
              <p>
                Request a run above, <Link href="/backfills/new">create a backfill</Link> for many
                partitions, or let a <Link href="/schedules">schedule</Link> ask for them.
              </p>
            </Empty>
          )
        }
      />
    </Page>
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
      cell: ({ run_id }) => (
        <Link href={runHref(run_id)}>
          <Id id={run_id} />
        </Link>
      ),
    },
    { heading: "State", cell: ({ state }) => <Status state={state} /> },
    { heading: "Assets", cell: ({ asset_selection }) => <Some names={asset_selection} /> },
    {
      heading: "Partitions",
      cell: ({ partition_keys: keys }) =>
        keys === null ? <span className="soft">–</span> : <Some names={keys} />,
      wideOnly: true,
    },
    {
      heading: "Asked for by",
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
