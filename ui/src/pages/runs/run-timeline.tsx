import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Choice } from "../../parts/field.tsx";
import { Gantt, type GanttRow } from "../../parts/gantt.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Empty, Notice } from "../../parts/notice.tsx";
import { countText } from "../../parts/time-text.ts";
import { useFilters } from "../../parts/use-filters.ts";
import { type Run, taskHref } from "./run-texts.ts";
import { type Timeline, timelineRows } from "./timeline-rows.ts";

/** Rows up to which nobody needs help to find one. */
const ROWS_PLAIN_MAX = 20;

const SHOWN = [
  ["", "all"],
  ["trouble", "failed or retried"],
  ["open", "unfinished"],
] as const;

/** Whether a row is one of those that were asked for. */
function isShown({ state, bars }: GanttRow, show: string): boolean {
  if (show === "trouble") return state === "FAILED" || bars.length > 1;
  return show !== "open" || !/^(?:SUCCEEDED|FAILED|CANCELLED|SKIPPED)$/.test(state ?? "");
}

/** Which task of a run was tried when, by whom, and what it waited for. */
export function RunTimeline({ run }: { run: Run }): ReactNode {
  const answer = useAnswer("getRunTimeline", { params: { run_id: run.run_id } });
  return <Loaded answer={answer}>{(timeline) => <Chart timeline={timeline} />}</Loaded>;
}

function Chart({ timeline }: { timeline: Timeline }): ReactNode {
  const { run_id, requested_at, finished_at } = timeline;
  const [{ show }, setFilter] = useFilters(["show"]);
  const all = useMemo(
    () => timelineRows(timeline, (taskKey) => taskHref(run_id, taskKey)),
    [timeline, run_id],
  );
  const rows = useMemo(() => all.filter((row) => isShown(row, show)), [all, show]);
  return (
    <>
      {all.length > ROWS_PLAIN_MAX && (
        <div className="filters">
          <Choice
            label="Tasks"
            value={show}
            options={SHOWN}
            onChange={(value) => setFilter("show", value)}
          />
          <p className="soft" role="status">
            {countText(rows.length)} of {countText(all.length)} tasks
          </p>
        </div>
      )}
      {!timeline.complete && (
        <Notice tone="wait">
          Not all tasks and attempts are drawn. See the list for all tasks.
        </Notice>
      )}
      {rows.length === 0 ? (
        <Empty title="No task matches." />
      ) : (
        <Gantt
          label="Timeline of the tasks"
          rows={rows}
          fromMs={Date.parse(requested_at)}
          toMs={finished_at === null ? null : Date.parse(finished_at)}
        />
      )}
    </>
  );
}
