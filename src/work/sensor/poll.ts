import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import type { Spec } from "../definition/published-spec.ts";
import type { SensorSpec, WatchSpec } from "../definition/spec.ts";
import { Count, FailureField, InstantText, type RecordedEvent } from "../envelope.ts";
import type { EventData, EventType } from "../events.ts";
import { SensorMessage } from "../probe-protocol.ts";
import type { RunRow } from "../run/rows.ts";
import type { EvaluationResult } from "./evaluate.ts";
import type { SensorMessageRow, SensorRow } from "./rows.ts";

/**
 * Who can evaluate a sensor: this server by itself, any worker, or only a worker that has the
 * sensor's code.
 */
export type Evaluator = "server" | "anyone" | "code";

/** A sensor with the spec it acts under. */
export type PolledSensor = {
  row: SensorRow;
  spec: SensorSpec;
  evaluator: Evaluator;
  /** It watches the ledger itself, so the server polls that for it. */
  isOfLedger: boolean;
};

/** A sensor as it is polled under this spec. */
export function polledSensor(row: SensorRow, spec: SensorSpec): PolledSensor {
  return { row, spec, evaluator: evaluatorOf(spec), isOfLedger: isLedgerWatch(spec.watch) };
}

/** The spec of a sensor; null for one of something else. */
export function asSensorSpec(spec: Spec): SensorSpec | null {
  return spec.kind === "sensor" ? spec : null;
}

/** Who can evaluate a sensor of this spec. */
export function evaluatorOf({ mode, watch, target }: SensorSpec): Evaluator {
  if (target === null) return "code";
  if (mode === "push" || isLedgerWatch(watch)) return "server";
  const needsNoCode =
    watch?.type === "files" || (watch?.type === "rows" && watch.database_env !== null);
  return needsNoCode ? "anyone" : "code";
}

/** Whether the sensor is polled, or its messages are evaluated, at present. */
export function isActing({ row }: PolledSensor): boolean {
  return row.state === "ACTIVE" || row.state === "ERROR";
}

/** Whether messages of the sensor are to be evaluated at present. */
export function takesMessages(sensor: PolledSensor): boolean {
  return sensor.row.mode === "push" && isActing(sensor);
}

/** A message as an evaluator sees it. */
export function messageOfRow(row: SensorMessageRow): SensorMessage {
  const { message_id, source, message_type: type, payload, published_at } = row;
  return { message_id, source, type, attributes: row.attributes ?? {}, payload, published_at };
}

/** How often the evaluation of a message is tried before it is recorded as failed. */
export const MESSAGE_ATTEMPTS_MAX = 5;
/** Longest pause between two tries, unless the sensor's own interval is longer. */
const BACKOFF_MS_MAX = 300_000;
const MESSAGE_BACKOFF_MS = 1_000;

/** How far the ledger was looked through without a hit; void once the sensor is another. */
export const Scanned = z.object({
  cursor: z.string().nullable(),
  spec_hash: z.string(),
  through: Count,
});
export type Scanned = z.infer<typeof Scanned>;

/** What the probe of a poll sensor or of a message remembers. */
export const SensorMemory = z.object({
  /** Evaluations in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
  /** Evaluations of which nothing came, since something last did. */
  unchanged: Count.default(0),
  looked_at: InstantText.nullable().default(null),
  scanned: Scanned.nullable().default(null),
});
export type SensorMemory = z.infer<typeof SensorMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function sensorMemoryOf(value: Json): SensorMemory {
  return SensorMemory.safeParse(value ?? {}).data ?? SensorMemory.parse({});
}

/** When a poll sensor is polled again: after its interval, and later the more often it failed. */
export function nextPollAt(now: Instant, minIntervalMs: number, failures: number): Instant {
  const longest = Math.max(minIntervalMs, BACKOFF_MS_MAX);
  return addMs(now, Math.min(minIntervalMs * 2 ** Math.min(failures, 30), longest));
}

/** When the evaluation of a message is tried again. */
export function nextTryAt(now: Instant, failures: number): Instant {
  return addMs(now, Math.min(MESSAGE_BACKOFF_MS * 2 ** failures, BACKOFF_MS_MAX));
}

/** What a person asked to be evaluated. */
const ManualRequest = z.object({
  request_id: z.string(),
  dry_run: z.boolean(),
  message: SensorMessage.nullable(),
  requested_at: InstantText,
});
const ManualFields = z.object({ request: ManualRequest, result: z.json() });

/** The probe of a person's evaluation: what was asked, and what came of it once that is known. */
export type ManualValue = {
  request: z.infer<typeof ManualRequest>;
  result: EvaluationResult | null;
};

/** The value of a person's probe; null when it is none. */
export function manualOf(value: Json): ManualValue | null {
  const parsed = ManualFields.safeParse(value);
  return parsed.success ? (parsed.data as unknown as ManualValue) : null;
}

/** How long the probe of a person's evaluation is kept. */
export const MANUAL_KEPT_MS = 600_000;

/** Whether nobody will ask for a person's evaluation any more. */
export function isManualOver(value: Json, now: Instant): boolean {
  const manual = manualOf(value);
  return manual === null || addMs(manual.request.requested_at, MANUAL_KEPT_MS) <= now;
}

/** The probe of a poll sensor. */
export function pollProbeId(sensorId: string): string {
  return `sensor:${sensorId}`;
}

/** The probe of a message. */
export function messageProbeId(sensorId: string, messageId: string): string {
  return `message:${sensorId}:${messageId}`;
}

/** The id of the message that a probe is about. */
export function messageIdOf(probe: { probe_id: string; subject: string }): string {
  return probe.probe_id.slice(messageProbeId(probe.subject, "").length);
}

/** The probe of a person's evaluation. */
export function manualProbeId(sensorId: string, requestId: string): string {
  return `manual:${sensorId}:${requestId}`;
}

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

/** The types of the events in which a sensor finds what it watches. */
export function watchedEvents({ spec }: PolledSensor): EventType[] {
  return spec.watch?.type === "run_failures"
    ? ["RunFinished"]
    : ["TasksFinished", "PartitionsReported"];
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

/** What the kinds of watched events have, each its own part. */
type Watched = {
  /** Absent where no run did it. */
  run_pos?: number;
  outcome?: string;
  results?: EventData<"TasksFinished">["results"];
  asset_key?: string;
  items?: EventData<"PartitionsReported">["items"];
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

function mayMatter(watch: WatchSpec | null, data: Watched): boolean {
  const { outcome, asset_key, results = [] } = data;
  if (watch?.type === "run_failures") return outcome === "FAILED";
  if (watch?.type !== "materializations") return false;
  if (asset_key === watch.asset_key) return true;
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
    const run = data.run_pos === undefined ? undefined : runs.get(data.run_pos);
    const source = run?.trigger_source_ref;
    if (source?.type === "sensor" && source.sensor_id === row.sensor_id) continue;
    const items = itemsOf(watch, event, data, run);
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

function itemsOf(
  watch: WatchSpec | null,
  event: RecordedEvent,
  { results = [], items = [] }: Watched,
  run: RunRow | undefined,
): Json[] {
  if (watch?.type === "materializations" && items.length > 0) {
    return reported(watch.asset_key, event, items);
  }
  if (run === undefined) return [];
  return watch?.type === "materializations"
    ? materialized(watch.asset_key, event, run.run_id, results)
    : failed(watch, event, run);
}

/** One item for each partition that was reported; no run made it. */
function reported(
  asset_key: string,
  { pos, occurred_at: at }: RecordedEvent,
  items: EventData<"PartitionsReported">["items"],
): Json[] {
  return items.flatMap(({ partition_keys, code_version, metadata = null }) =>
    partition_keys.map((key) => ({
      asset_key,
      partition_key: key === "" ? null : key,
      run_id: null,
      pos,
      at,
      code_version,
      metadata,
    })),
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
