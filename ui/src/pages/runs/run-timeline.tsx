import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Gantt } from "../../parts/gantt.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { type Run, taskHref } from "./run-texts.ts";
import { type Timeline, timelineRows } from "./timeline-rows.ts";

/** Which task of a run was tried when, by whom, and what it waited for. */
export function RunTimeline({ run }: { run: Run }): ReactNode {
  const answer = useAnswer("getRunTimeline", { params: { run_id: run.run_id } });
  return <Loaded answer={answer}>{(timeline) => <Chart timeline={timeline} />}</Loaded>;
}

function Chart({ timeline }: { timeline: Timeline }): ReactNode {
  const { run_id, requested_at, finished_at } = timeline;
  const rows = useMemo(
    () => timelineRows(timeline, (taskKey) => taskHref(run_id, taskKey)),
    [timeline, run_id],
  );
  return (
    <>
      {!timeline.complete && (
        <Notice tone="wait">
          The run has more tasks or attempts than are drawn here. All tasks are in the list.
        </Notice>
      )}
      <Gantt
        label="Timeline of the tasks"
        rows={rows}
        fromMs={Date.parse(requested_at)}
        toMs={finished_at === null ? null : Date.parse(finished_at)}
      />
    </>
  );
}
