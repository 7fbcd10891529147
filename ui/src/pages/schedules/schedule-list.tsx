import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer, useList } from "../../api/use-answer.ts";
import { Filters } from "../../parts/filters.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { queryOf, useFilters } from "../../parts/use-filters.ts";
import { useNow } from "../../parts/use-now.ts";
import { NewLink, WorkList } from "../../parts/work-list.tsx";
import { TriggeredWork } from "./triggered-work.tsx";
import { someText } from "../runs/run-texts.ts";
import { Cron } from "./cron.tsx";
import { lateMs, type Schedule } from "./schedule-texts.ts";
import { ZonedTime } from "./zoned-time.tsx";
import "./schedules.css";

const STATES = [
  ["", "All"],
  ["ACTIVE", "active"],
  ["PAUSED", "paused"],
  ["DELETED", "deleted"],
] as const;

/** All schedules by name: when each acts next, and what came of the last time. */
export function ScheduleList(): ReactNode {
  const [{ status, asset }, setFilter] = useFilters(["status", "asset"]);
  const query = queryOf({ status, asset });
  const list = useList("listSchedules", { query }, { keepPrevious: true });
  const assets = useAnswer("listAssets", { query: { limit: 200 } });
  const keys = (assets.data?.items ?? []).map(({ asset_key }) => asset_key);
  const known = asset === "" || keys.includes(asset) ? keys : [asset, ...keys];
  return (
    <WorkList
      noun="schedule"
      href="/schedules"
      actions={<NewLink href="/schedules/new">New schedule</NewLink>}
      filters={
        <Filters
          of="schedules"
          filters={{ status, asset }}
          setFilter={setFilter}
          fields={[
            { name: "status", label: "State", options: STATES },
            {
              name: "asset",
              label: "Asset",
              options: [["", "All"], ...known.map((key) => [key, key] as const)],
            },
          ]}
        />
      }
      isFiltered={Object.keys(query).length > 0}
      list={list}
      columns={COLUMNS}
      keyOf={({ schedule_id }) => schedule_id}
      none={<NoneYet />}
    />
  );
}

function NoneYet(): ReactNode {
  return (
    <Empty title="No schedules yet.">
      <p>
        <Link href="/schedules/new">Create one here</Link>, or define one with{" "}
        <code>schedule()</code> in the project's code and run <code>pawl deploy</code>.
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    heading: "Schedule",
    cell: ({ schedule_id, name, asset_selection }) => (
      <span className="schedules-time">
        <Link href={`/schedules/${encodeURIComponent(schedule_id)}`}>{name}</Link>
        <span className="soft">{someText(asset_selection)}</span>
      </span>
    ),
  },
  { heading: "State", cell: (schedule) => <ScheduleState schedule={schedule} /> },
  { heading: "When", cell: ({ cron }) => <Cron cron={cron} /> },
  {
    heading: "Next tick",
    cell: ({ next_scheduled_for, timezone }) => (
      <ZonedTime at={next_scheduled_for} zone={timezone} isRelative />
    ),
  },
  {
    heading: "Last outcome",
    cell: (row) => (
      <TriggeredWork
        // A schedule that once asked for runs keeps its last one.
        run_id={row.selection.type === "stale" ? null : row.last_run_id}
        run_state={row.last_run_state}
        backfill_id={row.last_backfill_id}
        backfill_state={row.last_backfill_state}
      />
    ),
  },
  { heading: "Ticks", cell: (row) => <TickCounts schedule={row} />, wideOnly: true },
];

/** Where a schedule stands, and whether it is late. */
export function ScheduleState({ schedule }: { schedule: Schedule }): ReactNode {
  const late = lateMs(schedule, useNow());
  return (
    <>
      <Status state={schedule.state} />{" "}
      {late !== null && <Status state="LATE">late by {durationText(late)}</Status>}
    </>
  );
}

/** How many times came to what. */
export function TickCounts({ schedule }: { schedule: Schedule }): ReactNode {
  const { ticks_triggered, ticks_skipped, ticks_failed } = schedule;
  return (
    <span className="schedules-time">
      <span>{countText(ticks_triggered)} triggered</span>
      {ticks_skipped > 0 && <span className="soft">{countText(ticks_skipped)} skipped</span>}
      {ticks_failed > 0 && <Status state="FAILED">{countText(ticks_failed)} failed</Status>}
    </span>
  );
}
