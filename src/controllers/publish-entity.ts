import { assert } from "../core/assert.ts";
import type { EventData, NewEvent } from "../core/events/index.ts";
import { epochMsOf, type Instant } from "../core/instant.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { EntitySpec, Spec } from "../core/published-spec.ts";
import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Key } from "../core/rows/table.ts";
import { needAssets } from "./asset-lookup.ts";
import { schedulePaused, scheduleResumed } from "./change-schedule.ts";
import type { Context } from "./decision.ts";
import { nextTick, scheduleTimes } from "./schedule-times.ts";
import { closeTimes, scheduleSpec } from "./tick-schedule.ts";

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
