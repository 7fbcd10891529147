import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { whyNot } from "../../../../src/work/command.ts";
import { SCHEDULE_RULES } from "../../../../src/work/definition/rules.ts";
import { call } from "../../api/call.ts";
import { Action } from "../../parts/action.tsx";
import { resumeConsequence, type Schedule, selectionText } from "./schedule-texts.ts";

/** What can be done with a schedule. */
export function ScheduleActions({ schedule }: { schedule: Schedule }): ReactNode {
  const { schedule_id, state, state_version } = schedule;
  const params = { schedule_id };
  const unavailable = (command: keyof typeof SCHEDULE_RULES): string | null =>
    whyNot(SCHEDULE_RULES[command], state, null);
  const bodyOf = (reason: string, version: number | undefined) => ({
    ...expected(version),
    ...(reason === "" ? {} : { reason }),
  });
  return (
    <>
      <Action
        label="Trigger now"
        tone="primary"
        unavailable={unavailable("trigger")}
        consequence={
          <p>
            It asks now for {schedule.asset_selection.join(", ")} ({selectionText(schedule)}), as at
            one of its own times{state === "PAUSED" ? ", although it is paused" : ""}. Its own times
            stay as they are, and it does not matter what is still going.
          </p>
        }
        version={state_version}
        run={(_, version) => call("triggerSchedule", { params, body: expected(version) })}
      />
      {state === "PAUSED" ? (
        <Action
          label="Resume"
          asksReason
          unavailable={unavailable("resume")}
          consequence={<p>{resumeConsequence(schedule)}</p>}
          version={state_version}
          run={(reason, version) =>
            call("resumeSchedule", { params, body: bodyOf(reason, version) })
          }
        />
      ) : (
        <Action
          label="Pause"
          asksReason
          unavailable={unavailable("pause")}
          consequence={
            <p>
              Its times pass without effect until it is resumed; what it triggered goes on.{" "}
              {schedule.catch_up_on_resume
                ? "When it is resumed it catches up some of what it missed."
                : "What it misses is not caught up later."}
            </p>
          }
          version={state_version}
          run={(reason, version) =>
            call("pauseSchedule", { params, body: bodyOf(reason, version) })
          }
        />
      )}
      <Definition schedule={schedule} />
    </>
  );
}

/** The version that a change is for, as requests say it. */
function expected(version: number | undefined): { expected_state_version?: number } {
  return version === undefined ? {} : { expected_state_version: version };
}

function Definition({ schedule }: { schedule: Schedule }): ReactNode {
  const { schedule_id, name, origin, state, state_version } = schedule;
  const [, go] = useLocation();
  if (origin === "code" || state === "DELETED") return null;
  return (
    <>
      <Link href={`/schedules/${encodeURIComponent(schedule_id)}/edit`} className="button">
        Edit
      </Link>
      <Action
        label="Delete"
        tone="danger"
        consequence={
          <p>
            {name} never acts again, and its name is free for another. Its ticks, runs and history
            stay, and what it triggered already goes on. This cannot be undone.
          </p>
        }
        version={state_version}
        run={(_, version) =>
          call("deleteSchedule", { params: { schedule_id }, query: expected(version) })
        }
        onDone={() => go("/schedules")}
      />
    </>
  );
}
