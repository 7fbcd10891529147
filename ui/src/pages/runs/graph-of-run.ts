import { lookOf } from "../../parts/status-look.ts";
import { countText } from "../../parts/time-text.ts";
import { runHref, taskHref } from "./run-texts.ts";
import { partitionsText, type Timeline } from "./timeline-rows.ts";

/** Tasks that are drawn one by one; more of them are a wall that nobody reads. */
const TASKS_DRAWN_MAX = 60;

/** What is drawn: a node for each task, or for each asset where there are too many. */
export type RunGraph = {
  nodes: { id: string; text: string; detail?: string; state: string; href: string }[];
  edges: [string, string][];
  isByAsset: boolean;
};

/** The graph of a run. */
export function graphOfRun(timeline: Timeline): RunGraph {
  return timeline.tasks.length > TASKS_DRAWN_MAX ? byAsset(timeline) : byTask(timeline);
}

function byTask({ run_id, tasks, edges }: Timeline): RunGraph {
  const nodes = tasks.map((task) => ({
    id: String(task.task_key),
    text: task.asset_key,
    ...(task.partition_count === 0 ? {} : { detail: partitionsText(task) }),
    state: task.state,
    href: taskHref(run_id, task.task_key),
  }));
  const named = edges.map(([from, to]): [string, string] => [String(from), String(to)]);
  return { nodes, edges: named, isByAsset: false };
}

/** The states that a whole asset has when one of its tasks does, the most telling first. */
const TELLING = ["FAILED", "RUNNING", "RETRY_WAIT", "READY", "WAITING", "CANCELLED", "SKIPPED"];

function byAsset({ run_id, tasks, edges }: Timeline): RunGraph {
  const assetOf = new Map(tasks.map(({ task_key, asset_key }) => [task_key, asset_key]));
  const nodes = [...Map.groupBy(tasks, ({ asset_key }) => asset_key)].map(([asset, own]) => {
    const counts = [...Map.groupBy(own, ({ state }) => state)];
    const words = counts.map(([state, { length }]) => `${countText(length)} ${lookOf(state).word}`);
    return {
      id: asset,
      text: asset,
      detail: words.join(", "),
      state: TELLING.find((state) => own.some((task) => task.state === state)) ?? "SUCCEEDED",
      href: `${runHref(run_id)}?view=tasks`,
    };
  });
  const pairs = new Map<string, [string, string]>();
  for (const [from, to] of edges) {
    const pair: [string, string] = [assetOf.get(from) ?? "", assetOf.get(to) ?? ""];
    if (pair[0] !== pair[1]) pairs.set(JSON.stringify(pair), pair);
  }
  return { nodes, edges: [...pairs.values()], isByAsset: true };
}
