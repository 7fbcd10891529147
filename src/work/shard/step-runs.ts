import type { Touch } from "../fold.ts";
import type { At, KindRuns, RunRef } from "../kind.ts";
import type { Rows } from "../rows.ts";
import type { TaskResultField } from "../run/events.ts";
import type { ClaimedGroup } from "../run/protocol.ts";
import type { RunRow, RunState } from "../run/rows.ts";
import type { ShardWorkRef } from "./step-protocol.ts";

type Work = ShardWorkRef["work"];

/** A step of one kind of work on shards. */
export type StepRef<Name extends Work> = Extract<ShardWorkRef, { work: Name }>;

/** What a kind of work on shards does when a step of it goes on. */
export type Steps<Ref> = {
  touches(ref: Ref): readonly Touch[];
  queue(rows: Rows, ref: Ref, run: { run_pos: number; run_id: string }, at: At): void;
  start(rows: Rows, ref: Ref, attempt: { attempt: number; worker_id: string }, at: At): void;
  endAttempt(rows: Rows, ref: Ref, result: TaskResultField, at: At): void;
  finish(
    rows: Rows,
    ref: Ref,
    outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
    at: At,
  ): void;
  /** What a worker is told of a step; null when it is not to be done any more. */
  claimed(rows: Rows, ref: Ref): NonNullable<ClaimedGroup["step"]> | null;
};

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
export function stepRuns<Name extends Work>(work: Name, steps: Steps<StepRef<Name>>): KindRuns {
  const refOf = ({ shard_work }: Pick<RunRef, "shard_work">) => ofWork(work, shard_work);
  const touchesOf = (ref: StepRef<Name> | null) => (ref === null ? [] : steps.touches(ref));
  return {
    owns: (run) => stepOf(work, run) !== null,
    touchesAsked: (data) => touchesOf(stepOf(work, data)),
    touches: (run) => touchesOf(refOf(run)),
    queued(rows, event) {
      const ref = stepOf(work, event.data);
      const run = { run_pos: event.pos, run_id: event.data.run_id };
      if (ref !== null) steps.queue(rows, ref, run, event);
    },
    attemptStarted(rows, run, attempt, at) {
      const ref = refOf(run);
      if (ref !== null) steps.start(rows, ref, attempt, at);
    },
    attemptEnded(rows, run, result, at) {
      const ref = refOf(run);
      if (ref !== null) steps.endAttempt(rows, ref, result, at);
    },
    finished(rows, _run, event) {
      const ref = refOf(event.data);
      if (ref !== null) steps.finish(rows, ref, event.data.outcome, event);
    },
    claimed(rows, run) {
      const ref = stepOf(work, run);
      const step = ref === null ? null : steps.claimed(rows, ref);
      return step === null ? null : { step };
    },
    kept: ({ step }) => (step === undefined ? {} : { step }),
  };
}
