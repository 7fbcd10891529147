import { limitOf, parallelOf, wantedEnd } from "../controllers/sync-lookup.ts";
import type { SyncDocument } from "../core/api/sync-documents.ts";
import { addMs, type Instant } from "../core/instant.ts";
import {
  type DefinitionRow,
  DEFINITIONS,
  type SpecRow,
  SPECS,
} from "../core/rows/definition-rows.ts";
import {
  SEGMENTS,
  type SegmentRow,
  type SyncRow,
  type SyncSourceRow,
  SYNC_SOURCES,
} from "../core/rows/sync-rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { SyncSpec } from "../core/sync-spec.ts";
import type { Reader } from "../store/store.ts";

/** A sync with its definition, if that is still there, and the head of its source, if it was seen. */
export type KnownSync = { row: SyncRow; spec: SyncSpec | null; source: SyncSourceRow | null };

/** Syncs with their definitions and sources, which many of them share. */
export async function knownSyncs(reader: Reader, rows: readonly SyncRow[]): Promise<KnownSync[]> {
  const names = new Set(rows.map(({ name }) => name));
  const specs = await syncSpecs(reader, [...names]);
  const keys = new Map(rows.map(({ name, source }) => [`${name}\n${source}`, [name, source]]));
  const found = await reader.load(SYNC_SOURCES, [...keys.values()] as Key[]);
  const sources = new Map(
    (found as SyncSourceRow[]).map((source) => [`${source.name}\n${source.source}`, source]),
  );
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
  const definitions = (await reader.load(DEFINITIONS, keys)) as DefinitionRow[];
  const hashes = definitions.map(({ spec_hash }): Key => [spec_hash]);
  const specs = (await reader.load(SPECS, hashes)) as SpecRow[];
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
  const [first] = (await reader.find({
    table: SEGMENTS,
    where: [
      { cell: "sync_id", is: "=", value: syncId },
      { cell: "status", is: "=", value: "FAILED" },
      { cell: "next_retry_at", is: "not null" },
    ],
    order: [{ cell: "next_retry_at" }],
    limit: 1,
  })) as SegmentRow[];
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
