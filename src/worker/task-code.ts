import { shardWorkNames } from "../core/shard-spec.ts";
import { workNameOf } from "../core/sync-spec.ts";
import type { Project } from "../define/define-pawl.ts";
import { partitionReaderOf } from "./partition-reader.ts";
import { plainSyncCode } from "./plain-sync-code.ts";
import { runSegment, type SegmentHost } from "./run-segment.ts";
import { runStep, type StepSurroundings } from "./run-step.ts";
import type { TaskCode } from "./task-attempt.ts";
import { taskContext } from "./task-context.ts";

/** The code of all work that the project has, by the name that it is claimed under. */
export function taskCodeOf(
  project: Project,
  host: SegmentHost & Omit<StepSurroundings, "allowsDdl">,
): ReadonlyMap<string, TaskCode> {
  return new Map([
    ...assetCodes(project),
    ...syncCodes(project, host),
    ...shardCodes(project, host),
  ]);
}

function assetCodes({ specs, functions }: Project): [string, TaskCode][] {
  const codes: [string, TaskCode][] = [];
  for (const spec of specs) {
    if (spec.kind !== "asset") continue;
    const materialize = functions.get(spec.asset_key);
    if (materialize === undefined) continue;
    const reader =
      spec.partitions === null ? null : partitionReaderOf(spec.asset_key, spec.partitions);
    const code: TaskCode = (attempt) => {
      for (const key of attempt.task.partition_keys) reader?.valuesOf(key);
      return materialize(taskContext(attempt, reader));
    };
    codes.push([spec.asset_key, code]);
  }
  return codes;
}

function syncCodes({ syncs }: Project, host: SegmentHost): [string, TaskCode][] {
  return [...syncs].map(([name, functions]) => {
    const plain = plainSyncCode(functions);
    const code: TaskCode = (attempt) => {
      const { segment } = attempt.group;
      // Only work of syncs is claimed under their names, so it has a segment.
      if (segment === undefined) throw new Error(`A task of the sync ${name} has no segment.`);
      return runSegment(attempt, segment, plain, host);
    };
    return [workNameOf(name), code];
  });
}

function shardCodes(
  { shards, allowsDdl }: Project,
  host: Omit<StepSurroundings, "allowsDdl">,
): [string, TaskCode][] {
  const code: TaskCode = (attempt) => {
    const { step } = attempt.group;
    // Only steps are claimed under the names of shards.
    if (step === undefined) throw new Error(`${attempt.group.asset_key} has no step.`);
    return runStep(attempt, step, { ...host, allowsDdl });
  };
  return shardWorkNames([...shards.keys()]).map((name) => [name, code]);
}
