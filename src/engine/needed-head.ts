import type { SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { SyncSpec } from "../core/sync-spec.ts";
import type { Reader } from "../store/store.ts";

/** Syncs that are read at once in search of one that needs the head. */
const PAGE = 1_000;

/** The syncs that go on with their source. */
export const LOOKING: Condition = {
  cell: "state",
  is: "in",
  values: ["PENDING", "RUNNING", "FOLLOWING"],
};

/** A source of a sync. */
export type SyncSource = { sync: string; source: string };

/** A head that is worth looking up. */
export type NeededHead = {
  /** One of those that need it. */
  row: SyncRow;
  known: SyncSourceRow | null;
};

/** Whether a sync may still grow, or waits for blocks to become safe. */
function needsHead(row: SyncRow, spec: SyncSpec, known: SyncSourceRow | null): boolean {
  const end = row.to_limit ?? spec.to;
  if (end === null || row.planned_to === null || row.planned_to < end) return true;
  // Nothing runs while the head is not known, as of a range that was planned when there was none; and
  // a rewrite may have put the head back below what was planned before.
  if (known === null || row.planned_to > known.head - spec.finality) return true;
  // What is open is not fetched before a hash is known, nor complete while the source has left one, and
  // only a look finds out that the source was rewritten.
  return row.synced_to < row.planned_to && (spec.has.hash || known.anchors.length > 0);
}

/** The head of a source, when one of its syncs has a use for it. */
export async function neededHead(
  reader: Reader,
  { sync, source }: SyncSource,
  spec: SyncSpec | undefined,
): Promise<NeededHead | null> {
  if (spec === undefined || !spec.has.head) return null;
  const [found] = await reader.load(TABLES.syncSources, [[sync, source]]);
  const known = (found ?? null) as SyncSourceRow | null;
  let after = "";
  // Mostly the first one needs it.
  for (let limit = 1; ; limit = PAGE) {
    const rows = (await reader.find({
      table: TABLES.syncs,
      where: [
        { cell: "name", is: "=", value: sync },
        { cell: "source", is: "=", value: source },
        LOOKING,
        { cell: "sync_id", is: ">", value: after },
      ],
      order: [{ cell: "sync_id" }],
      limit,
    })) as SyncRow[];
    const row = rows.find((candidate) => needsHead(candidate, spec, known));
    if (row !== undefined) return { row, known };
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return null;
    after = last.sync_id;
  }
}
