import type { ScheduleSpec, ScheduleSelection } from "../definition/spec.ts";
import { assert, PawlError, present } from "../../kernel/errors.ts";
import type { NewEvent, EventData } from "../events.ts";
import { instantOf } from "../../kernel/instant.ts";
import { tickRunKey, IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { resolveSelector } from "../../kernel/keyspace/resolve-selector.ts";
import type { Rows } from "../rows.ts";
import type { ScheduleRow } from "./rows.ts";
import { assetsToMake, type PinnedAsset } from "../asset/look-up.ts";
import type { Context } from "../decision.ts";
import {
  inOrder,
  keyspaceOfRun,
  partitionsOf,
  refuseTooMany,
  RUN_CLASS,
  RUN_TASKS_MAX,
  runRequested,
} from "../run/request.ts";
import { type CreateBackfillInput, createBackfill } from "../backfill/create.ts";
import { collectStale, addToSurvey, beginStaleSurvey } from "../asset/stale.ts";

/** The run that a tick asks for. Throws the refusal of a request that cannot be made. */
export function tickRunRequest(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  tick: { tick_id: string; scheduledForMs: number },
  context: Context,
): NewEvent & { type: "RunRequested" } {
  const assets = inOrder(assetsToMake(rows, spec.asset_selection));
  const chosen = choosePartitions(rows, assets, spec, tick.scheduledForMs, context);
  const partitions = partitionsOf(assets, chosen.keys, chosen.keyspace);
  const event = runRequested(context, tickRunKey(tick.tick_id), assets, partitions, {
    config: spec.config,
    labels: spec.labels,
    code_version: null,
    priority: spec.priority,
    class: RUN_CLASS.automation,
    retry: null,
    trigger_source_ref: {
      type: "schedule",
      schedule_id: row.schedule_id,
      tick_id: tick.tick_id,
    },
    backfill_id: null,
    chunk_index: null,
  });
  refuseTooMany(event.data.tasks, partitions);
  return event;
}

type Chosen = { keyspace: Keyspace | null; keys: readonly string[] | null };

function choosePartitions(
  rows: Rows,
  assets: readonly PinnedAsset[],
  { selection }: ScheduleSpec,
  scheduledForMs: number,
  context: Context,
): Chosen {
  const keyspace = keyspaceOfRun(rows, assets, context.now);
  if (keyspace === null) return { keyspace, keys: null };
  switch (selection.type) {
    case "explicit":
      return { keyspace, keys: selection.partition_keys };
    case "all":
      return { keyspace, keys: boundedSlice(keyspace) };
    case "tick_time":
      return partitionsAtTime(rows, assets, scheduledForMs, selection.offset);
    default:
      return { keyspace, keys: null };
  }
}

function boundedSlice(keyspace: Keyspace): string[] {
  if (keyspace.count === 0) throw new PawlError("SELECTION_EMPTY", "There are no partitions yet.");
  if (keyspace.count <= RUN_TASKS_MAX) return keyspace.slice(0, keyspace.count);
  throw tooManyOf(keyspace, "Let the schedule select by the tick's time, or what is stale.");
}

function tooManyOf({ count }: { count: number }, advice: string): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `All ${count} partitions are more than the ${RUN_TASKS_MAX} that one run may have. ${advice}`,
  );
}

/**
 * The partition that a time falls in, or one so many before it; of several dimensions, all that lie
 * there. It exists for the run even while it lasts: the keyspace is that of the moment it ends.
 */
function partitionsAtTime(
  rows: Rows,
  assets: readonly PinnedAsset[],
  timeMs: number,
  offset: number,
): Chosen {
  const definition = present(assets[0]?.spec.partitions ?? null, "the assets have partitions");
  const { axis } = timeDimension(keyspaceOfRun(rows, assets, instantOf(timeMs)));
  const ordinal = axis.ordinalAt(timeMs) + offset;
  // What lies before all partitions may even lie before the years that an instant can be in.
  if (ordinal < 0) {
    const before = offset === 0 ? "" : `${-offset} before that `;
    throw outsideOf(assets, `${before}of ${instantOf(timeMs)}`);
  }
  const keyspace = keyspaceOfRun(rows, assets, instantOf(axis.startMsAt(ordinal + 1)));
  const dimension = timeDimension(keyspace);
  if (keyspace === null || ordinal >= dimension.keyspace.count) {
    throw outsideOf(assets, `that begins at ${instantOf(axis.startMsAt(ordinal))}`);
  }
  const value = dimension.keyspace.keyAt(ordinal);
  if (definition.type !== "multi") return { keyspace, keys: [value] };
  const selection = resolveSelector(definition, keyspace, {
    type: "filter",
    dimensions: { [dimension.name]: [value] },
  });
  if (selection.count > RUN_TASKS_MAX) {
    throw tooManyOf(selection, "Let the schedule select what is stale.");
  }
  return { keyspace, keys: keyspace.keysAt(selection.ordinals(0, selection.count)) };
}

function outsideOf(assets: readonly PinnedAsset[], which: string): PawlError {
  return new PawlError(
    "PARTITION_INVALID",
    `The partition ${which} is outside those that ${assets[0]?.spec.asset_key} is defined for.`,
  );
}

function timeDimension(keyspace: Keyspace | null) {
  const found = keyspace?.dimensions.find((dimension) => dimension.keyspace.time !== null);
  const axis = found?.keyspace.time ?? null;
  assert(found !== undefined && axis !== null, "a schedule by time has a time dimension");
  return { ...found, axis };
}

/** Partitions that one tick looks at, those upstream included; the next tick goes on from there. */
const LOOKS_MAX = 5_000;

type Ticked = EventData<"ScheduleTicked">;

/** What a tick says of its search for stale partitions, and the events of the backfill it asks for. */
export type StaleRequest = Partial<Pick<Ticked, "reason" | "backfill_id" | "stale">> & {
  events: readonly NewEvent[];
};

/**
 * A backfill of what is stale at a tick's time, as far as one look goes. Nothing is asked for when
 * nothing is stale, or when another backfill is at it already.
 */
export function staleRequest(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  selection: Extract<ScheduleSelection, { type: "stale" }>,
  tick: { tick_id: string },
  context: Context,
): StaleRequest {
  const { limit, reasons } = selection;
  const assets = [...new Set(spec.asset_selection)];
  const survey = beginStaleSurvey(assets)(rows, context).result;
  const collected = collectStale(rows, assets, context, {
    budget: LOOKS_MAX,
    limit,
    reasons,
    from: row.stale_place ?? undefined,
  });
  const stale = { reasons: collected.reasons, next: collected.next };
  if (collected.found.length === 0) return { reason: "nothing_stale", stale, events: [] };
  addToSurvey(survey, collected);
  const input: CreateBackfillInput = {
    client_request_id: tick.tick_id,
    assets,
    selector: { type: "stale", limit, ...(reasons === undefined ? {} : { reasons }) },
    chunk_size: 10,
    max_concurrent_runs: 2,
    order: "ascending",
    priority: spec.priority,
    allow_overlap: false,
    // Nobody waits for these to decide how to go on.
    continue_on_failure: true,
    labels: spec.labels,
    config: spec.config,
  };
  const asSchedule = { ...context, principal: principalOf(row.schedule_id) };
  try {
    const { events, result } = createBackfill(input, survey, true)(rows, asSchedule);
    return { backfill_id: result.backfill_id, stale, events };
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "BACKFILL_OVERLAPS") throw error;
    return { reason: "overlap", stale: null, events: [] };
  }
}

function principalOf(scheduleId: string): string {
  return `schedule/${scheduleId}`;
}

/** The key under which the backfill of a tick was asked for. */
export function staleRequestKey(scheduleId: string, tickId: string): string {
  return IDEMPOTENCY_KEYS.backfillCreate(principalOf(scheduleId), tickId);
}
