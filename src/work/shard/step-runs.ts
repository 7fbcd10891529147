import type { KindRuns } from "../kind.ts";
import type { RunRow } from "../run/rows.ts";
import { stepRuns, type Steps } from "../step-runs.ts";
import type { ShardWorkRef } from "./step-protocol.ts";

type Work = ShardWorkRef["work"];

/** A step of one kind of work on shards. */
export type StepRef<Name extends Work> = Extract<ShardWorkRef, { work: Name }>;

/** The step that a run is, of one kind of work on shards; null for all others. */
export function stepOf<Name extends Work>(
  work: Name,
  { trigger_source_ref: source }: Pick<RunRow, "trigger_source_ref">,
): StepRef<Name> | null {
  return source.type === "shards" ? ofWork(work, source.work) : null;
}

function ofWork<Name extends Work>(
  work: Name,
  ref: ShardWorkRef | undefined,
): StepRef<Name> | null {
  return ref?.work === work ? (ref as StepRef<Name>) : null;
}

/** The runs of a kind of work on shards: each is one step. */
export function shardStepRuns<Name extends Work>(
  work: Name,
  steps: Steps<StepRef<Name>>,
): KindRuns {
  return stepRuns(
    {
      ofRun: (run) => stepOf(work, run),
      ofEvent: ({ shard_work }) => ofWork(work, shard_work),
    },
    steps,
  );
}
