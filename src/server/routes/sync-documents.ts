import { limitOf, parallelOf, syncNotFound, wantedEnd } from "../../work/sync/look-up.ts";
import type {
  SyncDocument,
  NameTotals,
  SlowSync,
  SyncOverview,
} from "../../work/sync/documents.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { DEFINITIONS, SPECS } from "../../work/definition/rows.ts";
import {
  SEGMENTS,
  type SegmentRow,
  type SyncRow,
  type SyncSourceRow,
  SYNC_SOURCES,
  SYNCS,
} from "../../work/sync/rows.ts";
import type { Key, Condition } from "../../kernel/table.ts";
import { type SyncSpec, syncRefOf } from "../../work/sync/spec.ts";
import type { Reader } from "../../store/store.ts";
import { PawlError } from "../../kernel/errors.ts";
import { nearMiss } from "../../kernel/near-miss.ts";

/** A sync with its definition, if that is still there, and the head of its source, if it was seen. */
export type KnownSync = { row: SyncRow; spec: SyncSpec | null; source: SyncSourceRow | null };

/** Syncs with their definitions and sources, which many of them share. */
export async function knownSyncs(reader: Reader, rows: readonly SyncRow[]): Promise<KnownSync[]> {
  const names = new Set(rows.map(({ name }) => name));
  const specs = await syncSpecs(reader, [...names]);
  const keys = new Map(rows.map(({ name, source }) => [`${name}\n${source}`, [name, source]]));
  const found = await reader.load(SYNC_SOURCES, [...keys.values()] as Key[]);
  const sources = new Map(found.map((source) => [`${source.name}\n${source.source}`, source]));
  return rows.map((row) => ({
    row,
    spec: specs.get(row.name) ?? null,
    source: sources.get(`${row.name}\n${row.source}`) ?? null,
  }));
}

/** The definitions of these syncs, of those that have one. */
export async function syncSpecs(
  reader: Reader,
  names: readonly string[],
): Promise<Map<string, SyncSpec>> {
  const keys = names.map((name): Key => ["sync", name]);
  const definitions = await reader.load(DEFINITIONS, keys);
  const hashes = definitions.map(({ spec_hash }): Key => [spec_hash]);
  const specs = await reader.load(SPECS, hashes);
  return new Map(specs.flatMap(({ name, body }) => (body.kind === "sync" ? [[name, body]] : [])));
}

/** Syncs as the API shows them. */
export async function syncDocuments(
  reader: Reader,
  rows: readonly SyncRow[],
  now: Instant,
): Promise<SyncDocument[]> {
  const documents: SyncDocument[] = [];
  for (const known of await knownSyncs(reader, rows)) {
    const next_retry_at =
      known.row.segments_failed === 0 ? null : await nextRetryAt(reader, known.row.sync_id);
    documents.push(documentOf(known, next_retry_at, now));
  }
  return documents;
}

async function nextRetryAt(reader: Reader, syncId: string): Promise<Instant | null> {
  const [first] = await reader.find({
    table: SEGMENTS,
    where: [
      { cell: "sync_id", is: "=", value: syncId },
      { cell: "status", is: "=", value: "FAILED" },
      { cell: "next_retry_at", is: "not null" },
    ],
    order: [{ cell: "next_retry_at" }],
    limit: 1,
  });
  return first?.next_retry_at ?? null;
}

function documentOf(known: KnownSync, next_retry_at: Instant | null, now: Instant): SyncDocument {
  const { row, spec, source } = known;
  const {
    rewrites_seen: _rewrites,
    planned_to,
    segment_size: _size,
    next_segment: _next,
    work_blocks: _blocks,
    work_ms: _ms,
    ...told
  } = row;
  const eta = etaSeconds(known);
  return {
    ...told,
    defined: spec !== null,
    to_block: planned_to,
    to_limit: spec === null ? row.to_limit : limitOf(row, spec),
    synced_to: row.synced_to < row.from_block ? null : row.synced_to,
    head: source?.head ?? null,
    head_at: source?.head_at ?? null,
    safe_block: safeBlock(known),
    lag_blocks: lagBlocks(known),
    blocks_total: plannedBlocks(row),
    progress_pct: percent(row.segments_complete, row.segments_total),
    next_retry_at,
    max_parallel: parallelInForce(known),
    priority: row.priority ?? spec?.priority ?? null,
    rate_blocks_per_second: blocksPerSecond(known),
    eta_seconds: eta,
    eta_at: eta === null || eta > ETA_SECONDS_MAX ? null : addMs(now, eta * 1_000),
  };
}

/** What would end after the year 9999 says nothing. */
const ETA_SECONDS_MAX = 250_000_000_000;

/** A share in percent, with one digit after the point, and 100 only for all of it. */
export function percent(done: number, total: number): number {
  return total === 0 ? 0 : Math.floor((done / total) * 1_000) / 10;
}

/** How many blocks are planned. */
export function plannedBlocks({ planned_to, from_block }: SyncRow): number {
  return planned_to === null ? 0 : planned_to - from_block + 1;
}

function safeBlock({ spec, source }: KnownSync): number | null {
  if (spec === null || source === null) return null;
  return source.head < spec.finality ? null : source.head - spec.finality;
}

/** How far a sync is behind what may be synced; null while that is not known. */
export function lagBlocks({ row, spec, source }: KnownSync): number | null {
  const wanted = spec === null ? null : wantedEnd(row, spec, source);
  return wanted === null ? null : Math.max(0, wanted - row.synced_to);
}

function parallelInForce({ row, spec }: KnownSync): number | null {
  return spec === null ? row.max_parallel : parallelOf(row, spec);
}

/** What the segments do together that can still run: each as fast as the work of late. */
export function blocksPerSecond(known: KnownSync): number | null {
  const { row } = known;
  const left = row.segments_pending + row.segments_running + row.segments_failed;
  const acts = row.state === "RUNNING" || row.state === "FOLLOWING";
  if (!acts || left === 0 || row.work_blocks === 0 || row.work_ms === 0) return null;
  const rate =
    (row.work_blocks / row.work_ms) * 1_000 * Math.min(left, parallelInForce(known) ?? 0);
  return rate === 0 ? null : Math.max(0.001, Math.round(rate * 1_000) / 1_000);
}

/** How long what is planned will take at that rate. */
export function etaSeconds(known: KnownSync): number | null {
  const rate = blocksPerSecond(known);
  if (rate === null) return null;
  return Math.ceil((plannedBlocks(known.row) - known.row.blocks_complete) / rate);
}

/** Syncs that are read at once, so that others get their turn in between. */
const PAGE = 1_000;

/** The slowest that are named. */
const SLOWEST_MAX = 5;

type Totals = Omit<NameTotals, "name" | "defined">;

/** All syncs together and by name, from one pass over them; their segments are not looked at. */
export async function syncOverview(reader: Reader): Promise<Omit<SyncOverview, "pos">> {
  const all = newTotals();
  const names = new Map<string, NameTotals>();
  for await (const known of everySync(reader)) {
    const { name } = known.row;
    let totals = names.get(name);
    if (totals === undefined) {
      totals = { name, defined: known.spec !== null, ...newTotals() };
      names.set(name, totals);
    }
    const slow = slowSync(known);
    count(totals, known, slow);
    count(all, known, slow);
  }
  const finished = [...names.values()].map((totals) => finish(totals));
  return { ...finish(all), names: finished };
}

const ALONG = ["name", "target_key", "sync_id"] as const;

async function* everySync(reader: Reader): AsyncGenerator<KnownSync> {
  const order = ALONG.map((cell) => ({ cell }));
  for (let last: SyncRow | undefined; ; ) {
    const where: Condition[] = [{ cell: "state", is: "<>", value: "REMOVED" }];
    if (last !== undefined) {
      where.push({ cells: ALONG, is: "after", key: [last.name, last.target_key, last.sync_id] });
    }
    const page = await reader.find({ table: SYNCS, where, order, limit: PAGE });
    yield* await knownSyncs(reader, page);
    last = page.at(-1);
    if (page.length < PAGE) return;
  }
}

function newTotals(): Totals {
  return {
    syncs: 0,
    syncs_by_status: { PENDING: 0, RUNNING: 0, PAUSED: 0, COMPLETE: 0, FOLLOWING: 0, FAILED: 0 },
    segments_total: 0,
    segments_pending: 0,
    segments_running: 0,
    segments_failed: 0,
    segments_complete: 0,
    segments_quarantined: 0,
    blocks_total: 0,
    blocks_complete: 0,
    progress_pct: 0,
    rows_stored: 0,
    lag_blocks_max: null,
    rate_blocks_per_second: 0,
    slowest: [],
  };
}

const SUMMED = [
  "segments_total",
  "segments_pending",
  "segments_running",
  "segments_failed",
  "segments_complete",
  "segments_quarantined",
  "blocks_complete",
  "rows_stored",
] as const;

function count(totals: Totals, known: KnownSync, slow: SlowSync | null): void {
  const { row } = known;
  if (row.status === "REMOVED") return;
  totals.syncs++;
  totals.syncs_by_status[row.status]++;
  for (const field of SUMMED) totals[field] += row[field];
  totals.blocks_total += plannedBlocks(row);
  totals.rate_blocks_per_second += blocksPerSecond(known) ?? 0;
  const lag = lagBlocks(known);
  if (lag !== null) totals.lag_blocks_max = Math.max(lag, totals.lag_blocks_max ?? 0);
  if (slow !== null) keepSlowest(totals.slowest, slow);
}

/** A sync that is behind; null for one that is not, or that nobody wants to go on. */
function slowSync(known: KnownSync): SlowSync | null {
  const { sync_id, name, target_key, status, segments_complete, segments_total } = known.row;
  const lag = lagBlocks(known) ?? 0;
  if (lag === 0 || status === "PAUSED") return null;
  return {
    sync_id,
    name,
    target_key,
    status,
    lag_blocks: lag,
    progress_pct: percent(segments_complete, segments_total),
    rate_blocks_per_second: blocksPerSecond(known),
    eta_seconds: etaSeconds(known),
  };
}

function keepSlowest(slowest: SlowSync[], slow: SlowSync): void {
  if (slowest.length === SLOWEST_MAX) {
    const last = slowest.at(-1);
    if (last !== undefined && last.lag_blocks >= slow.lag_blocks) return;
    slowest.pop();
  }
  const at = slowest.findIndex(({ lag_blocks }) => lag_blocks < slow.lag_blocks);
  slowest.splice(at < 0 ? slowest.length : at, 0, slow);
}

function finish<Some extends Totals>(totals: Some): Some {
  return {
    ...totals,
    progress_pct: percent(totals.segments_complete, totals.segments_total),
    rate_blocks_per_second: Math.round(totals.rate_blocks_per_second * 1_000) / 1_000,
  };
}

/** Names that are looked through for what may have been meant. */
const NAMES_MAX = 1_000;

/** What is under an id, or is `name@target_key`; null when there is none. */
export async function findSyncRow(reader: Reader, ref: string): Promise<SyncRow | null> {
  const at = ref.indexOf("@");
  if (at < 0) return (await reader.load(SYNCS, [[ref]]))[0] ?? null;
  const known = syncRefOf(ref);
  const find = async (...more: Condition[]): Promise<SyncRow | null> => {
    const where: Condition[] = [
      { cell: "name", is: "=", value: known.slice(0, at) },
      { cell: "target_key", is: "=", value: known.slice(at + 1) },
      ...more,
    ];
    const order = [{ cell: "sync_id", descending: true }];
    return (await reader.find({ table: SYNCS, where, order, limit: 1 }))[0] ?? null;
  };
  // One that is there goes before those that were removed.
  return (await find({ cell: "state", is: "<>", value: "REMOVED" })) ?? find();
}

/** The same, but refuses what is not there. */
export async function knownSyncRow(reader: Reader, ref: string): Promise<SyncRow> {
  const row = await findSyncRow(reader, ref);
  if (row !== null) return row;
  const at = ref.indexOf("@");
  if (at >= 0) await checkSyncName(reader, ref.slice(0, at));
  throw syncNotFound(ref);
}

/** Refuses a name that no sync is defined under, and says which may have been meant. */
export async function checkSyncName(reader: Reader, name: string): Promise<void> {
  const definitions = await reader.find({
    table: DEFINITIONS,
    where: [{ cell: "kind", is: "=", value: "sync" }],
    order: [{ cell: "name" }],
    limit: NAMES_MAX,
  });
  const names = definitions.map((definition) => definition.name);
  if (names.includes(name)) return;
  const meant = nearMiss(name, names);
  throw new PawlError(
    "SYNC_NOT_FOUND",
    `There is no sync named ${JSON.stringify(name)}` +
      (meant === null ? ". `pawl sync list` shows those there are." : `; did you mean ${meant}?`),
    { details: { name, meant } },
  );
}

/** A segment of a sync, or the refusal that there is none. */
export async function knownSegmentRow(
  reader: Reader,
  sync: SyncRow,
  index: number,
): Promise<SegmentRow> {
  const [row] = await reader.load(SEGMENTS, [[sync.sync_id, index]]);
  if (row !== undefined) return row;
  throw new PawlError(
    "SEGMENT_NOT_FOUND",
    `The sync ${sync.name}@${sync.target_key} has no segment ${index}: there never was one, or ` +
      "smaller ones took its place. `pawl sync segments` shows those there are.",
    { details: { sync_id: sync.sync_id, segment_index: index } },
  );
}
