import { PawlError } from "../core/errors.ts";
import { suggestion } from "../core/near-miss.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { SyncTarget } from "../core/sync-spec.ts";
import { targetOfText } from "../core/target-text.ts";
import type { Reader } from "../store/store.ts";
import { type Call, readAt, type Reply } from "./call.ts";
import { cursorOf, keyOfCursor, kindsOf } from "./cursor.ts";
import { checkSyncName } from "./find-sync-row.ts";
import { syncDocuments } from "./sync-document.ts";

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
  const found = (await reader.find({ table: SYNCS, where, order, limit: looked + 1 })) as SyncRow[];
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
