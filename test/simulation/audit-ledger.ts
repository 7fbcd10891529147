import { GENESIS_HASH, hashedText, type RecordedEvent } from "../../src/work/envelope.ts";
import type { EventData, EventType } from "../../src/work/events.ts";
import type { TaskRef } from "../../src/work/run/protocol.ts";
import type { BackfillRow } from "../../src/work/backfill/rows.ts";
import { folded, Refold } from "../../src/engine/ledger/refold.ts";
import { nodeHash } from "../../src/engine/config.ts";
import type { Workspace } from "../../src/store/store.ts";
import { BackfillAudit } from "./audit-backfills.ts";
import { type RowDump, ScratchRows } from "./audit-rows.ts";
import { RunAudit } from "./audit-runs.ts";
import { ScheduleAudit } from "./audit-schedules.ts";
import { SensorAudit } from "./audit-sensors.ts";
import { MoveAudit } from "./audit-moves.ts";
import { SplitAudit } from "./audit-splits.ts";
import { AuditedProject } from "./audited-project.ts";
import { SegmentAudit } from "./audit-segments.ts";
import { SyncAudit } from "./audit-syncs.ts";
import { AuditedSyncs } from "./audited-syncs.ts";
import type { SimulatedChain } from "./simulated-chain.ts";
import type { Acknowledged } from "./simulated-client.ts";
import type { Stored } from "./simulated-database.ts";
import type { KeptMessage } from "./simulated-sender.ts";
import type { StoredAt } from "./simulated-syncs.ts";
import type { Violations } from "./violations.ts";

/** Everything the auditor looks at. */
export type Evidence = {
  events: readonly RecordedEvent[];
  workspace: Workspace;
  /** Commands and reports that somebody was told are recorded. */
  acknowledged: readonly Acknowledged[];
  recorded: readonly TaskRef[];
  /** Tasks that workers were given. */
  granted: readonly (TaskRef & { worker_id: string })[];
  /** Messages that senders were told are kept, and the items that a sensor could see. */
  kept: readonly KeptMessage[];
  items: number;
  /** The chains, the transactions of those who copy them, and how many there were by position. */
  chains: readonly SimulatedChain[];
  stored: readonly Stored[];
  storedAt: readonly StoredAt[];
  /** The rows at the end. */
  live: RowDump;
};

/** An event with its data parsed. */
export type Audited<Type extends EventType = EventType> = {
  [Each in Type]: { type: Each; data: EventData<Each>; pos: number; occurred_at: string };
}[Type];

/**
 * Reads the ledger from its beginning with an understanding of its own, which shares nothing with
 * the fold, and compares with the rows of a refold after every single event.
 */
export async function auditLedger(evidence: Evidence, violations: Violations): Promise<void> {
  auditChain(evidence, violations);
  auditKeys(evidence.events, violations);
  auditAcknowledged(evidence, violations);
  const project = new AuditedProject();
  const backfills = new BackfillAudit(project, violations);
  const runs = new RunAudit(evidence.workspace, project, backfills, violations);
  const schedules = new ScheduleAudit(backfills, violations);
  const sensors = new SensorAudit(violations);
  const known = new AuditedSyncs(evidence, violations);
  const syncs = new SyncAudit(known, violations);
  const segments = new SegmentAudit(known, violations);
  const auditors = { project, backfills, runs, schedules, sensors, known, syncs, segments };
  const splits = new SplitAudit(violations);
  const moves = new MoveAudit(violations);
  const scratch = new ScratchRows();
  const refold = new Refold(scratch);
  for (const event of evidence.events) {
    const audited = parsed(event);
    try {
      known.catchUp(event.pos);
      dispatch(audited, { ...auditors, splits }, violations);
      moves.see(audited);
    } catch (error) {
      violations.add("I11", `event ${event.pos} (${event.type}) is out of place: ${String(error)}`);
      return;
    }
    await refold.fold([folded(event)]).catch((error: unknown) => {
      violations.add("I11", `event ${event.pos} (${event.type}) does not fold: ${String(error)}`);
    });
    compareCounters(audited, backfills, scratch, violations);
    syncs.compareRows(audited, scratch);
    splits.compareRows(audited, scratch);
    moves.compareRows(audited, scratch);
  }
  backfills.auditEnd();
  runs.auditEnd(evidence.live);
  schedules.auditEnd();
  schedules.auditRows(evidence.live);
  sensors.auditEnd(evidence);
  syncs.auditEnd();
  auditRecorded(evidence, runs, violations);
}

function parsed(event: RecordedEvent): Audited {
  const { type, pos, occurred_at } = event;
  return { type, data: JSON.parse(event.data), pos, occurred_at } as Audited;
}

type Auditors = {
  project: AuditedProject;
  backfills: BackfillAudit;
  runs: RunAudit;
  schedules: ScheduleAudit;
  sensors: SensorAudit;
  known: AuditedSyncs;
  syncs: SyncAudit;
  segments: SegmentAudit;
  splits: SplitAudit;
};

function dispatch(event: Audited, auditors: Auditors, violations: Violations): void {
  const { project, backfills, runs, schedules, sensors, syncs, segments, splits } = auditors;
  backfills.expectNext(event);
  schedules.expectNext(event);
  sensors.expectNext(event);
  splits.expectNext(event);
  runs.expectKeys(event);
  switch (event.type) {
    case "DefinitionsPublished":
      project.published(event.data, violations);
      schedules.published(event);
      auditors.known.published(event);
      return sensors.published(event);
    case "PartitionKeysAdded":
      sensors.keysAdded(event);
      runs.keysAdded(event);
      return project.keysAdded(event.data, violations);
    case "PartitionKeysRemoved":
    case "PartitionKeysRestored": {
      const isBack = event.type === "PartitionKeysRestored";
      if (isBack) sensors.keysAdded(event);
      return project.keysRemoved(event.data, isBack, violations);
    }
    case "PartitionsReported":
    case "PartitionsForgotten":
      // Nobody in a simulation says that something was made elsewhere.
      return violations.check(false, "I36", `${event.type} at ${event.pos}`);
    case "BackfillCreated":
      return backfills.created(event, runs.materialized);
    case "KeysSurveyed":
      return backfills.surveyed(event);
    case "BackfillChunkPlanned":
      return backfills.planned(event);
    case "BackfillChunkSplit":
      return backfills.split(event);
    case "BackfillStateChanged":
      return backfills.stateChanged(event);
    case "BackfillWindowChanged":
      return backfills.windowChanged(event);
    case "BackfillRetuned":
      return backfills.retuned(event);
    case "RunRequested":
      runs.requested(event);
      schedules.requested(event);
      segments.requested(event);
      splits.see(event);
      return sensors.requested(event);
    case "RunStarted":
      return runs.runStarted(event);
    case "RunCancelRequested":
      return runs.cancelRequested(event);
    case "TasksStarted":
      runs.tasksStarted(event);
      splits.see(event);
      return segments.tasksStarted(event);
    case "TasksFinished":
      runs.tasksFinished(event);
      return segments.tasksFinished(event);
    case "TaskLeaseExpired":
      runs.leaseExpired(event);
      return segments.leaseExpired(event);
    case "TasksDeferred":
      return runs.tasksDeferred(event);
    case "TasksRequeued":
      return runs.tasksRequeued(event);
    case "AwaitedPartitionsMade":
      return runs.awaitedMade(event);
    case "RunFinished":
      runs.runFinished(event);
      segments.runFinished(event);
      splits.see(event);
      return schedules.runFinished(event);
    case "ScheduleTicked":
      return schedules.ticked(event);
    case "ScheduleTicksSkipped":
      return schedules.skipped(event);
    case "SchedulePaused":
      return schedules.paused(event);
    case "ScheduleResumed":
      return schedules.resumed(event);
    case "SensorMessageReceived":
      return sensors.received(event);
    case "SensorEvaluated":
      return sensors.evaluated(event);
    case "SensorPaused":
      return sensors.paused(event);
    case "SensorResumed":
      return sensors.resumed(event);
    case "SensorCursorReset":
      return sensors.reset(event);
    case "SyncsAdded":
      return syncs.added(event);
    case "SyncStateChanged":
      return syncs.stateChanged(event);
    case "SyncRetuned":
      return syncs.retuned(event);
    case "SyncHeadMoved":
      return syncs.headMoved(event);
    case "SyncHeadSet":
    case "SyncPlanCut":
      return syncs.setByHand(event);
    case "SyncRewritten":
      return syncs.rewritten(event);
    case "SyncSegmentsPlanned":
      return syncs.planned(event);
    case "SyncSegmentsReopened":
      return syncs.reopened(event);
    case "SyncSegmentExcluded":
      return syncs.excluded(event);
    case "SyncVerifyRequested":
      return syncs.verifyRequested(event);
    case "RoutingChanged":
    case "SplitPlanned":
    case "SplitPhaseChanged":
    case "SplitWanted":
    case "SplitStepSettled":
    case "SplitCaughtUp":
    case "SplitCutOver":
      return splits.see(event);
    case "MovePlanned":
    case "MoveStateChanged":
    case "MoveRetuned":
    case "MoveSegmentsPlanned":
    case "MoveSegmentSplit":
    case "MoveSegmentChanged":
    case "MoveVerifyRequested":
    case "MoveChecked":
      // Those are for the audit of moves, which sees everything.
      return undefined;
    default:
      return event satisfies never;
  }
}

/** Positions without a gap, and every hash what it should be. */
function auditChain({ events, workspace }: Evidence, violations: Violations): void {
  let hash = GENESIS_HASH;
  let at = "";
  for (const [index, event] of events.entries()) {
    const { pos, occurred_at } = event;
    violations.check(occurred_at >= at, "I18", `event ${pos} is before the one that it follows`);
    at = occurred_at;
    violations.check(event.pos === index + 1, "I2", `position ${event.pos} is number ${index + 1}`);
    violations.check(event.prev_hash === hash, "I8", `event ${event.pos} does not follow`);
    const text = hashedText(workspace.tenant_id, workspace.workspace_id, event);
    hash = nodeHash.sha256(text);
    violations.check(event.hash === hash, "I8", `event ${event.pos} has another hash`);
  }
}

/** An idempotency key is used once in the whole ledger. */
function auditKeys(events: readonly RecordedEvent[], violations: Violations): void {
  const seen = new Map<string, number>();
  for (const { idempotency_key, pos } of events) {
    const before = seen.get(idempotency_key);
    if (before !== undefined) {
      violations.add("I5", `events ${before} and ${pos} share the key ${idempotency_key}`);
    }
    seen.set(idempotency_key, pos);
  }
}

/** Nothing that somebody was told is missing; what was decided together stands together. */
function auditAcknowledged({ events, acknowledged }: Evidence, violations: Violations): void {
  const posOf = new Map(events.map(({ event_id, pos }) => [event_id, pos]));
  for (const { operation, event_ids, expected } of acknowledged) {
    const places = event_ids.map((id) => posOf.get(id));
    violations.check(
      !places.includes(undefined),
      "I3",
      `${operation} was acknowledged and is gone`,
    );
    const inOrder = places.every((pos, index) => pos === (places[0] ?? 0) + index);
    violations.check(inOrder, "I4", `the events of ${operation} are apart: ${places.join()}`);
    const event = events[(places[0] ?? 0) - 1];
    if (expected === null || event === undefined || event.type.startsWith("Run")) continue;
    // What was due is decided before the change itself.
    const change = places.map((pos) => events[(pos ?? 0) - 1]).find((each) => hasVersion(each));
    const { state_version } = JSON.parse(change?.data ?? "{}") as { state_version?: number };
    violations.check(
      state_version === expected + 1,
      "I7",
      `${operation} expected version ${expected} and made ${state_version}`,
    );
  }
}

function hasVersion(event: RecordedEvent | undefined): boolean {
  return event?.data.includes('"state_version":') ?? false;
}

/** What workers were told is recorded is there, and was theirs to say. */
function auditRecorded(evidence: Evidence, runs: RunAudit, violations: Violations): void {
  const { recorded, granted } = evidence;
  for (const { run_pos, task_key, attempt, worker_id } of granted) {
    const name = `${run_pos}/${task_key}/${attempt}`;
    const holder = runs.holderOf.get(name);
    const what = `task ${name} was given to ${worker_id}, and is ${holder}'s`;
    violations.check(holder === worker_id, "I34", what);
  }
  for (const { run_pos, task_key, attempt } of recorded) {
    const name = `${run_pos}/${task_key}/${attempt}`;
    if (runs.takenBack.has(name)) {
      violations.add("I35", `task ${name} was taken back, and its report recorded nevertheless`);
    } else if (!runs.reported.has(name)) {
      violations.add("I3", `the report of task ${name} is gone`);
    }
  }
}

/** The refolded row of a backfill has the counters that the auditor counted. */
function compareCounters(
  { data, pos }: Audited,
  backfills: BackfillAudit,
  scratch: ScratchRows,
  violations: Violations,
): void {
  const id = "backfill_id" in data ? data.backfill_id : null;
  const backfill = id === null ? undefined : backfills.byId.get(id);
  // Between an ended run and the split beside it a chunk is neither here nor there.
  if (id === null || backfill === undefined || backfills.isWithinDecision) return;
  const text = scratch.text("backfills", id);
  if (text === null) return;
  const row = JSON.parse(text) as BackfillRow & Record<string, number>;
  const expected: Record<string, unknown> = {
    ...backfill.counters(),
    state: backfill.state,
    state_version: backfill.version,
  };
  for (const [counter, value] of Object.entries(expected)) {
    if (row[counter] === value) continue;
    const what = `${counter} of ${id} at ${pos} is ${row[counter]}, not ${String(value)}`;
    violations.add("I33", what);
  }
}
