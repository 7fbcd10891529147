import { limitOf, parallelOf, syncNotFound, wantedEnd } from "../../work/sync/look-up.ts";
import type {
  SyncDocument,
  NameTotals,
  SlowSync,
  SyncOverview,
  SyncSourceDocument,
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
import { type Key, type Condition, compareText } from "../../kernel/table.ts";
import { type SyncSpec, syncRefOf, type SyncTarget, targetOfText } from "../../work/sync/spec.ts";
import type { Reader, LearntSource } from "../../store/store.ts";
import { PawlError } from "../../kernel/errors.ts";
import { nearMiss, suggestion } from "../../kernel/message-text.ts";
import { type Call, readAt, type Reply } from "../http/call.ts";
import { cursorOf, keyOfCursor, kindsOf } from "../http/read-within.ts";
import type { HeadStatus } from "../../engine/probes/head-polls.ts";

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

/** Syncs that one page looks through for those with some fields in their target. */
const LOOKS_MAX = 2_000;

/** The states of syncs that lists show unless told: all but those that were removed. */
export const SHOWN = ["PENDING", "RUNNING", "PAUSED", "COMPLETE", "FOLLOWING", "FAILED"] as const;

type Query = Call<"listSyncs">["query"];

/** A page of syncs by name and target. */
export function listSyncs(call: Call<"listSyncs">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { page, last } = await syncsAfter(reader, call.query);
    const items = await syncDocuments(reader, page, call.server.now());
    const { pos } = await reader.head();
    const next_cursor =
      last === undefined ? null : cursorOf([last.name, last.target_key, last.sync_id]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

type Page = { page: SyncRow[]; last: SyncRow | undefined };

/** Fields of a target are in its document only, so those are looked for among the rest. */
async function syncsAfter(reader: Reader, query: Query): Promise<Page> {
  const { limit, cursor, target: text, name } = query;
  const wanted = text === undefined ? null : targetOfText(text);
  const where = conditionsOf(query);
  if (cursor !== undefined) {
    where.push({ cells: ALONG, is: "after", key: keyOfCursor(cursor, kindsOf(SYNCS, ALONG)) });
  }
  const order = ALONG.map((cell) => ({ cell }));
  const looked = wanted === null ? limit : LOOKS_MAX;
  const found = await reader.find({ table: SYNCS, where, order, limit: looked + 1 });
  const seen = found.slice(0, looked);
  const matching = wanted === null ? seen : seen.filter(({ target }) => matches(target, wanted));
  const page = matching.slice(0, limit);
  if (page.length === 0 && cursor === undefined) {
    if (name !== undefined && seen.length === 0) await checkSyncName(reader, name);
    if (wanted !== null && found.length <= looked) checkFields(seen, wanted);
  }
  const isCut = matching.length > limit;
  return { page, last: isCut ? page.at(-1) : found.length > looked ? seen.at(-1) : undefined };
}

function conditionsOf({ name, status = [...SHOWN], source }: Query): Condition[] {
  const where: Condition[] = [];
  if (name !== undefined) where.push({ cell: "name", is: "=", value: name });
  if (source !== undefined) where.push({ cell: "source", is: "=", value: source });
  return [...where, { cell: "status", is: "in", values: status }];
}

/** Whether a target has all fields that are wanted. */
export function matches(target: SyncTarget, wanted: SyncTarget): boolean {
  return Object.entries(wanted).every(
    ([field, value]) => Object.hasOwn(target, field) && target[field] === value,
  );
}

/** Refuses a field that none of the targets has: nobody means to look for nothing. */
function checkFields(seen: readonly SyncRow[], wanted: SyncTarget): void {
  const fields = [...new Set(seen.flatMap(({ target }) => Object.keys(target)))];
  const unknown = Object.keys(wanted).find((field) => !fields.includes(field));
  if (unknown === undefined || seen.length === 0) return;
  throw new PawlError(
    "INPUT_INVALID",
    `No target has a field ${JSON.stringify(unknown)}${suggestion(unknown, fields)}; ` +
      `the fields are ${fields.join(", ")}.`,
    { details: { field: unknown, fields } },
  );
}

/** A worker that has not used a source for so long is not there any more. */
const USED_WITHIN_MS = 120_000;

type Used = { name: string; source: string; targets: number };

/** A page of sources by the name of the sync and their own. */
export async function listSyncSources(call: Call<"listSyncSources">): Promise<Reply> {
  const { limit, cursor, name } = call.query;
  const { engine, server } = call;
  const learnt = await server.store.learntSources(engine.workspace.ws, USED_WITHIN_MS);
  const looks = await engine.headStatus();
  return readAt(call, async (reader) => {
    const used = await usedSources(reader, name);
    if (name !== undefined && used.length === 0) await checkSyncName(reader, name);
    const after = cursor === undefined ? null : keyOfCursor(cursor, ["text", "text"]);
    const rest = after === null ? used : used.filter((each) => isAfter(each, after));
    const page = rest.slice(0, limit);
    const last = rest.length > limit ? page.at(-1) : undefined;
    const items = await sourceDocuments(reader, page, learnt, looks);
    const { pos } = await reader.head();
    const next_cursor = last === undefined ? null : cursorOf([last.name, last.source]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

/** What targets are synced from, also where nobody has seen a head yet. */
async function usedSources(reader: Reader, name: string | undefined): Promise<Used[]> {
  const where: Condition[] = [{ cell: "state", is: "<>", value: "REMOVED" }];
  if (name !== undefined) where.push({ cell: "name", is: "=", value: name });
  const groups = await reader.countBy(SYNCS, where, ["name", "source"]);
  return groups
    .map(({ values, count: targets }) => ({ ...(values as Omit<Used, "targets">), targets }))
    .toSorted((a, b) => compareText(a.name, b.name) || compareText(a.source, b.source));
}

function isAfter({ name, source }: Used, key: readonly (string | number)[]): boolean {
  const byName = compareText(name, String(key[0]));
  return byName > 0 || (byName === 0 && compareText(source, String(key[1])) > 0);
}

async function sourceDocuments(
  reader: Reader,
  used: readonly Used[],
  learnt: readonly LearntSource[],
  looks: readonly HeadStatus[],
): Promise<SyncSourceDocument[]> {
  const keys = used.map(({ name, source }) => [name, source]);
  const rows = await reader.load(SYNC_SOURCES, keys);
  const rowOf = new Map(rows.map((row) => [`${row.name}\n${row.source}`, row]));
  const learntOf = new Map(learnt.map((each) => [each.source, each]));
  const lookOf = new Map(looks.map((look) => [`${look.sync}\n${look.source}`, look]));
  return used.map(({ name, source, targets }) => {
    const row = rowOf.get(`${name}\n${source}`);
    const look = lookOf.get(`${name}\n${source}`);
    const asked = learntOf.get(source);
    const rewrite = row?.recent_rewrites.at(-1);
    return {
      name,
      source,
      targets,
      head: row?.head ?? null,
      head_at: row?.head_at ?? null,
      looked_at: look?.looked_at ?? null,
      look_due: look?.is_due ?? false,
      failures: look?.failures ?? 0,
      error: look?.error ?? null,
      rewrites: row?.rewrites ?? 0,
      last_rewrite:
        rewrite === undefined ? null : { fork_block: rewrite.fork_block, at: rewrite.at },
      request_size: asked?.learnt.request_size ?? null,
      interval_ms: asked?.learnt.interval_ms ?? 0,
      throttled_until: asked?.learnt.throttled_until ?? null,
      learnt_at: asked?.learnt_at ?? null,
      workers: asked?.workers ?? 0,
    };
  });
}
