import type { EventData, NewEvent } from "../events.ts";
import { epochMsOf, type Instant } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { type EntitySpec, type Spec, nameOfSpec } from "./published-spec.ts";
import type { DefinitionRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Key } from "../../kernel/table.ts";
import { needAssets } from "../asset/look-up.ts";
import { schedulePaused, scheduleResumed } from "../schedule/commands.ts";
import { type Context, contextAfter, type Decide, DECISION_EVENTS_MAX } from "../decision.ts";
import { nextTick, scheduleTimes } from "../schedule/times.ts";
import { closeTimes, scheduleSpec } from "../schedule/tick.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { assert, PawlError } from "../../kernel/errors.ts";
import { longPart, validateLengths, validateSpecs } from "./validate.ts";
import { publishSyncs, type SyncPublication } from "../sync/commands.ts";

/** What publishing one spec needs besides it: events before and after, and the id it goes by. */
export type EntityPublication = {
  before: NewEvent[];
  entity: NonNullable<EventData<"DefinitionsPublished">["specs"][number]["entity"]>;
  after: NewEvent[];
};

/** Whether the spec is of something that acts by itself. */
export function isEntitySpec(spec: Spec): spec is EntitySpec {
  return spec.kind === "schedule" || spec.kind === "sensor" || spec.kind === "webhook";
}

/**
 * What it takes to publish something that acts by itself: a new one gets an id; a schedule that
 * changes has its times so far decided first; a change of `enabled` pauses or resumes.
 */
export function publishEntity(
  rows: Rows,
  spec: EntitySpec,
  current: DefinitionRow | null,
  context: Context,
  isInBudget: boolean,
): EntityPublication {
  const id = current?.entity_id ?? null;
  if (id === null) {
    const fresh = context.newId();
    const next = firstTick(spec, fresh, context.now, context);
    return { before: [], entity: { id: fresh, next }, after: [] };
  }
  const before = closeEntity(rows, spec.kind, id, context, isInBudget);
  const decided = spec.kind === "schedule" ? rows.schedules.get(id)?.ticked_through : undefined;
  const next = firstTick(spec, id, decided ?? context.now, context);
  return { before, entity: { id, next }, after: switched(rows, spec, id, next) };
}

/** Has all loaded that publishing looks at of those that act by themselves, with few loads. */
export function needEntities(rows: Rows, definitions: readonly DefinitionRow[]): void {
  const keysOf = (kind: string) =>
    definitions.flatMap((row): Key[] =>
      row.kind === kind && row.entity_id !== null ? [[row.entity_id]] : [],
    );
  const scheduleKeys = keysOf("schedule");
  const sensorKeys = keysOf("sensor");
  rows.schedules.need(scheduleKeys);
  rows.sensors.need(sensorKeys);
  const schedules = scheduleKeys.flatMap((key) => rows.schedules.get(...key) ?? []);
  const sensors = sensorKeys.flatMap((key) => rows.sensors.get(...key) ?? []);
  rows.specs.need([...schedules, ...sensors].map(({ spec_hash }) => [spec_hash]));
  rows.backfills.need(
    schedules.flatMap(({ last_backfill_id: id }): Key[] => (id === null ? [] : [[id]])),
  );
  const assetKeys = schedules.flatMap((row) => scheduleSpec(rows, row).asset_selection);
  needAssets(rows, [...new Set(assetKeys)]);
}

/** What has to be recorded before something that acts by itself changes or goes. */
export function closeEntity(
  rows: Rows,
  kind: string,
  id: string,
  context: Context,
  isInBudget: boolean,
): NewEvent[] {
  const schedule = kind === "schedule" ? rows.schedules.get(id) : null;
  return schedule === null ? [] : closeTimes(rows, schedule, context, isInBudget);
}

/** The first time under the new definition: after now, and after all that was ever decided. */
function firstTick(spec: EntitySpec, id: string, decided: Instant, { now, hash }: Context) {
  if (spec.kind !== "schedule") return null;
  return nextTick(scheduleTimes(spec, id, hash), epochMsOf(decided > now ? decided : now));
}

/** The pause or the resumption that a changed `enabled` means. */
function switched(
  rows: Rows,
  spec: EntitySpec,
  id: string,
  next: EntityPublication["entity"]["next"],
): NewEvent[] {
  if (spec.kind === "webhook") return [];
  const row = spec.kind === "schedule" ? rows.schedules.get(id) : rows.sensors.get(id);
  assert(row !== null, `${spec.name} exists when it is published again`);
  const body = rows.specs.get(row.spec_hash)?.body;
  const wasEnabled = body !== undefined && isEntitySpec(body) && body.enabled;
  if (wasEnabled === spec.enabled) return [];
  // The publish itself adds one to the version, and this another.
  const state_version = row.state_version + 2;
  const reason = "enabled was set to false";
  const isPaused = row.state === "PAUSED";
  if (isPaused !== spec.enabled) return [];
  if ("schedule_id" in row) {
    return [
      isPaused
        ? scheduleResumed(row, state_version, next)
        : schedulePaused(row, state_version, reason),
    ];
  }
  const { sensor_id } = row;
  const idempotency_key = IDEMPOTENCY_KEYS.entityState("sensor", sensor_id, state_version);
  return [
    isPaused
      ? { type: "SensorResumed", idempotency_key, data: { sensor_id, state_version } }
      : { type: "SensorPaused", idempotency_key, data: { sensor_id, state_version, reason } },
  ];
}

/** Most definitions in a workspace. */
const DEFINITIONS_MAX = 100_000;

/** Most specs that one event carries, and how long they may be together, in characters. */
const SPECS_IN_EVENT_MAX = 500;
const SPECS_LENGTH_MAX = 2_000_000;

/** What somebody publishes; with `prune`, what the same origin made before and is not here goes. */
export type PublishInput = { origin: "code" | "api"; specs: readonly Spec[]; prune: boolean };

/** What became of it. */
export type Published = { definition_version: number; changed: string[]; removed: string[] };

/** Publishes specs: records those that are new or different, and nothing when all are known. */
export function publishDefinitions(input: PublishInput): Decide<Published> {
  return (rows, context) => {
    const current = allDefinitions(rows);
    const currentByName = new Map(current.map((row) => [`${row.kind}:${row.name}`, row]));
    const published = new Map(
      input.specs.map((spec) => [`${spec.kind}:${nameOfSpec(spec)}`, spec]),
    );
    for (const spec of input.specs) {
      refuseForeign(spec, currentByName.get(`${spec.kind}:${nameOfSpec(spec)}`) ?? null, input);
    }
    const removed = current.filter(
      (row) =>
        input.prune && row.origin === input.origin && !published.has(`${row.kind}:${row.name}`),
    );
    const changed = [...published].flatMap(([name, spec]) => {
      const row = currentByName.get(name) ?? null;
      const spec_hash = context.hash.sha256(canonicalJson(spec));
      return row?.spec_hash === spec_hash ? [] : [{ spec, row, spec_hash }];
    });
    // All that was given, so that a name that is given twice is seen.
    validateTogether(keptSpecs(rows, current, removed, published), input, currentByName);
    return publicationOf(rows, { origin: input.origin, changed, removed }, context);
  };
}

/** Checks what will stand afterwards; names who made what the publish itself does not have. */
function validateTogether(
  kept: readonly Spec[],
  { specs, origin }: PublishInput,
  currentByName: ReadonlyMap<string, DefinitionRow>,
): void {
  try {
    validateSpecs([...kept, ...specs]);
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    const { kind, name } = error.details;
    const other = currentByName.get(`${String(kind)}:${String(name)}`)?.origin;
    if (other === undefined || other === origin) throw error;
    throw new PawlError(
      error.code,
      `${error.message} It was made by ${other === "api" ? "the API" : "code"}, and this would ` +
        "leave it without that: change or delete it first.",
      { details: { ...error.details, origin: other } },
    );
  }
}

/** What changes with a publish: specs, with what stood under their name, and definitions that go. */
export type Changes = {
  origin: "code" | "api";
  changed: readonly { spec: Spec; row: DefinitionRow | null; spec_hash: string }[];
  removed: readonly DefinitionRow[];
};

function refuseLong(rows: Rows, changed: Changes["changed"]): void {
  const long = changed.flatMap(({ spec, row }) =>
    isEntitySpec(spec) && longPart(spec) !== null ? [{ spec, hash: row?.spec_hash ?? null }] : [],
  );
  rows.specs.need(long.flatMap(({ hash }) => (hash === null ? [] : [[hash]])));
  for (const { spec, hash } of long) {
    const before = hash === null ? undefined : rows.specs.get(hash)?.body;
    validateLengths(spec, before !== undefined && isEntitySpec(before) ? before : null);
  }
}

type Entry = EventData<"DefinitionsPublished">["specs"][number];

/** The events of a publish, and what became of it; nothing when nothing changes. */
export function publicationOf(rows: Rows, changes: Changes, context: Context) {
  const { origin, changed, removed } = changes;
  refuseLong(rows, changed);
  needEntities(rows, [...changed.flatMap(({ row }) => row ?? []), ...removed]);
  const before: NewEvent[] = [];
  const after: NewEvent[] = [];
  const isInBudget = () => before.length < DECISION_EVENTS_MAX / 2;
  const here = () => contextAfter(context, before.length);
  const specs = changed.map(({ spec, row, spec_hash }): Entry => {
    const entry = { spec_hash, name: nameOfSpec(spec), body: spec };
    if (!isEntitySpec(spec)) return entry;
    const publication = publishEntity(rows, spec, row, here(), isInBudget());
    before.push(...publication.before);
    after.push(...publication.after);
    return { ...entry, entity: publication.entity };
  });
  const gone = removed.map(({ kind, name, entity_id }) => {
    if (entity_id === null) return { kind, name };
    before.push(...closeEntity(rows, kind, entity_id, here(), isInBudget()));
    return { kind, name, id: entity_id };
  });
  const version = rows.workspace.get("workspace")?.definition_version ?? 0;
  const events = publishedEvents(version, origin, specs, gone);
  const room = DECISION_EVENTS_MAX - before.length - events.length - after.length;
  after.push(...publishSyncs(rows, syncsOf(changes), room, context));
  return {
    events: events.length === 0 ? [] : [...before, ...events, ...after],
    result: {
      definition_version: version + events.length,
      changed: specs.map(({ name }) => name),
      removed: gone.map(({ name }) => name),
    },
  };
}

/** The definitions of syncs that change or go. */
function syncsOf({ changed, removed }: Changes): SyncPublication[] {
  return [
    ...changed.flatMap(({ spec }) => (spec.kind === "sync" ? { name: spec.name, spec } : [])),
    ...removed.flatMap(({ kind, name }) => (kind === "sync" ? { name, spec: null } : [])),
  ];
}

/** As many events as the specs need; what goes, goes with the last. */
function publishedEvents(
  version: number,
  origin: "code" | "api",
  specs: readonly Entry[],
  removed: EventData<"DefinitionsPublished">["removed"],
): NewEvent[] {
  const pages = pagesOfSpecs(specs);
  if (pages.length === 0 && removed.length > 0) pages.push([]);
  return pages.map((page, index): NewEvent => {
    const definition_version = version + index + 1;
    const gone = index === pages.length - 1 ? removed : [];
    return {
      type: "DefinitionsPublished",
      idempotency_key: IDEMPOTENCY_KEYS.definitions(definition_version),
      data: { definition_version, origin, specs: page, removed: gone },
    };
  });
}

function pagesOfSpecs(specs: readonly Entry[]): Entry[][] {
  const pages: Entry[][] = [];
  let page: Entry[] = [];
  let length = 0;
  for (const entry of specs) {
    const added = canonicalJson(entry.body).length;
    const isFull = page.length === SPECS_IN_EVENT_MAX || length + added > SPECS_LENGTH_MAX;
    if (pages.length === 0 || (isFull && page.length > 0)) {
      page = [];
      length = 0;
      pages.push(page);
    }
    page.push(entry);
    length += added;
  }
  return pages;
}

/** All current definitions, by name. */
export function allDefinitions(rows: Rows): DefinitionRow[] {
  return rows.definitions.find([], [{ cell: "kind" }, { cell: "name" }], DEFINITIONS_MAX);
}

/** What one origin made, the other may not overwrite. */
export function refuseForeign(
  spec: Spec,
  row: DefinitionRow | null,
  { origin }: { origin: "code" | "api" },
): void {
  if (row === null || row.origin === origin) return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The ${spec.kind} ${row.name} was made by ${row.origin === "api" ? "the API" : "code"}; ` +
      "give yours another name.",
    { details: { kind: spec.kind, name: row.name, origin: row.origin } },
  );
}

/** The specs that stay as they are, so that they can be checked together with the new ones. */
function keptSpecs(
  rows: Rows,
  current: readonly DefinitionRow[],
  removed: readonly DefinitionRow[],
  published: ReadonlyMap<string, Spec>,
): Spec[] {
  const gone = new Set(removed);
  const kept = current.filter((row) => !gone.has(row) && !published.has(`${row.kind}:${row.name}`));
  rows.specs.need(kept.map(({ spec_hash }) => [spec_hash]));
  return kept.flatMap(({ spec_hash }) => rows.specs.get(spec_hash)?.body ?? []);
}
