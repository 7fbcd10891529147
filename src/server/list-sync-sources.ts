import type { SyncSourceDocument } from "../core/api/sync-overview-documents.ts";
import { SYNC_SOURCES, type SyncSourceRow, SYNCS } from "../core/rows/sync-rows.ts";
import { compareText, type Condition } from "../core/rows/table.ts";
import type { HeadStatus } from "../engine/head-desk.ts";
import type { LearntSource, Reader } from "../store/store.ts";
import { type Call, readAt, type Reply } from "./call.ts";
import { cursorOf, keyOfCursor } from "./cursor.ts";
import { checkSyncName } from "./find-sync-row.ts";

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
  const rows = (await reader.load(SYNC_SOURCES, keys)) as SyncSourceRow[];
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
