import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Facts, Json } from "../../parts/facts.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { countText, durationText } from "../../parts/time-text.ts";
import { Moment, Time } from "../../parts/time.tsx";
import { useAddressName } from "../../parts/use-address.ts";
import { useNow } from "../../parts/use-now.ts";
import { visibleText } from "../../parts/visible-text.ts";
import { AskedFor } from "./asked-for.tsx";
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
import { Ticks } from "./tick-list.tsx";
import { zonedText } from "./zoned-text.ts";
import { ZonedTime } from "./zoned-time.tsx";
import "./schedules.css";

const CRUMBS = [{ text: "Schedules", href: "/schedules" }];

/** One schedule: when it acts, what came of it, and what can be done with it. */
export function SchedulePage(): ReactNode {
  const schedule_id = useAddressName();
  const answer = useAnswer("getSchedule", { params: { schedule_id } });
  const schedule = answer.data;
  return (
    <Page
      title={schedule?.name ?? "Schedule"}
      crumbs={CRUMBS}
      heading={
        schedule === undefined ? undefined : (
          <span className="row">
            {schedule.name} <ScheduleState schedule={schedule} />
          </span>
        )
      }
      actions={schedule === undefined ? undefined : <ScheduleActions schedule={schedule} />}
    >
      <Loaded answer={answer}>{(known) => <Known schedule={known} />}</Loaded>
    </Page>
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
              "Next time",
              <ZonedTime
                key="next"
                at={schedule.next_scheduled_for}
                zone={schedule.timezone}
                isRelative
              />,
            ],
            [
              "Last asked for",
              <AskedFor
                key="last"
                run_id={schedule.selection.type === "stale" ? null : schedule.last_run_id}
                run_state={schedule.last_run_state}
                backfill_id={schedule.last_backfill_id}
                backfill_state={schedule.last_backfill_state}
              />,
            ],
            ["Still going", countText(schedule.active_runs)],
            ["Ticks", <TickCounts key="ticks" schedule={schedule} />],
          ]}
        />
      </div>
      <Ticks schedule={schedule} />
      <Section
        title="Definition"
        actions={
          <Link href={`/ledger/${encodeURIComponent(schedule.schedule_id)}?view=history`}>
            history
          </Link>
        }
      >
        <Definition schedule={schedule} />
      </Section>
    </>
  );
}

/** What whoever looks should know first. */
function Standing({ schedule }: { schedule: Schedule }): ReactNode {
  const { state, reason, paused_at, timezone, waiting_for } = schedule;
  const late = lateMs(schedule, useNow());
  return (
    <>
      {state === "PAUSED" && (
        <Notice tone="warn">
          <p>
            Paused <Time at={paused_at} />
            {reason === null ? "." : `: ${visibleText(reason)}`}
          </p>
        </Notice>
      )}
      {state === "DELETED" && (
        <Notice tone="wait">
          <p>This schedule is deleted. What it did can still be read.</p>
        </Notice>
      )}
      {late !== null && (
        <Notice tone="warn">
          <p>
            A time that was due {durationText(late)} ago is not decided yet. The server may be down
            or busy, or its clock or that of this machine is wrong; <code>pawl doctor</code> looks
            into it.
          </p>
        </Notice>
      )}
      {waiting_for !== null && (
        <Notice tone="busy">
          <p>
            The time {zonedText(waiting_for, timezone)} {timezone} waits for the run before it to
            end.
          </p>
        </Notice>
      )}
    </>
  );
}

function Definition({ schedule }: { schedule: Schedule }): ReactNode {
  const { origin, starts_at, ends_at, jitter_ms, config, labels } = schedule;
  const labelled = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return (
    <div className="card stack">
      <p className="soft">
        {origin === "code"
          ? "The project's code defines it: change it there and deploy. It can be paused, " +
            "resumed and triggered here."
          : "It was made by the API or this page, and can be changed and deleted here."}
      </p>
      <Facts
        facts={[
          ["Assets", <AssetLinks key="assets" assets={schedule.asset_selection} />],
          ["Asks for", selectionText(schedule)],
          ["While one is going, the next", OVERLAP_TEXTS[schedule.overlap]],
          ["After a time away, catches up", catchupText(schedule)],
          ["On resume", schedule.catch_up_on_resume ? "catches up too" : "skips what it missed"],
          ["Time zone", schedule.timezone],
          ["Begins", starts_at === null ? null : <Moment key="starts" at={starts_at} />],
          ["Ends", ends_at === null ? null : <Moment key="ends" at={ends_at} />],
          ["Jitter", jitter_ms === 0 ? null : `up to ${durationText(jitter_ms)}`],
          ["Priority", schedule.priority === 0 ? null : String(schedule.priority)],
          ["Labels", labelled.join(", ")],
          ["Definition", `version ${schedule.definition_version}`],
          ["In effect since", <Moment key="since" at={schedule.activated_at} />],
          ["Id", <code key="id">{schedule.schedule_id}</code>],
        ]}
      />
      {config !== null && <Json label="Config" value={config} />}
    </div>
  );
}

function AssetLinks({ assets }: { assets: readonly string[] }): ReactNode {
  return (
    <span className="row">
      {assets.slice(0, 20).map((asset) => (
        <Link key={asset} href={`/assets/${encodeURIComponent(asset)}`}>
          {asset}
        </Link>
      ))}
      {assets.length > 20 && <span>and {countText(assets.length - 20)} more</span>}
    </span>
  );
}
