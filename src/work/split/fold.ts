import { assert, present } from "../../kernel/errors.ts";
import type { TaskResultField } from "../run/events.ts";
import type { Rows } from "../rows.ts";
import type { SplitRow, StepState, SplitPhase } from "./rows.ts";
import type { ShardWorkRef, SplitReport, SplitStep } from "../shard/step-protocol.ts";
import type { At } from "../kind.ts";
import type { EventData } from "../events.ts";
import { addMs } from "../../kernel/instant.ts";
import { entitySubject } from "../keys.ts";
import { assertCommit, ROUTING_ID } from "../routing/fold.ts";
import type { Folding, Recorded } from "../fold.ts";

type SplitRef = Extract<ShardWorkRef, { work: "split" }>;

/** A split that an event is about, which therefore exists. */
export function splitOf(rows: Rows, splitId: string): SplitRow {
  return present(rows.splits.get(splitId), `split ${splitId} exists`);
}

/** Writes a split, with the time of what changed it. */
export function putSplit(rows: Rows, split: SplitRow, { pos, occurred_at }: At): void {
  rows.splits.put({ ...split, updated_at: occurred_at, row_version: pos });
}

/** A run of the next step was asked for. */
export function queueSplitStep(
  rows: Rows,
  { split_id, step, n }: SplitRef,
  run: { run_pos: number; run_id: string },
  at: At,
): void {
  const split = splitOf(rows, split_id);
  assert(
    split.run_pos === null && split.step_state === null,
    "one step at a time works on a split",
  );
  assert(n === split.steps + 1, "steps are numbered");
  const queued = {
    steps: n,
    step,
    step_state: "QUEUED",
    step_report: null,
    worker_id: null,
    // What was due is being done; should it fail for good, the time has no more to say.
    due_at: step === "remove" ? null : split.due_at,
  } as const;
  putSplit(rows, { ...split, ...queued, ...run }, at);
}

/** A worker has begun with the step, for the first time or again. */
export function startSplitStep(
  rows: Rows,
  { split_id, step, n }: SplitRef,
  { worker_id }: { worker_id: string },
  at: At,
): void {
  const split = splitOf(rows, split_id);
  assert(split.steps === n, "the last step is the one that runs");
  // Once a worker has begun to take capture down, nobody knows what is left of it.
  const armed = step === "finish" || step === "discard" ? 0 : split.armed;
  const status = statusOfStep(split, step, "running");
  putSplit(rows, { ...split, ...status, armed, step_state: "RUNNING", worker_id }, at);
}

/** What a step that has begun, or has failed for good, makes of the state of the copy or the tail. */
function statusOfStep(
  split: SplitRow,
  step: SplitStep,
  status: "running" | "failed",
): Partial<SplitRow> {
  if (step === "copy") return { backfill_status: status };
  if (step !== "tail" && step !== "reverse") return {};
  const isCaughtUp = status === "running" && split.tail_status === "caught_up";
  return isCaughtUp ? {} : { tail_status: status };
}

/** The steps that say whether both shards are fit for a split: before it, and before anything is armed. */
const LOOKS_AT_BOTH: ReadonlySet<SplitStep> = new Set(["check", "arm"]);

/** An attempt has ended: what it found, and why it failed. */
export function endSplitAttempt(
  rows: Rows,
  { split_id, step }: SplitRef,
  result: TaskResultField,
  at: At,
): void {
  const split = splitOf(rows, split_id);
  const failed = result.outcome === "FAILED" && result.released !== true;
  const report = reportOf(result);
  putSplit(
    rows,
    {
      ...split,
      ...(report === null ? {} : reported(split, report)),
      checks: LOOKS_AT_BOTH.has(step) ? (report?.checks ?? split.checks) : split.checks,
      step_report: report ?? split.step_report,
      failures: split.failures + (failed ? 1 : 0),
      ...(failed && result.error !== undefined
        ? { error: result.error, error_at: at.occurred_at }
        : {}),
    },
    at,
  );
}

function reportOf({ step }: TaskResultField): SplitReport | null {
  if (step?.work !== "split") return null;
  const { work, ...report } = step;
  assert(work === "split", "the report is about a split");
  return report;
}

/** What a report of the last step says about how far a split is. */
export function reported(split: SplitRow, report: SplitReport): Partial<SplitRow> {
  // The way back has a stream of its own, which says nothing about the copy.
  const isBack = split.step === "reverse" || split.step === "cutback";
  return {
    ...(isBack ? {} : copied(split, report)),
    last_event_id: report.last_event_id ?? split.last_event_id,
    last_event_ts: report.last_event_at ?? split.last_event_ts,
    tail_lag_events: report.lag_events ?? split.tail_lag_events,
    tail_lag_ms: report.lag_ms ?? split.tail_lag_ms,
    write_pause_us:
      report.write_pause_ms === undefined
        ? split.write_pause_us
        : Math.round(report.write_pause_ms * 1_000),
  };
}

function copied(split: SplitRow, report: SplitReport): Partial<SplitRow> {
  return {
    total_rows_copied: report.rows_copied ?? split.total_rows_copied,
    table_progress: report.tables ?? split.table_progress,
    tenant_rows: report.tenant_rows ?? split.tenant_rows,
    verification: report.verification ?? split.verification,
  };
}

/** The run of the step has ended; what follows from that is for the controller. */
export function finishSplitStep(
  rows: Rows,
  { split_id, step }: SplitRef,
  outcome: Extract<StepState, "SUCCEEDED" | "FAILED" | "CANCELLED">,
  at: At,
): void {
  const split = splitOf(rows, split_id);
  const failed = outcome === "FAILED" ? statusOfStep(split, step, "failed") : {};
  // A tail that failed has to catch up again first, whenever a cutover was to be tried again.
  const due_at = outcome === "FAILED" && step === "tail" ? null : split.due_at;
  const ended = { step_state: outcome, run_pos: null, worker_id: null, due_at };
  putSplit(rows, { ...split, ...failed, ...ended }, at);
}

/**
 * Where a split may go by an event of its own. To `cutover_pending` it goes when its tail says that
 * it is caught up, and to `reversible` by the commit record of its cutover.
 */
const NEXT_PHASES: Readonly<Record<SplitPhase, readonly SplitPhase[]>> = {
  planning: ["dual_write", "rolled_back"],
  dual_write: ["backfill", "rolled_back"],
  backfill: ["tailing", "rolled_back"],
  tailing: ["rolled_back"],
  cutover_pending: ["rolled_back"],
  reversible: ["completed", "rolled_back"],
  completed: [],
  rolled_back: ["dual_write"],
};

/** How far a split is before anything was done on its shards, and after all of that was taken back. */
const NOTHING_DONE = {
  checks: null,
  armed: 0,
  dual_write_started_at: null,
  backfill_status: "pending",
  backfill_started_at: null,
  backfill_completed_at: null,
  total_rows_copied: 0,
  table_progress: [],
  tenant_rows: {},
  tail_status: "pending",
  last_event_id: null,
  last_event_ts: null,
  tail_lag_events: null,
  tail_lag_ms: null,
  verification: null,
} satisfies Partial<SplitRow>;

/** What is not known of a split that nobody has begun with. */
const NOT_BEGUN = {
  ...NOTHING_DONE,
  wanted: null,
  ddl: null,
  error: null,
  error_at: null,
  routing_version_cutover: null,
  routing_version_rollback: null,
  committing: 0,
  write_pause_us: null,
  cutover_at: null,
  finished_at: null,
  remove_after: null,
  removed_at: null,
  due_at: null,
} satisfies Partial<SplitRow>;

const NEW_SPLIT = {
  ...NOT_BEGUN,
  phase: "planning",
  state_version: 1,
  reason: null,
  steps: 0,
  step: null,
  step_state: null,
  step_report: null,
  run_pos: null,
  run_id: null,
  worker_id: null,
  failures: 0,
} satisfies Partial<SplitRow>;

const splitPlanned: Folding<"SplitPlanned"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ tenants }) => tenants.map((tenant) => ["splitTenants", [tenant]] as const),
  apply(rows, { data, pos, occurred_at }) {
    const { changed_by, routing_version, auto_cutover, ...planned } = data;
    const { split_id, tenants, epochs, source, target } = planned;
    assert(source !== target, "a split has two shards");
    assert(epochs.length === tenants.length, "each tenant has its epoch");
    for (const tenant of tenants) {
      assert(rows.splitTenants.get(tenant) === null, `${tenant} is in one split at a time`);
      rows.splitTenants.put({ tenant, split_id, row_version: pos });
    }
    rows.splits.insert({
      ...NEW_SPLIT,
      ...planned,
      auto_cutover: auto_cutover ? 1 : 0,
      routing_version_at_start: routing_version,
      planned_by: changed_by,
      planned_at: occurred_at,
      updated_at: occurred_at,
      created_pos: pos,
      row_version: pos,
    });
  },
};

const splitPhaseChanged: Folding<"SplitPhaseChanged"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ split_id, tenants }) => [
    ["splits", [split_id]],
    ...(tenants ?? []).map((tenant) => ["splitTenants", [tenant]] as const),
  ],
  apply(rows, event) {
    const { data } = event;
    const split = splitOf(rows, data.split_id);
    const { from_phase, to_phase, state_version, reason } = data;
    assert(split.phase === from_phase, `${data.split_id} is in ${from_phase}`);
    assert(NEXT_PHASES[from_phase].includes(to_phase), `${from_phase} may lead to ${to_phase}`);
    assert(state_version === split.state_version + 1, "state versions grow by one");
    const changed = { ...split, phase: to_phase, state_version, reason };
    putSplit(rows, { ...changed, ...afterPhase(rows, split, event) }, event);
  },
};

/** What a phase brings with it. */
function afterPhase(
  rows: Rows,
  split: SplitRow,
  recorded: Recorded<"SplitPhaseChanged">,
): Partial<SplitRow> {
  const { data, occurred_at } = recorded;
  switch (data.to_phase) {
    case "dual_write":
      return split.phase === "rolled_back" ? begunAgain(rows, split, recorded) : {};
    case "backfill":
      assert(split.armed === 1, "nothing is copied before capture is armed");
      return { backfill_started_at: occurred_at };
    case "tailing":
      return { backfill_status: "completed", backfill_completed_at: occurred_at };
    case "completed": {
      assert(split.routing_version_cutover !== null, "only what was cut over is completed");
      assert(split.routing_version_rollback === null, "what was cut back is not completed");
      const remove_after = addMs(occurred_at, split.grace_ms);
      const ended = freeTenants(rows, split, data);
      return { ...ended, finished_at: occurred_at, remove_after, due_at: remove_after };
    }
    case "rolled_back": {
      const isBack =
        split.routing_version_cutover === null || split.routing_version_rollback !== null;
      assert(isBack, "what was cut over is cut back before it is rolled back");
      const ended = freeTenants(rows, split, data);
      return { ...ended, ...NOTHING_DONE, finished_at: occurred_at, due_at: null };
    }
    default:
      return {};
  }
}

/** Takes the tenants of a split that was rolled back once more, as the routing has them by now. */
function begunAgain(
  rows: Rows,
  { split_id, tenants }: SplitRow,
  { data, pos }: Recorded<"SplitPhaseChanged">,
): Partial<SplitRow> {
  const again = present(data.again, "a plan that is run again is looked at again");
  assert(data.tenants?.length === tenants.length, "a plan is run again with all its tenants");
  assert(again.epochs.length === tenants.length, "each tenant has its epoch");
  for (const tenant of data.tenants) {
    assert(tenants.includes(tenant), `${tenant} is one of its tenants`);
    assert(rows.splitTenants.get(tenant) === null, `${tenant} is in one split at a time`);
    rows.splitTenants.put({ tenant, split_id, row_version: pos });
  }
  const { routing_version, ...planned } = again;
  return { ...NOT_BEGUN, ...planned, routing_version_at_start: routing_version };
}

/** Lets other splits have the tenants; what was wanted of this one is wanted no more. */
function freeTenants(
  rows: Rows,
  { split_id, tenants, committing }: SplitRow,
  data: EventData<"SplitPhaseChanged">,
): Partial<SplitRow> {
  assert(committing === 0, "a split ends when its commit record is carried out");
  assert(data.tenants?.length === tenants.length, "a split that ends frees all its tenants");
  for (const tenant of data.tenants) {
    assert(rows.splitTenants.get(tenant)?.split_id === split_id, `${tenant} is in this split`);
    rows.splitTenants.delete(tenant);
  }
  return { wanted: null, ddl: null };
}

const splitWanted: Folding<"SplitWanted"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ split_id }) => [["splits", [split_id]]],
  apply(rows, event) {
    const { split_id, wanted, ddl, state_version, reason } = event.data;
    const split = splitOf(rows, split_id);
    assert(state_version === split.state_version + 1, "state versions grow by one");
    assert(split.finished_at === null, "nothing is wanted of a split that has ended");
    assert(split.committing === 0, "a commit record is carried out before anything else");
    assert(split.wanted === null || wanted === "rollback", "one thing is wanted at a time");
    const asked = { state_version, wanted, reason, due_at: null };
    // A statement that is being run keeps its text although something else is wanted by now.
    putSplit(rows, { ...split, ...asked, ddl: ddl ?? split.ddl }, event);
  },
};

const stepSettled: Folding<"SplitStepSettled"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ split_id }) => [["splits", [split_id]]],
  apply(rows, event) {
    const { split_id, n, step, outcome, report, clears_wanted, again_at } = event.data;
    const split = splitOf(rows, split_id);
    assert(n === split.steps && step === split.step, "the last step is settled");
    assert(split.step_state !== null && split.run_pos === null, "a step is settled when it ended");
    const settled: SplitRow = {
      ...split,
      ...(report === null ? {} : reported(split, report)),
      step_state: null,
      wanted: clears_wanted ? null : split.wanted,
      ddl: step === "ddl" ? null : split.ddl,
      due_at: again_at ?? split.due_at,
    };
    const after = outcome === "done" ? afterStep(settled, event) : againAfter(settled, event);
    putSplit(rows, { ...settled, ...after }, event);
  },
};

/** What a step that has done its work leaves behind. */
function afterStep(
  split: SplitRow,
  { data, occurred_at }: Recorded<"SplitStepSettled">,
): Partial<SplitRow> {
  const well = { error: null, error_at: null };
  switch (data.step) {
    case "arm":
      return { ...well, armed: 1, dual_write_started_at: occurred_at };
    case "cutover":
    case "cutback":
      assert(split.committing === 1, "a cutover is done after its commit record");
      return { ...well, committing: 0 };
    case "remove":
      return { ...well, remove_after: null, removed_at: occurred_at, due_at: null };
    default:
      return well;
  }
}

/** A copy or a tail that failed is to be tried again. */
function againAfter(split: SplitRow, { data }: Recorded<"SplitStepSettled">): Partial<SplitRow> {
  if (data.outcome !== "failed") return {};
  return {
    backfill_status: split.backfill_status === "failed" ? "pending" : split.backfill_status,
    tail_status: split.tail_status === "failed" ? "pending" : split.tail_status,
  };
}

const caughtUp: Folding<"SplitCaughtUp"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ split_id }) => [["splits", [split_id]]],
  apply(rows, event) {
    const { split_id, n, state_version, report } = event.data;
    const split = splitOf(rows, split_id);
    assert(split.steps === n && split.step === "tail", "the tail says that it is caught up");
    assert(split.step_state === "RUNNING", "the tail is running when it is caught up");
    assert(state_version === split.state_version + 1, "state versions grow by one");
    const isAgain = split.phase === "cutover_pending" && split.tail_status !== "caught_up";
    assert(split.phase === "tailing" || isAgain, "what is caught up was not before");
    const { finished, ok } = report.verification ?? { finished: false, ok: false };
    assert(finished && ok, "what is caught up is verified");
    putSplit(
      rows,
      {
        ...split,
        ...reported(split, report),
        phase: "cutover_pending",
        state_version,
        tail_status: "caught_up",
      },
      event,
    );
  },
};

const splitCutOver: Folding<"SplitCutOver"> = {
  subject: ({ split_id }) => entitySubject(split_id),
  touches: ({ split_id, routing_version }) => [
    ["splits", [split_id]],
    ["routing", [ROUTING_ID]],
    ["routingVersions", [routing_version]],
  ],
  apply(rows, event) {
    const { data, occurred_at } = event;
    const { n, direction, routing_version, state_version } = data;
    const split = splitOf(rows, data.split_id);
    const isForward = direction === "forward";
    assert(split.steps === n && split.step_state === "RUNNING", "the step that commits is running");
    assert(split.step === (isForward ? "cutover" : "cutback"), "only a cutover commits");
    assert(state_version === split.state_version + 1, "state versions grow by one");
    assertCommit(rows, data, split.tenants);
    if (isForward) {
      assert(split.phase === "cutover_pending", "only what is caught up is cut over");
      assert(split.wanted === "cutover", "a cutover is wanted");
      assert(split.backfill_status === "completed", "the copy is complete");
      const { finished, ok } = split.verification ?? { finished: false, ok: false };
      assert(finished && ok, "the copy is verified");
      assert(split.routing_version_cutover === null, "a split is cut over once");
    } else {
      assert(split.phase === "reversible", "only what was cut over is cut back");
      assert(split.wanted === "rollback", "a rollback is wanted");
      assert(split.routing_version_rollback === null, "a split is cut back once");
    }
    putSplit(
      rows,
      {
        ...split,
        ...(isForward
          ? { phase: "reversible", routing_version_cutover: routing_version }
          : { routing_version_rollback: routing_version }),
        cutover_at: isForward ? occurred_at : split.cutover_at,
        state_version,
        committing: 1,
      },
      event,
    );
  },
};

/** The foldings of splits. */
export const SPLIT_FOLDS = {
  SplitPlanned: splitPlanned,
  SplitPhaseChanged: splitPhaseChanged,
  SplitWanted: splitWanted,
  SplitStepSettled: stepSettled,
  SplitCaughtUp: caughtUp,
  SplitCutOver: splitCutOver,
};
