import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { WatchSpec } from "../definition/automation.ts";
import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import type { RunRow } from "../run/rows.ts";
import type { PolledSensor, Scanned } from "./poll.ts";

/**
 * How far a sensor that watches the ledger has got: everything before `pos`, and of the event at
 * `pos` the first `taken` items; all of them when `taken` is null.
 */
export type LedgerCursor = { pos: number; taken: number | null };

/** The text of a cursor: `120` for all through 120, `120:40` when 40 items of 120 are taken. */
export function ledgerCursorText({ pos, taken }: LedgerCursor): string {
  return taken === null ? `${pos}` : `${pos}:${taken}`;
}

/** The cursor that a text stands for; null when it is none. */
export function parseLedgerCursor(text: string): LedgerCursor | null {
  const [, pos, taken] = /^(\d{1,15})(?::(\d{1,9}))?$/.exec(text) ?? [];
  if (pos === undefined) return null;
  return { pos: Number(pos), taken: taken === undefined ? null : Number(taken) };
}

/** What a sensor may watch in the ledger itself. */
export function isLedgerWatch(watch: { type: string } | null): boolean {
  return watch?.type === "materializations" || watch?.type === "run_failures";
}

/** The type of the events in which a sensor finds what it watches. */
export function watchedEvent({ spec }: PolledSensor): "RunFinished" | "TasksFinished" {
  return spec.watch?.type === "run_failures" ? "RunFinished" : "TasksFinished";
}

/** Where a poll of the ledger begins; throws INPUT_INVALID when the sensor's cursor is no position. */
export function ledgerStart({ row }: PolledSensor, scanned: Scanned | null): LedgerCursor {
  const { cursor, created_pos, name } = row;
  const start = cursor === null ? { pos: created_pos, taken: null } : parseLedgerCursor(cursor);
  if (start === null) {
    throw new PawlError(
      "INPUT_INVALID",
      `Sensor ${name} watches the ledger, but its cursor ${JSON.stringify(cursor)} is no position ` +
        "there. Move it with `pawl sensor reset-cursor`.",
      { details: { sensor: name, cursor } },
    );
  }
  // An earlier poll says nothing about a sensor that was changed since.
  const isAbout = scanned?.cursor === cursor && scanned.spec_hash === row.spec_hash;
  if (!isAbout || scanned.through <= start.pos) return start;
  return { pos: scanned.through, taken: null };
}

/** What the two kinds of watched events have, each its own part. */
type Watched = {
  run_pos: number;
  outcome?: string;
  results?: EventData<"TasksFinished">["results"];
};

/** An event that may have items for a sensor, by what it says itself. */
export type WatchedEvent = { event: RecordedEvent; data: Watched };

/** Those of the events that may have items for a sensor. */
export function watchedIn(
  { spec: { watch } }: PolledSensor,
  events: readonly RecordedEvent[],
): WatchedEvent[] {
  return events.flatMap((event) => {
    const data = JSON.parse(event.data) as Watched;
    return mayMatter(watch, data) ? [{ event, data }] : [];
  });
}

function mayMatter(watch: WatchSpec | null, { outcome, results = [] }: Watched): boolean {
  if (watch?.type === "run_failures") return outcome === "FAILED";
  if (watch?.type !== "materializations") return false;
  return results.some(
    (result) => result.asset_key === watch.asset_key && result.outcome === "SUCCEEDED",
  );
}

/**
 * Takes items of events into a list up to a limit; answers where that leaves the cursor. What came of
 * runs that this very sensor asked for is passed over: otherwise its own failing run, or a run of the
 * asset it watches, would call for the next one for ever. Sensors that set each other off are not told
 * apart from wanted chains.
 */
export function takeItems(
  { row, spec: { watch } }: PolledSensor,
  watched: readonly WatchedEvent[],
  runs: ReadonlyMap<number, RunRow>,
  from: LedgerCursor,
  into: { items: Json[]; limit: number },
): LedgerCursor | null {
  for (const { event, data } of watched) {
    const run = runs.get(data.run_pos);
    const source = run?.trigger_source_ref;
    const isOwn = source?.type === "sensor" && source.sensor_id === row.sensor_id;
    if (run === undefined || isOwn) continue;
    const items =
      watch?.type === "materializations"
        ? materialized(watch.asset_key, event, run.run_id, data.results ?? [])
        : failed(watch, event, run);
    if (items.length === 0) continue;
    const { pos } = event;
    const skipped = pos === from.pos && from.taken !== null ? from.taken : 0;
    const room = into.limit - into.items.length;
    const left = items.slice(skipped);
    into.items.push(...left.slice(0, room));
    if (left.length > room) return { pos, taken: skipped + room };
    if (left.length === room) return { pos, taken: null };
  }
  return null;
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
    const ran = { run_id, pos, at: occurred_at, code_version, metadata };
    return partition_keys.flatMap((key, index) => {
      if (excepted.has(index)) return [];
      return [{ asset_key: assetKey, partition_key: key === "" ? null : key, ...ran }];
    });
  });
}

function failed(watch: WatchSpec | null, { pos, occurred_at }: RecordedEvent, run: RunRow): Json[] {
  if (watch?.type !== "run_failures") return [];
  const { assets } = watch;
  if (assets.length > 0 && !run.asset_selection.some((key) => assets.includes(key))) return [];
  const { run_id, run_key, asset_selection, partition_keys, backfill_id, first_error } = run;
  const asked = { run_id, run_key, asset_selection, partition_keys, backfill_id };
  return [{ ...asked, error: first_error, pos, at: occurred_at }];
}
