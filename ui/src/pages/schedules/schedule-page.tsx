import type { ReactNode } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Definition, Standstill } from "../../parts/definition.tsx";
import { AssetLinks, Facts, labelsText } from "../../parts/facts.tsx";
import { Notice } from "../../parts/notice.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { useNow } from "../../parts/use-now.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { WorkPage } from "../../parts/work-page.tsx";
import { TriggeredWork } from "./triggered-work.tsx";
import { Cron } from "./cron.tsx";
import { ScheduleActions } from "./schedule-actions.tsx";
import { ScheduleState, TickCounts } from "./schedule-list.tsx";
import {
  catchupText,
  lateMs,
  OVERLAP_TEXTS,
  type Schedule,
  selectionText,
} from "./schedule-texts.ts";
import { Ticks } from "./ticks.tsx";
import { zonedText } from "./zoned-text.ts";
import { ZonedTime } from "./zoned-time.tsx";
import "./schedules.css";

/** One schedule: when it acts, what came of it, and what can be done with it. */
export function SchedulePage(): ReactNode {
  const schedule_id = useAddressName();
  const answer = useAnswer("getSchedule", { params: { schedule_id } });
  return (
    <WorkPage
      answer={answer}
      list={{ text: "Schedules", href: "/schedules" }}
      title={answer.data?.name ?? "Schedule"}
      state={(schedule) => <ScheduleState schedule={schedule} />}
      actions={(schedule) => <ScheduleActions schedule={schedule} />}
    >
      {(schedule) => <Known schedule={schedule} />}
    </WorkPage>
  );
}

function Known({ schedule }: { schedule: Schedule }): ReactNode {
  return (
    <>
      <Standing schedule={schedule} />
      {schedule.description !== undefined && <p>{visibleText(schedule.description)}</p>}
      <div className="card">
        <Facts
          facts={[
            ["When", <Cron key="when" cron={schedule.cron} />],
            [
              "Next tick",
              <ZonedTime
                key="next"
                at={schedule.next_scheduled_for}
                zone={schedule.timezone}
                isRelative
              />,
            ],
            [
              "Last run",
              <TriggeredWork
                key="last"
                run_id={schedule.selection.type === "stale" ? null : schedule.last_run_id}
                run_state={schedule.last_run_state}
                backfill_id={schedule.last_backfill_id}
                backfill_state={schedule.last_backfill_state}
              />,
            ],
            ["Active runs", countText(schedule.active_runs)],
            ["Ticks", <TickCounts key="ticks" schedule={schedule} />],
          ]}
        />
      </div>
      <Ticks schedule={schedule} />
      <ScheduleDefinition schedule={schedule} />
    </>
  );
}

/** What whoever looks should know first. */
function Standing({ schedule }: { schedule: Schedule }): ReactNode {
  const { state, reason, paused_at, timezone, waiting_for } = schedule;
  const late = lateMs(schedule, useNow());
  return (
    <>
      <Standstill noun="schedule" state={state} reason={reason} pausedAt={paused_at} />
      {late !== null && (
        <Notice tone="warn">
          <p>
            A tick is overdue by {durationText(late)}. The server may be down or busy, or a clock is
            wrong: run <code>pawl doctor</code>.
          </p>
        </Notice>
      )}
      {waiting_for !== null && (
        <Notice tone="busy">
          <p>
            The tick of {zonedText(waiting_for, timezone)} {timezone} waits for the run before it.
          </p>
        </Notice>
      )}
    </>
  );
}

function ScheduleDefinition({ schedule }: { schedule: Schedule }): ReactNode {
  const { starts_at, ends_at, jitter_ms, config } = schedule;
  return (
    <Definition
      entity={schedule.schedule_id}
      origin={schedule.origin}
      verb="trigger"
      made="Created with the API or on this page. You can edit and delete it here."
      facts={[
        ["Assets", <AssetLinks key="assets" assets={schedule.asset_selection} />],
        ["Partitions", selectionText(schedule)],
        ["Overlap", OVERLAP_TEXTS[schedule.overlap]],
        ["Catch-up", catchupText(schedule)],
        ["On resume", schedule.catch_up_on_resume ? "catches up too" : "skips missed ticks"],
        ["Time zone", schedule.timezone],
        ["Starts", starts_at === null ? null : <Moment key="starts" at={starts_at} />],
        ["Ends", ends_at === null ? null : <Moment key="ends" at={ends_at} />],
        ["Jitter", jitter_ms === 0 ? null : `up to ${durationText(jitter_ms)}`],
        ["Priority", schedule.priority === 0 ? null : String(schedule.priority)],
        ["Labels", labelsText(schedule.labels)],
        ["Definition", `version ${schedule.definition_version}`],
        ["Active since", <Moment key="since" at={schedule.activated_at} />],
        ["Id", <code key="id">{schedule.schedule_id}</code>],
      ]}
      json={config === null ? undefined : { label: "Config", value: config }}
    />
  );
}
