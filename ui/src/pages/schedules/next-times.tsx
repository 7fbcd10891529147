import type { ReactNode } from "react";
import { Empty } from "../../parts/notice.tsx";
import { Status } from "../../parts/status.tsx";
import { durationText, relativeText } from "../../parts/time-text.ts";
import { useNow } from "../../parts/use-now.ts";
import type { NextTime, Schedule } from "./schedule-texts.ts";
import { viewerZone, zonedText } from "./zoned-text.ts";

const CHANGES: Readonly<Record<NonNullable<NextTime["change"]>, string>> = {
  gap: "clock change: runs right after the gap",
  overlap: "clock change: this time occurs twice",
};

/** Times to come, in the zone of the schedule and of whoever looks, with clock changes. */
export function NextTimes(props: {
  times: readonly NextTime[];
  zone: string;
  state: Schedule["state"];
}): ReactNode {
  const { times, zone, state } = props;
  const nowMs = useNow();
  if (times.length === 0) {
    return (
      <Empty
        title={
          state === "DELETED"
            ? "The schedule is deleted: no more ticks."
            : "No more ticks: the end has passed, or no day matches."
        }
      />
    );
  }
  return (
    <div className="card">
      {state === "PAUSED" && <p className="soft">While it is paused these times pass.</p>}
      <ol className="schedules-times">
        {times.map((time) => (
          <li key={time.scheduled_for}>
            <span>
              {time.local_time.replace("T", " ")}{" "}
              <span className="soft">
                {zone}
                {zone === "UTC" ? "" : ` (UTC${time.utc_offset})`}
              </span>
            </span>
            {viewerZone() !== zone && (
              <span className="soft">{zonedText(time.scheduled_for, viewerZone())} local time</span>
            )}
            <span className="soft">{relativeText(time.scheduled_for, nowMs)}</span>
            {time.due_at !== time.scheduled_for && (
              <span className="soft">
                {durationText(Date.parse(time.due_at) - Date.parse(time.scheduled_for))} later, by
                its jitter
              </span>
            )}
            {time.change !== null && <Status state="CLOCK_CHANGE">{CHANGES[time.change]}</Status>}
          </li>
        ))}
      </ol>
    </div>
  );
}
