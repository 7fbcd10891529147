import { PawlError } from "../core/errors.ts";
import { nearMiss } from "../core/near-miss.ts";
import { type DefinitionRow, DEFINITIONS } from "../core/rows/definition-rows.ts";
import { SEGMENTS, type SegmentRow, type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { syncRefOf } from "../core/target-text.ts";
import type { Reader } from "../store/store.ts";

/** Names that are looked through for what may have been meant. */
const NAMES_MAX = 1_000;

/** What is under an id, or is `name@target_key`; null when there is none. */
export async function findSyncRow(reader: Reader, ref: string): Promise<SyncRow | null> {
  const at = ref.indexOf("@");
  if (at < 0) return ((await reader.load(SYNCS, [[ref]])) as SyncRow[])[0] ?? null;
  const known = syncRefOf(ref);
  const find = async (...more: Condition[]): Promise<SyncRow | null> => {
    const where: Condition[] = [
      { cell: "name", is: "=", value: known.slice(0, at) },
      { cell: "target_key", is: "=", value: known.slice(at + 1) },
      ...more,
    ];
    const order = [{ cell: "sync_id", descending: true }];
    return ((await reader.find({ table: SYNCS, where, order, limit: 1 })) as SyncRow[])[0] ?? null;
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
  throw new PawlError(
    "SYNC_NOT_FOUND",
    `There is no sync ${JSON.stringify(ref)}. \`pawl sync list\` shows those there are.`,
    { details: { sync: ref } },
  );
}

/** Refuses a name that no sync is defined under, and says which may have been meant. */
export async function checkSyncName(reader: Reader, name: string): Promise<void> {
  const definitions = (await reader.find({
    table: DEFINITIONS,
    where: [{ cell: "kind", is: "=", value: "sync" }],
    order: [{ cell: "name" }],
    limit: NAMES_MAX,
  })) as DefinitionRow[];
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
  const [row] = (await reader.load(SEGMENTS, [[sync.sync_id, index]])) as SegmentRow[];
  if (row !== undefined) return row;
  throw new PawlError(
    "SEGMENT_NOT_FOUND",
    `The sync ${sync.name}@${sync.target_key} has no segment ${index}: there never was one, or ` +
      "smaller ones took its place. `pawl sync segments` shows those there are.",
    { details: { sync_id: sync.sync_id, segment_index: index } },
  );
}
