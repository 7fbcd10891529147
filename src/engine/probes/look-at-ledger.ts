import type { WatchSpec } from "../../work/definition/automation.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import {
  type LedgerCursor,
  ledgerCursorText,
  parseLedgerCursor,
} from "../../work/sensor/cursor.ts";
import type { RunRow } from "../../work/run/rows.ts";
import { TABLES } from "../../work/tables.ts";
import type { Reader } from "../../store/store.ts";
import type { Scanned } from "./keeper.ts";
import type { Sensor } from "./sensor-view.ts";

/** Positions that one step of a look covers, and steps of one look. */
const WINDOW = 5_000;
const WINDOWS_MAX = 20;
/** Most items of one look. */
const ITEMS_MAX = 1_000;

/** What a look at the ledger found, and how far it went. */
export type LedgerLook = {
  items: Json[];
  /** The cursor after the items. */
  cursor: string;
  scanned: Scanned;
  /** There is more of the ledger than was looked at. */
  isCut: boolean;
};

/** Whether an earlier look still says something about the sensor. */
function isAbout({ row }: Sensor, scanned: Scanned | null): scanned is Scanned {
  return scanned?.cursor === row.cursor && scanned.spec_hash === row.spec_hash;
}

/** Where a look begins; throws INPUT_INVALID when the sensor's cursor is no position. */
function startOf(sensor: Sensor, scanned: Scanned | null): LedgerCursor {
  const { cursor, created_pos, name } = sensor.row;
  const start = cursor === null ? { pos: created_pos, taken: null } : parseLedgerCursor(cursor);
  if (start === null) {
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${name} watches the ledger, but its cursor ${JSON.stringify(cursor)} is no position ` +
        "there. Move it with `pawl sensor reset-cursor`.",
      { details: { sensor: name, cursor } },
    );
  }
  if (!isAbout(sensor, scanned) || scanned.through <= start.pos) return start;
  return { pos: scanned.through, taken: null };
}

/**
 * Looks for what a sensor watches in the ledger, from its cursor on: partitions that were
 * materialized, or runs that failed. What came of runs that this very sensor asked for is passed
 * over: otherwise its own failing run, or a run of the asset it watches, would call for the next one
 * for ever. Sensors that set each other off are not told apart from wanted chains.
 */
export async function lookAtLedger(
  reader: Reader,
  sensor: Sensor,
  remembered: Scanned | null,
): Promise<LedgerLook> {
  const { row, spec } = sensor;
  const limit = Math.min(ITEMS_MAX, spec.max_run_requests);
  const head = (await reader.head()).pos;
  let at = startOf(sensor, remembered);
  const items: Json[] = [];
  for (let window = 0; window < WINDOWS_MAX && items.length === 0; window++) {
    if (at.taken === null && at.pos >= head) break;
    const after = at.taken === null ? at.pos : at.pos - 1;
    const through = Math.min(head, after + WINDOW);
    const types = [spec.watch?.type === "run_failures" ? "RunFinished" : "TasksFinished"];
    const events = await reader.events({ after, through, types, limit: WINDOW });
    const found = await itemsIn(reader, sensor, events);
    at = take(found, at, through, items, limit);
  }
  const isCut = at.taken !== null || at.pos < head;
  const cursor = ledgerCursorText(at);
  const scanned = { cursor: row.cursor, spec_hash: row.spec_hash, through: at.pos };
  return { items, cursor, scanned, isCut };
}

type Found = { pos: number; items: Json[] };

/** Takes items up to the limit; answers where that leaves the cursor. */
function take(
  found: readonly Found[],
  from: LedgerCursor,
  through: number,
  into: Json[],
  limit: number,
): LedgerCursor {
  for (const { pos, items } of found) {
    const skipped = pos === from.pos && from.taken !== null ? from.taken : 0;
    const room = limit - into.length;
    const left = items.slice(skipped);
    into.push(...left.slice(0, room));
    if (left.length > room) return { pos, taken: skipped + room };
    if (left.length === room) return { pos, taken: null };
  }
  return { pos: through, taken: null };
}

/** What the two kinds of watched events have, each its own part. */
type Watched = {
  run_pos: number;
  outcome?: string;
  results?: EventData<"TasksFinished">["results"];
};

async function itemsIn(
  reader: Reader,
  { row, spec }: Sensor,
  events: readonly RecordedEvent[],
): Promise<Found[]> {
  const { watch } = spec;
  const candidates = events.flatMap((event) => {
    const data = JSON.parse(event.data) as Watched;
    return mayMatter(watch, data) ? [{ event, data }] : [];
  });
  if (candidates.length === 0) return [];
  const keys = [...new Set(candidates.map(({ data }) => data.run_pos))].map((pos) => [pos]);
  const runs = await reader.load(TABLES.runs, keys);
  const runOf = new Map(runs.map((run) => [run.run_pos, run]));
  return candidates.flatMap(({ event, data }) => {
    const run = runOf.get(data.run_pos);
    const source = run?.trigger_source_ref;
    if (run === undefined || (source?.type === "sensor" && source.sensor_id === row.sensor_id)) {
      return [];
    }
    const items =
      watch?.type === "materializations"
        ? materialized(watch.asset_key, event, run.run_id, data.results ?? [])
        : failed(watch, event, run);
    return items.length === 0 ? [] : [{ pos: event.pos, items }];
  });
}

function mayMatter(watch: WatchSpec | null, { outcome, results = [] }: Watched): boolean {
  if (watch?.type === "run_failures") return outcome === "FAILED";
  if (watch?.type !== "materializations") return false;
  return results.some(
    (result) => result.asset_key === watch.asset_key && result.outcome === "SUCCEEDED",
  );
}

/** One item for each partition that succeeded. */
function materialized(
  assetKey: string,
  { pos, occurred_at }: RecordedEvent,
  run_id: string,
  results: EventData<"TasksFinished">["results"],
): Json[] {
  return results.flatMap((result) => {
    if (result.asset_key !== assetKey || result.outcome !== "SUCCEEDED") return [];
    const { partition_keys, exceptions = [], code_version, metadata = null } = result;
    const excepted = new Set(exceptions.map(({ index }) => index));
    return partition_keys.flatMap((key, index) => {
      if (excepted.has(index)) return [];
      const partition_key = key === "" ? null : key;
      return [
        {
          asset_key: assetKey,
          partition_key,
          run_id,
          pos,
          at: occurred_at,
          code_version,
          metadata,
        },
      ];
    });
  });
}

function failed(watch: WatchSpec | null, { pos, occurred_at }: RecordedEvent, run: RunRow): Json[] {
  if (watch?.type !== "run_failures") return [];
  const { assets } = watch;
  if (assets.length > 0 && !run.asset_selection.some((key) => assets.includes(key))) return [];
  const { run_id, run_key, asset_selection, partition_keys, backfill_id, first_error } = run;
  return [
    {
      run_id,
      run_key,
      asset_selection,
      partition_keys,
      backfill_id,
      error: first_error,
      pos,
      at: occurred_at,
    },
  ];
}
