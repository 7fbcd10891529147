import { assert, present } from "../core/assert.ts";
import type { ScheduleSpec } from "../core/automation-specs.ts";
import { PawlError } from "../core/errors.ts";
import type { NewEvent } from "../core/events/index.ts";
import { instantOf } from "../core/instant.ts";
import { tickRunKey } from "../core/keys.ts";
import type { Keyspace } from "../core/partitions/keyspace.ts";
import { resolveSelector } from "../core/partitions/resolve-selector.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { ScheduleRow } from "../core/rows/schedule-rows.ts";
import { currentAssets, type PinnedAsset } from "./asset-lookup.ts";
import type { Context } from "./decision.ts";
import {
  inOrder,
  keyspaceOfRun,
  partitionsOf,
  refuseTooMany,
  RUN_CLASS,
  RUN_TASKS_MAX,
  runRequested,
} from "./request-run.ts";

/** The run that a tick asks for. Throws the refusal of a request that cannot be made. */
export function tickRunRequest(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  tick: { tick_id: string; scheduledForMs: number },
  context: Context,
): NewEvent & { type: "RunRequested" } {
  const assets = inOrder(currentAssets(rows, spec.asset_selection));
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
