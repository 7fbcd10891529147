import { type ReactNode, useMemo } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { Plot } from "../../parts/plot.tsx";
import type { PlotSeries } from "../../parts/plot-data.ts";
import { heldUntil, samplesByMinute } from "./samples-by-minute.ts";

/** How often samples are written while there is something to write. */
const EVERY_MS = 5_000;
const HOUR = 3_600;

type Samples = { items: { series: string; points: [number, number][] }[]; bucket_seconds: number };

/** How much was done in the last hour, and how much waited. */
export function Activity(): ReactNode {
  const series = "tasks_succeeded,tasks_failed,tasks_queued,tasks_running";
  const samples = useAnswer("listSamples", { query: { series } }, { everyMs: EVERY_MS });
  const { dataUpdatedAt } = samples;
  return (
    <Loaded answer={samples}>
      {(answer) => <Plots samples={answer} to={Math.floor(dataUpdatedAt / 1_000)} />}
    </Loaded>
  );
}

function Plots({ samples, to }: { samples: Samples; to: number }): ReactNode {
  const from = to - HOUR;
  const { done, waiting } = useMemo(() => seriesOf(samples, from, to), [samples, from, to]);
  return (
    <div className="columns">
      <div className="card overview-plot">
        <Plot label="Tasks done" unit="per minute" series={done} height={112} from={from} to={to} />
      </div>
      <div className="card overview-plot">
        <Plot label="Queue" unit="tasks" series={waiting} height={112} from={from} to={to} />
      </div>
    </div>
  );
}

function seriesOf(
  { items }: Samples,
  from: number,
  to: number,
): { done: PlotSeries[]; waiting: PlotSeries[] } {
  const pointsOf = (name: string) => items.find(({ series }) => series === name)?.points ?? [];
  const byMinute = (name: string) => {
    const points = pointsOf(name);
    return points.length === 0 ? [] : samplesByMinute(points, from, to);
  };
  const held = (name: string) => heldUntil(pointsOf(name), to);
  return {
    done: [
      { name: "failed", kind: "bar", tone: "bad", points: byMinute("tasks_failed") },
      { name: "succeeded", kind: "bar", tone: "good", points: byMinute("tasks_succeeded") },
    ],
    waiting: [
      { name: "queued", tone: "warn", points: held("tasks_queued") },
      { name: "running", tone: "busy", points: held("tasks_running") },
    ],
  };
}
