import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Graph } from "../../parts/graph.tsx";
import { Loaded } from "../../parts/loaded.tsx";
import { Notice } from "../../parts/notice.tsx";
import { countText } from "../../parts/time-text.ts";
import { graphOfRun } from "./graph-of-run.ts";
import type { Run } from "./run-texts.ts";
import type { Timeline } from "./timeline-rows.ts";

/** What in a run waits for what. */
export function RunGraph({ run }: { run: Run }): ReactNode {
  const answer = useAnswer("getRunTimeline", { params: { run_id: run.run_id } });
  return <Loaded answer={answer}>{(timeline) => <Drawn timeline={timeline} />}</Loaded>;
}

function Drawn({ timeline }: { timeline: Timeline }): ReactNode {
  const { nodes, edges, isByAsset } = useMemo(() => graphOfRun(timeline), [timeline]);
  return (
    <>
      {isByAsset && (
        <Notice tone="wait">
          The run has {countText(timeline.tasks.length)}
          {timeline.complete ? "" : " and more"} tasks, so each asset is drawn once, with what its
          tasks came to.
        </Notice>
      )}
      <Graph label="Tasks of the run" nodes={nodes} edges={edges} direction="right" />
    </>
  );
}
