import { type Condition, type Key, keyText, type Order } from "../../kernel/table.ts";
import type { DefinitionRow } from "../definition/rows.ts";
import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import { entitySubject } from "../keys.ts";
import type {
  Cause,
  ControlledWork,
  KindStories,
  Question,
  RowReader,
  Story,
  StoryReader,
  Unfinished,
  WorkKind,
} from "../kind.ts";
import type { Rows } from "../rows.ts";
import { EVENTS_MAX, eventAt, eventsOfRun } from "../run/story.ts";
import { segmentOfRun } from "../run/tasks.ts";
import { advanceSync } from "./advance.ts";
import { SEGMENT_RUNS } from "./fold-segments.ts";
import { claimedSegment, SyncSlots } from "./request.ts";
import { SEGMENTS, type SegmentRow, SYNCS, type SyncRow, type SyncSourceRow } from "./rows.ts";
import { checkSegmentReport, segmentEnd } from "./settle.ts";
import type { SyncSpec } from "./spec.ts";

/** What is told of a sync; its segments have stories of their own. */
const TOLD_OF_SYNC = [
  "SyncStateChanged",
  "SyncRetuned",
  "SyncSegmentsPlanned",
  "SyncSegmentsReopened",
];

/** The sync with this id, or the living one that is `name@target_key`; null when there is none. */
async function syncAt(reader: RowReader, idOrRef: string): Promise<SyncRow | null> {
  const at = idOrRef.indexOf("@");
  if (at < 0) return (await reader.load(SYNCS, [[idOrRef]]))[0] ?? null;
  const [row] = await reader.find({
    table: SYNCS,
    where: [
      { cell: "name", is: "=", value: idOrRef.slice(0, at) },
      { cell: "target_key", is: "=", value: idOrRef.slice(at + 1) },
      { cell: "state", is: "<>", value: "REMOVED" },
    ],
    order: [{ cell: "sync_id" }],
    limit: 1,
  });
  return row ?? null;
}

/** The segment with an id such as `{sync_id}:{segment_index}`; null when there is none. */
export async function segmentAt(reader: RowReader, segmentId: string): Promise<SegmentRow | null> {
  const [, syncId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (syncId === undefined) return null;
  const rows = await reader.load(SEGMENTS, [[syncId, Number(index)]]);
  return rows[0] ?? null;
}

/** How a sync came to where it stands. */
async function syncStory(reader: StoryReader, sync: SyncRow): Promise<Story> {
  const subjects = [entitySubject(sync.sync_id)];
  const turns = await reader.events({ after: 0, subjects, types: TOLD_OF_SYNC, limit: EVENTS_MAX });
  return [...(await eventAt(reader, sync.created_pos)), ...turns];
}

/** How a segment came to where it stands, but for its run: its plan, and what opened it again. */
async function segmentStory(
  reader: StoryReader,
  sync: SyncRow,
  { segment_index: index }: SegmentRow,
): Promise<Story> {
  const own = await reader.events({
    after: 0,
    subjects: [entitySubject(sync.sync_id)],
    types: [
      "SyncSegmentsPlanned",
      "SyncSegmentsReopened",
      "SyncSegmentExcluded",
      "SyncVerifyRequested",
    ],
    limit: EVENTS_MAX,
  });
  const about = own.filter((event) => isAbout(event, index));
  return [...(await eventAt(reader, sync.created_pos)), ...about];
}

function isAbout({ type, data: text }: RecordedEvent, index: number): boolean {
  switch (type) {
    case "SyncSegmentsPlanned": {
      const { first_index, ends } = JSON.parse(text) as EventData<"SyncSegmentsPlanned">;
      return index >= first_index && index < first_index + ends.length;
    }
    case "SyncSegmentsReopened": {
      const { segments, splits } = JSON.parse(text) as EventData<"SyncSegmentsReopened">;
      const tiles = splits.flatMap((split) => split.tiles);
      return [...segments, ...tiles].some(({ segment_index }) => segment_index === index);
    }
    case "SyncVerifyRequested":
      return (JSON.parse(text) as EventData<"SyncVerifyRequested">).segments.includes(index);
    default:
      return (JSON.parse(text) as EventData<"SyncSegmentExcluded">).segment_index === index;
  }
}

async function ofSegment(
  reader: StoryReader,
  id: string,
): Promise<{ story: Story; run_id: string | null } | null> {
  const segment = await segmentAt(reader, id);
  const sync = segment === null ? null : await syncAt(reader, segment.sync_id);
  if (segment === null || sync === null) return null;
  return { story: await segmentStory(reader, sync, segment), run_id: segment.run_id };
}

/** Stories of syncs, and of their segments as `<sync>:<index>`. */
export const SYNC_STORIES: KindStories = {
  async byId(reader, id) {
    const found = await ofSegment(reader, id);
    return found === null ? null : [...found.story, ...(await eventsOfRun(reader, found.run_id))];
  },
  async byName(reader, idOrRef) {
    const row = await syncAt(reader, idOrRef);
    return row === null ? null : syncStory(reader, row);
  },
  async origin(reader, { trigger_source_ref: source }) {
    if (source.type !== "sync") return [];
    return (await ofSegment(reader, `${source.sync_id}:${source.segment_index}`))?.story ?? [];
  },
};

const BY_ID: Order[] = [{ cell: "sync_id" }];
/** Definitions that are gone through. */
const DEFINITIONS_MAX = 10_000;

const isState = (...values: SyncRow["state"][]): Condition => ({ cell: "state", is: "in", values });

const isNamed = (name: string): Condition => ({ cell: "name", is: "=", value: name });

const LIVING: Condition = { cell: "state", is: "<>", value: "REMOVED" };

/** The syncs that are not whole, of which there may be any number. */
const NOT_WHOLE: Condition = isState("PENDING", "RUNNING");

/**
 * Of the syncs that are whole or stand still, at most so many of each sort whose rows say that something
 * was left undone.
 */
function leftUndone(rows: Rows, limit: number): string[] {
  const ids = new Set<string>();
  const add = (...where: Condition[]): void => {
    for (const { sync_id } of rows.syncs.find(where, BY_ID, limit)) ids.add(sync_id);
  };
  add(isState("FOLLOWING"), { cell: "segments_pending", is: ">", value: 0 });
  add({ cell: "verify_waiting", is: ">", value: 0 }, LIVING);
  const specs = specsOf(rows);
  for (const [name, { to }] of specs) {
    // Of a range that was fixed and is no more, or ends later than it did.
    const own: Condition = { cell: "to_limit", is: "null" };
    const grown: Condition[] = to === null ? [] : [{ cell: "planned_to", is: "<", value: to }];
    add(isNamed(name), isState("COMPLETE"), own, ...grown);
  }
  for (const id of stoppedSyncs(rows, limit)) ids.add(id);
  return [...ids];
}

/** How far sources and definitions were gone through: what has not changed since is in order. */
type SyncsSwept = { sources?: number; definitions?: number };

/**
 * The questions that the syncs answer which their sources have left behind, of at most so many sources
 * that changed since, and what is gone through with them. There may be thousands of sources, so each
 * is a question by itself.
 */
function questionsBehind(
  rows: Rows,
  swept: SyncsSwept,
  limit: number,
): { questions: Question[]; swept: SyncsSwept } {
  const specs = specsOf(rows);
  const definitions = definitionsOf(rows).reduce((max, one) => Math.max(max, one.row_version), 0);
  const since = definitions > (swept.definitions ?? 0) ? 0 : (swept.sources ?? 0);
  const changed: Condition = { cell: "row_version", is: ">", value: since };
  const sources = rows.syncSources.find([changed], [{ cell: "row_version" }], limit);
  const questions = sources.flatMap((source) => questionsOf(source, specs.get(source.name)));
  return { questions, swept: { sources: sources.at(-1)?.row_version ?? since, definitions } };
}

function questionsOf(
  { name, source, head, rewrites }: SyncSourceRow,
  spec: SyncSpec | undefined,
): Question[] {
  if (spec === undefined) return [];
  const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
  const behind: Condition = { cell: "planned_to", is: "<", value: head - spec.finality };
  const unseen: Condition = { cell: "rewrites_seen", is: "<", value: rewrites };
  return [
    { where: [...own, isState("FOLLOWING"), behind] },
    ...(rewrites === 0
      ? []
      : [{ where: [...own, isState("FOLLOWING", "COMPLETE", "PAUSED"), unseen] }]),
  ];
}

/**
 * The syncs that have not changed since their definition did: whoever published it may have died
 * before each of them was looked at. Worth a look once, when a server starts.
 */
export function unseenSyncs(rows: Rows, limit: number): string[] {
  const definitions = definitionsOf(rows);
  const names = definitions.map(({ name }) => name);
  const gone: Condition[] = [
    { cell: "name", is: "not in", values: names },
    { cell: "origin", is: "=", value: "code" },
  ];
  const older = definitions.map(({ name, row_version }): Condition[] => [
    isNamed(name),
    { cell: "row_version", is: "<", value: row_version },
  ]);
  return [gone, ...older].flatMap((where) =>
    rows.syncs.find([...where, LIVING], BY_ID, limit).map(({ sync_id }) => sync_id),
  );
}

/** Syncs that stand still while some of their runs may not have been told. */
function stoppedSyncs(rows: Rows, limit: number): string[] {
  const running = rows.segments.find(
    [{ cell: "run_pos", is: "not null" }],
    [{ cell: "sync_id" }, { cell: "segment_index" }],
    limit,
  );
  const ids = [...new Set(running.map(({ sync_id }) => sync_id))];
  rows.syncs.need(ids.map((id): Key => [id]));
  return ids.filter((id) => {
    const state = rows.syncs.get(id)?.state;
    return state === "PAUSED" || state === "REMOVED";
  });
}

function specsOf(rows: Rows): Map<string, SyncSpec> {
  const definitions = definitionsOf(rows);
  rows.specs.need(definitions.map(({ spec_hash }): Key => [spec_hash]));
  return new Map(
    definitions.flatMap(({ name, spec_hash }) => {
      const body = rows.specs.get(spec_hash)?.body;
      return body?.kind === "sync" ? [[name, body] as const] : [];
    }),
  );
}

function definitionsOf(rows: Rows): DefinitionRow[] {
  const ofSyncs: Condition = { cell: "kind", is: "=", value: "sync" };
  return rows.definitions.find([ofSyncs], [{ cell: "name" }], DEFINITIONS_MAX);
}

/** A source that moved is a reason to look at its syncs; those that rest may lie above a fork. */
const SOURCE: Cause<"syncSources"> = {
  table: "syncSources",
  questions({ name, source, rewrites }) {
    const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
    const active = [...own, isState("PENDING", "RUNNING", "FOLLOWING")];
    if (rewrites === 0) return [{ where: active }];
    const unseen: Condition = { cell: "rewrites_seen", is: "<", value: rewrites };
    return [{ where: active }, { where: [...own, isState("COMPLETE", "PAUSED"), unseen] }];
  },
};

/** What was left undone, of whatever changed since the last sweep. */
export function unfinishedSyncs(
  rows: Rows,
  before: SyncsSwept | null,
  limit: number,
): Unfinished<SyncsSwept> {
  const { questions, swept } = questionsBehind(rows, before ?? {}, limit);
  const unseen = before === null ? unseenSyncs(rows, limit) : [];
  return { keys: [...leftUndone(rows, limit), ...unseen], questions, swept };
}

function needForSyncs(rows: Rows, ids: readonly string[]): void {
  rows.syncs.need(ids.map((id): Key => [id]));
  const sources = new Map<string, Key>();
  for (const id of ids) {
    const sync = rows.syncs.get(id);
    if (sync === null) continue;
    const key: Key = [sync.name, sync.source];
    sources.set(keyText(key), key);
  }
  rows.syncSources.need([...sources.values()]);
}

const WORK: ControlledWork<"syncs", SyncsSwept> = {
  table: "syncs",
  advance: advanceSync,
  weight: 5,
  // A plan, its runs, and that nothing is left.
  rounds: 4,
  // Each look reads some of its segments, and one plan writes hundreds.
  most: 200,
  rowsMost: 700,
  open: [{ where: [NOT_WHOLE] }],
  page: 10_000,
  unfinished: unfinishedSyncs,
  causes: [SOURCE],
  published: ({ kind, name }) => (kind === "sync" ? { where: [isNamed(name), LIVING] } : null),
  need: needForSyncs,
};

/** Blocks of a source, in segments without a gap, up to its head. */
export const SYNC: WorkKind = {
  name: "sync",
  runs: {
    ...SEGMENT_RUNS,
    owns: ({ trigger_source_ref: { type } }) => type === "sync",
    limit: (rows) => new SyncSlots(rows),
    claimed(rows, run, asset) {
      const segment = claimedSegment(rows, run, asset);
      return segment === null ? null : { segment };
    },
    needReported(rows, runs) {
      const refs = runs.flatMap((run) => segmentOfRun(run) ?? []);
      rows.segments.need(refs.map(({ sync_id, segment_index }): Key => [sync_id, segment_index]));
      rows.syncs.need(refs.map(({ sync_id }): Key => [sync_id]));
      const syncs = refs.flatMap(({ sync_id }) => rows.syncs.get(sync_id) ?? []);
      rows.syncSources.need(syncs.map(({ name, source }): Key => [name, source]));
    },
    checkReport(rows, run, reported) {
      const ref = segmentOfRun(run);
      return ref === null ? reported : checkSegmentReport(rows, ref, reported);
    },
    kept: ({ segment }) => (segment === undefined ? {} : { segment }),
    ended(rows, { run, outcome }, context) {
      const { end, after } = segmentEnd(rows, run, outcome, context);
      return { fields: { segment_end: end }, after };
    },
  },
  work: WORK,
  stories: SYNC_STORIES,
};
