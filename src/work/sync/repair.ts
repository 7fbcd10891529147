import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SegmentRow, SegmentStatus, SyncRow, SyncState } from "./rows.ts";
import { checkLegal, type CommandTable, type Subject } from "../command.ts";
import { type SyncChanged, syncCommand, type SyncCommand, syncChanged } from "./commands.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Decide, DECISION_EVENTS_MAX } from "../decision.ts";
import { tilingFault } from "./advance.ts";
import {
  knownDefinition,
  segmentsWithin,
  stopRuns,
  syncedTo,
  syncReopened,
  syncStateChanged,
} from "./look-up.ts";
import { type Reopenable, REOPENED_MAX, reopenable, reopenSegments } from "./reopen.ts";
import { SEGMENT_RULES, SYNC_RULES, type SyncFacts } from "./rules.ts";

/** Most segments that one repair or verification is about. */
const SEGMENTS_MAX = 50_000;
/** Most segments that one event asks to be verified. */
const VERIFIED_IN_EVENT_MAX = 10_000;

/** Where a sync stands, and how many of its segments a command was about. */
export type SegmentsChanged = SyncChanged & { segments: number };

/** The blocks of a command that are planned; refuses a range that meets none. */
function rangeWithin(
  sync: SyncRow,
  from: number | undefined,
  to: number | undefined,
): { from: number; to: number } {
  const planned = sync.planned_to ?? sync.from_block - 1;
  const range = {
    from: Math.max(from ?? sync.from_block, sync.from_block),
    to: Math.min(to ?? planned, planned),
  };
  if (from !== undefined && to !== undefined && from > to) {
    throw new PawlError("INPUT_INVALID", `The range begins at ${from} and ends at ${to}.`);
  }
  if (range.from <= range.to) return range;
  const has =
    sync.planned_to === null
      ? "has nothing planned yet"
      : `has ${sync.from_block} to ${sync.planned_to}`;
  throw new PawlError(
    "SELECTION_EMPTY",
    `Sync ${sync.name}@${sync.target_key} ${has}: nothing of the range is there.`,
    { details: { from_block: from, to_block: to, planned_to: sync.planned_to } },
  );
}

/** Has a range fetched again, and what was stored of it undone. */
const repair = syncCommand(
  SYNC_RULES.repair,
  (sync, said: SyncCommand & { from_block: number; to_block: number }, rows, context) => {
    const range = rangeWithin(sync, said.from_block, said.to_block);
    const found = reopenable(rows, sync, range, SEGMENTS_MAX);
    refuseTooMuch(sync, found);
    if (found.segments.length === 0) {
      return { events: [], result: { ...syncChanged(sync, sync.state, 0), segments: 0 } };
    }
    const { principal } = context;
    const cause = {
      cause: "repair",
      reason: said.reason ?? `${principal} had it fetched again`,
      changed_by: principal,
      undo: true,
      rewrites_seen: null,
    } as const;
    const events = reopenSegments(rows, sync, range, found, cause, context);
    return reopened(sync, events, cause.reason, found.segments.length);
  },
);

/** A repair is one decision: none of it may be left for later, as nobody would remember it. */
function refuseTooMuch(sync: SyncRow, { segments, runs, isAll }: Reopenable): void {
  // Each run that is stopped may take two events.
  const most = Math.floor((DECISION_EVENTS_MAX - 1 - SEGMENTS_MAX / REOPENED_MAX) / 2);
  if (isAll && runs.size <= most && segments.length <= SEGMENTS_MAX) return;
  const fault = isAll
    ? `${runs.size} segments of the range are being fetched, more than the ${most} that can be ` +
      "stopped at once. Pause the sync first, or repair a smaller range."
    : `the range has more than ${SEGMENTS_MAX} segments. Repair one part after the other.`;
  throw new PawlError("SELECTION_TOO_LARGE", `Of ${sync.name}@${sync.target_key}, ${fault}`, {
    details: { segments: segments.length, active: runs.size },
  });
}

function reopened(sync: SyncRow, events: NewEvent[], reason: string, segments: number) {
  const again = syncReopened(sync, reason);
  const state = again.length > 0 ? "RUNNING" : sync.state;
  const result = { ...syncChanged(sync, state, again.length), segments };
  return { events: [...events, ...again], result };
}

/** The segment that was quarantined, of a command; refuses any other. */
function setAsideSegment(
  rows: Rows,
  sync: SyncRow,
  segmentIndex: number,
  name: keyof typeof SEGMENT_RULES,
): SegmentRow {
  const segment = rows.segments.get(sync.sync_id, segmentIndex);
  const title = `sync ${sync.name}@${sync.target_key}`;
  if (segment === null) {
    throw new PawlError(
      "SEGMENT_NOT_FOUND",
      `There is no segment ${segmentIndex} of ${title}. \`pawl sync show\` lists those there are.`,
      { details: { sync_id: sync.sync_id, segment_index: segmentIndex } },
    );
  }
  checkLegal(segmentOf(title), SEGMENT_RULES[name], segment, segment);
  return segment;
}

function segmentOf(title: string): Subject<SegmentRow, SegmentStatus> {
  return {
    title: ({ segment_index, from_block, to_block }) =>
      `Segment ${segment_index} (${from_block} to ${to_block}) of ${title}`,
    stateOf: ({ status }) => status,
    details: ({ segment_index, status }) => ({ segment_index, status }),
  };
}

/** Tries a segment again that was quarantined. */
const retry = syncCommand(
  SYNC_RULES.retry,
  (sync, said: SyncCommand & { segment_index: number }, rows, context) => {
    const segment = setAsideSegment(rows, sync, said.segment_index, "retry");
    const { principal } = context;
    const cause = {
      cause: "retry",
      reason: said.reason ?? `${principal} had it tried again`,
      changed_by: principal,
      undo: false,
      rewrites_seen: null,
    } as const;
    const range = { from: segment.from_block, to: segment.to_block };
    const found = { segments: [segment], runs: new Map(), isAll: true };
    const opened = reopenSegments(rows, sync, range, found, cause, context);
    const { events, result } = reopened(sync, opened, cause.reason, 1);
    const { segments: _, ...changed } = result;
    return { events, result: changed };
  },
);

/** Lets a quarantined segment stay unfetched, with a record of who said so. */
const exclude = syncCommand(
  SYNC_RULES.exclude,
  (sync, said: SyncCommand & { segment_index: number; reason: string }, rows, { principal }) => {
    const { sync_id } = sync;
    const segment = setAsideSegment(rows, sync, said.segment_index, "exclude");
    const { segment_index, generation } = segment;
    const event: NewEvent = {
      type: "SyncSegmentExcluded",
      idempotency_key: IDEMPOTENCY_KEYS.syncExclude(sync_id, segment_index, generation),
      data: {
        sync_id,
        segment_index,
        generation,
        reason: said.reason,
        changed_by: principal,
        synced_to: syncedTo(rows, sync, { completing: segment_index }),
      },
    };
    return { events: [event], result: syncChanged(sync, sync.state, 0) };
  },
);

type VerifiedRange = {
  from_block?: number | undefined;
  to_block?: number | undefined;
  repair: boolean;
};

/** Has complete segments verified, and with `repair` those fetched again that do not pass. */
const verify = syncCommand(
  SYNC_RULES.verify,
  (sync, said: SyncCommand & VerifiedRange, rows, { principal }) => {
    const { sync_id, name, target_key } = sync;
    if (!knownDefinition(rows, name).spec.has.verify) {
      throw new PawlError(
        "STATE_ILLEGAL",
        `The sync ${name} has no function verify. Give it one and publish it with \`pawl deploy\`.`,
        { details: { sync: name } },
      );
    }
    const range = rangeWithin(sync, said.from_block, said.to_block);
    const indexes = verifiable(rows, sync, range);
    if (indexes.length === 0) {
      throw new PawlError(
        "SELECTION_EMPTY",
        `Of sync ${name}@${target_key}, nothing from ${range.from} to ${range.to} is complete and ` +
          "not being verified already.",
        { details: { from_block: range.from, to_block: range.to } },
      );
    }
    const events: NewEvent[] = [];
    for (let at = 0; at < indexes.length; at += VERIFIED_IN_EVENT_MAX) {
      const n = sync.verifications + events.length + 1;
      const segments = indexes.slice(at, at + VERIFIED_IN_EVENT_MAX);
      events.push({
        type: "SyncVerifyRequested",
        idempotency_key: IDEMPOTENCY_KEYS.syncVerify(sync_id, n),
        data: { sync_id, n, segments, repair: said.repair, changed_by: principal },
      });
    }
    return { events, result: { ...syncChanged(sync, sync.state, 0), segments: indexes.length } };
  },
);

/** What is complete, was really fetched, and is not being verified at this moment. */
function verifiable(rows: Rows, sync: SyncRow, range: { from: number; to: number }): number[] {
  const indexes: number[] = [];
  for (const page of segmentsWithin(rows, sync.sync_id, range.from, range.to)) {
    for (const { segment_index, status, excluded, verification } of page) {
      const isFetched = status === "COMPLETE" && excluded === null;
      if (isFetched && verification?.status !== "RUNNING") indexes.push(segment_index);
    }
  }
  return indexes;
}

/** What can be asked of a sync about its segments. */
export const SYNC_SEGMENT_COMMANDS = { verify, repair, retry, exclude } satisfies CommandTable<
  SyncFacts,
  SyncState
>;

export const verifySync = verify.decide;
export const repairSync = repair.decide;
export const retrySegment = retry.decide;
export const excludeSyncSegment = exclude.decide;

/** Segments that one look-up of an audit brings. */
export const AUDIT_PAGE = 2_000;

/** The order in which segments tile a range; of several with one beginning, which none should have. */
export const BY_BLOCK = [{ cell: "from_block" }, { cell: "segment_index" }];

/** What is wrong with a sync by all its segments, in order of their blocks; null when nothing is. */
export function syncFault(sync: SyncRow, segments: readonly SegmentRow[]): string | null {
  const fault = tilingFault(segments, sync.from_block, sync.planned_to);
  if (fault !== null) return fault;
  if (segments.length !== sync.segments_total) {
    return `there are ${segments.length} segments, and ${sync.segments_total} are counted`;
  }
  const open = segments.find(({ status }) => status !== "COMPLETE");
  if (open === undefined || sync.synced_to < open.from_block) return null;
  return (
    `it counts as synced to ${sync.synced_to}, but segment ${open.segment_index} ` +
    `(${open.from_block} to ${open.to_block}) is ${open.status}`
  );
}

/** The segments of a sync that follow one of them, or all. */
export function segmentsAfter(syncId: string, last: SegmentRow | undefined): Condition[] {
  const own: Condition = { cell: "sync_id", is: "=", value: syncId };
  if (last === undefined) return [own];
  const key = [last.from_block, last.segment_index];
  return [own, { cells: ["from_block", "segment_index"], is: "after", key }];
}

function segmentsIn(rows: Rows, syncId: string): SegmentRow[] {
  const segments: SegmentRow[] = [];
  for (;;) {
    const where = segmentsAfter(syncId, segments.at(-1));
    const page = rows.segments.find(where, BY_BLOCK, AUDIT_PAGE);
    segments.push(...page);
    if (page.length < AUDIT_PAGE) return segments;
  }
}

/** Pauses a sync whose segments are not whole, and answers what is wrong; null when nothing is. */
export function pauseFaulty(syncId: string): Decide<string | null> {
  return (rows, context) => {
    const sync = rows.syncs.get(syncId);
    if (sync === null || sync.state === "REMOVED") return { events: [], result: null };
    const fault = syncFault(sync, segmentsIn(rows, syncId));
    if (fault === null || sync.state === "PAUSED") return { events: [], result: fault };
    const reason = `its segments do not add up: ${fault}`;
    const paused = syncStateChanged(sync, "PAUSED", { reason });
    return { events: [paused, ...stopRuns(rows, sync, false, context)], result: fault };
  };
}
