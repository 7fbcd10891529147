import { PawlError } from "../../kernel/errors.ts";
import { suggestion } from "../../kernel/near-miss.ts";
import { type SyncRow, SYNCS, SYNC_SOURCES } from "../../work/sync/rows.ts";
import { type Condition, compareText } from "../../kernel/table.ts";
import { type SyncTarget, targetOfText } from "../../work/sync/spec.ts";
import type { Reader, LearntSource } from "../../store/store.ts";
import { type Call, readAt, type Reply } from "../http/call.ts";
import { cursorOf, keyOfCursor, kindsOf } from "../http/cursor.ts";
import { checkSyncName, syncDocuments } from "./sync-documents.ts";
import type { SyncSourceDocument } from "../../work/sync/documents.ts";
import type { HeadStatus } from "../../engine/probes/head-polls.ts";

/** Syncs that one page looks through for those with some fields in their target. */
const LOOKS_MAX = 2_000;

const ALONG = ["name", "target_key", "sync_id"] as const;

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
    .map(({ values, count }) => ({ ...(values as Omit<Used, "targets">), targets: count }))
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
