import type { Json } from "../kernel/canonical.ts";
import type { PinnedAsset } from "./asset/look-up.ts";
import type { Context } from "./decision.ts";
import type { NewEvent } from "./events.ts";
import type { Touch } from "./fold.ts";
import type { At, KindRuns, RunRef } from "./kind.ts";
import type { Rows } from "./rows.ts";
import type { ClaimedGroup } from "./run/protocol.ts";
import type { TaskResultField, WorkRef } from "./run/events.ts";
import { RUN_CLASS, runRequested } from "./run/request.ts";
import type { RunRow, RunState } from "./run/rows.ts";
import { workOfRun } from "./run/tasks.ts";

/** What a kind of work does when a step or a part of it goes on; each is one run with one task. */
export type Steps<Ref> = {
  touches(ref: Ref): readonly Touch[];
  queue(rows: Rows, ref: Ref, run: { run_pos: number; run_id: string }, at: At): void;
  start?(rows: Rows, ref: Ref, attempt: { attempt: number; worker_id: string }, at: At): void;
  endAttempt?(rows: Rows, ref: Ref, result: TaskResultField, at: At): void;
  finish(
    rows: Rows,
    ref: Ref,
    outcome: Extract<RunState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
    at: At & { run_pos: number },
  ): void;
  /** What a worker is told besides; null when the step is not to be done any more. */
  claimed?: (rows: Rows, ref: Ref) => NonNullable<ClaimedGroup["step"]> | null;
};

/** How runs and their events say which step they are; null for those of others. */
export type StepRefs<Ref> = {
  ofRun: (run: Pick<RunRow, "trigger_source_ref">) => Ref | null;
  ofEvent: (event: RunRef) => Ref | null;
};

/** The runs of a kind of work of which each is one step. */
export function stepRuns<Ref>(refs: StepRefs<Ref>, steps: Steps<Ref>): KindRuns {
  const { ofRun, ofEvent } = refs;
  const { claimed } = steps;
  const touchesOf = (ref: Ref | null) => (ref === null ? [] : steps.touches(ref));
  return {
    owns: (run) => ofRun(run) !== null,
    touchesAsked: (data) => touchesOf(ofRun(data)),
    touches: (run) => touchesOf(ofEvent(run)),
    queued(rows, event) {
      const ref = ofRun(event.data);
      const run = { run_pos: event.pos, run_id: event.data.run_id };
      if (ref !== null) steps.queue(rows, ref, run, event);
    },
    attemptStarted(rows, run, attempt, at) {
      const ref = ofEvent(run);
      if (ref !== null) steps.start?.(rows, ref, attempt, at);
    },
    attemptEnded(rows, run, result, at) {
      const ref = ofEvent(run);
      if (ref !== null) steps.endAttempt?.(rows, ref, result, at);
    },
    finished(rows, _run, event) {
      const { pos, occurred_at, data } = event;
      const at = { pos, occurred_at, run_pos: data.run_pos };
      const ref = ofEvent(data);
      if (ref !== null) steps.finish(rows, ref, data.outcome, at);
    },
    ...(claimed !== undefined && {
      claimed(rows, run) {
        const ref = ofRun(run);
        const step = ref === null ? null : claimed(rows, ref);
        return step === null ? null : { step };
      },
      kept: ({ step }) => (step === undefined ? {} : { step }),
    }),
  };
}

/** The runs of a kind of work without references of its own: each is a part of it, and runs assets. */
export function partRuns(kind: string, steps: Steps<WorkRef>): KindRuns {
  const own = (ref: WorkRef | null | undefined) => (ref?.kind === kind ? ref : null);
  return stepRuns({ ofRun: (run) => own(workOfRun(run)), ofEvent: ({ work }) => own(work) }, steps);
}

/** The request of a run for a part of some work: one asset, once, with a configuration of its own. */
export function partRequested(
  context: Context,
  ref: WorkRef,
  asset: PinnedAsset,
  config: Json,
): NewEvent {
  const { kind, id, index, n } = ref;
  return runRequested(context, `${kind}:${id}:${index}:${n}`, [asset], null, {
    config,
    labels: {},
    code_version: null,
    priority: 0,
    class: RUN_CLASS.backfill,
    retry: null,
    trigger_source_ref: { type: "work", ...ref },
    backfill_id: null,
    chunk_index: null,
  });
}
