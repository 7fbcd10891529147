import type { SegmentStatusShown } from "../core/api/sync-documents.ts";
import { PawlError } from "../core/errors.ts";
import { SEGMENT_COUNTERS } from "../core/fold/fold-segments.ts";
import { type SegmentRow, SEGMENTS, type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { SyncTarget } from "../core/sync-spec.ts";
import { targetOfText } from "../core/target-text.ts";
import type { Reader } from "../store/store.ts";
import { type Call, readAt, type Reply } from "./call.ts";
import { checkRange } from "./check-range.ts";
import { cursorOf, keyOfCursor } from "./cursor.ts";
import { knownSyncRow } from "./find-sync-row.ts";
import { matches, SHOWN } from "./list-syncs.ts";
import { isAbandoned, quarantineDocuments, segmentDocuments } from "./segment-document.ts";

/** Segments that one page looks through for those that only their document tells. */
const LOOKS_MAX = 2_000;

/** Syncs whose segments are looked for at once, and by one page at most. */
const SYNCS_READ = 200;
const SYNCS_LOOKED_AT_MAX = 4_000;

/** A place behind every block. */
const END = Number.MAX_SAFE_INTEGER;

type Wanted = readonly SegmentStatusShown[] | undefined;

/** The statuses of rows among which those are that are wanted. */
function rowStatuses(status: readonly SegmentStatusShown[]): SegmentRow["status"][] {
  return [...new Set(status.map((each) => (each === "ABANDONED" ? "QUARANTINED" : each)))];
}

/** Whether a row that was found by its status is one of those that are wanted. */
function isWanted(row: SegmentRow, status: Wanted): boolean {
  if (status === undefined || status.includes(row.status)) return true;
  return status.includes("ABANDONED") && isAbandoned(row);
}

/** Whether statuses of rows tell what is wanted: what was abandoned is a part of what was set aside. */
function isExact(status: Wanted): boolean {
  return status === undefined || !status.includes("ABANDONED") || status.includes("QUARANTINED");
}

/** The segments of a sync by their blocks; what a verification found is in its document only. */
export function listSegments(call: Call<"listSegments">): Promise<Reply> {
  const { limit, cursor, status, verification, from_block: from, to_block: to } = call.query;
  checkRange(from, to);
  return readAt(call, async (reader) => {
    const { sync_id } = await knownSyncRow(reader, call.params.sync);
    const where = conditionsOf(sync_id, call.query);
    if (cursor !== undefined) {
      const after = Number(keyOfCursor(cursor, ["int"])[0]);
      where.push({ cell: "from_block", is: ">", value: after });
    }
    const looked = verification === undefined && isExact(status) ? limit : LOOKS_MAX;
    const order = [{ cell: "from_block" }];
    const find = { table: SEGMENTS, where, order, limit: looked + 1 };
    const found = (await reader.find(find)) as SegmentRow[];
    const seen = found.slice(0, looked);
    const matching = seen.filter(
      (row) =>
        isWanted(row, status) &&
        (row.verification === null || (verification?.includes(row.verification.status) ?? true)),
    );
    const page = matching.slice(0, limit);
    const isCut = matching.length > limit;
    const last = isCut ? page.at(-1) : found.length > looked ? seen.at(-1) : undefined;
    const items = await segmentDocuments(page, reader);
    const { pos } = await reader.head();
    const next_cursor = last === undefined ? null : cursorOf([last.from_block]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

function conditionsOf(syncId: string, query: Call<"listSegments">["query"]): Condition[] {
  const { status, verification, from_block: from, to_block: to } = query;
  const where: Condition[] = [{ cell: "sync_id", is: "=", value: syncId }];
  if (status !== undefined) {
    where.push({ cell: "status", is: "in", values: rowStatuses(status) });
  }
  if (verification !== undefined) where.push({ cell: "verification", is: "not null" });
  if (from !== undefined) where.push({ cell: "to_block", is: ">=", value: from });
  if (to !== undefined) where.push({ cell: "from_block", is: "<=", value: to });
  return where;
}

type Query = Call<"listAllSegments">["query"];
type Place = readonly [syncId: string, block: number];

/** Segments of all syncs that match, sync by sync; a page looks at so many syncs and no more. */
export function listAllSegments(call: Call<"listAllSegments">): Promise<Reply> {
  const { limit, cursor } = call.query;
  const wanted = wantedTarget(call.query);
  const key = cursor === undefined ? null : keyOfCursor(cursor, ["text", "int"]);
  let place: Place | null = key === null ? null : [String(key[0]), Number(key[1])];
  return readAt(call, async (reader) => {
    const rows: SegmentRow[] = [];
    let isOver = false;
    for (let looked = 0; looked < SYNCS_LOOKED_AT_MAX && !isOver; looked += SYNCS_READ) {
      const syncs: SyncRow[] = await syncsFrom(reader, call.query, place?.[0] ?? null);
      const matching = syncs.filter((sync) => matches(sync.target, wanted));
      const found = await segmentsOf(reader, matching, call.query, place, limit - rows.length);
      rows.push(...found);
      isOver = syncs.length < SYNCS_READ;
      const last = found.at(-1);
      if (rows.length === limit && last !== undefined) {
        place = [last.sync_id, last.from_block];
        isOver = false;
        break;
      }
      const end = syncs.at(-1);
      if (end !== undefined) place = [end.sync_id, END];
    }
    const items = await quarantineDocuments(rows, reader);
    const { pos } = await reader.head();
    const next_cursor = isOver || place === null ? null : cursorOf([...place]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

/** The fields that a target must have. */
function wantedTarget({ target, network }: Query): SyncTarget {
  const fields = target === undefined ? {} : targetOfText(target);
  if (network === undefined) return fields;
  const named = Object.hasOwn(fields, "network") ? fields["network"] : network;
  if (named === network) return { ...fields, network };
  throw new PawlError(
    "INPUT_INVALID",
    `The network is ${JSON.stringify(network)} and the target says ${JSON.stringify(named)}. ` +
      "Say one of them.",
    { details: { network, target: target ?? null } },
  );
}

/** Syncs by their id, from one on; those that cannot have such a segment are among them. */
async function syncsFrom(reader: Reader, query: Query, from: string | null): Promise<SyncRow[]> {
  const where: Condition[] = [{ cell: "status", is: "in", values: [...SHOWN] }];
  if (query.name !== undefined) where.push({ cell: "name", is: "=", value: query.name });
  if (query.source !== undefined) where.push({ cell: "source", is: "=", value: query.source });
  if (from !== null) where.push({ cell: "sync_id", is: ">=", value: from });
  const find = { table: SYNCS, where, order: [{ cell: "sync_id" }], limit: SYNCS_READ };
  return (await reader.find(find)) as SyncRow[];
}

/** At most so many segments of some syncs behind a place. */
async function segmentsOf(
  reader: Reader,
  syncs: readonly SyncRow[],
  { status }: Query,
  place: Place | null,
  limit: number,
): Promise<SegmentRow[]> {
  const has = (sync: SyncRow): boolean =>
    status === undefined || rowStatuses(status).some((each) => sync[SEGMENT_COUNTERS[each]] > 0);
  const ids = syncs.filter(has).map(({ sync_id }) => sync_id);
  const segments: SegmentRow[] = [];
  const along = ["sync_id", "from_block"] as const;
  let after = place;
  while (ids.length > 0 && segments.length < limit) {
    const where: Condition[] = [{ cell: "sync_id", is: "in", values: ids }];
    if (status !== undefined) {
      where.push({ cell: "status", is: "in", values: rowStatuses(status) });
    }
    if (after !== null) where.push({ cells: along, is: "after", key: [...after] });
    const order = along.map((cell) => ({ cell }));
    // Where few of those that are read may be wanted, many are read at once.
    const looked = isExact(status) ? limit + 1 : LOOKS_MAX;
    const found = (await reader.find({
      table: SEGMENTS,
      where,
      order,
      limit: looked,
    })) as SegmentRow[];
    segments.push(...found.filter((row) => isWanted(row, status)));
    const last = found.at(-1);
    if (last === undefined || found.length < looked) break;
    after = [last.sync_id, last.from_block];
  }
  return segments.slice(0, limit);
}
