import type { SegmentRow, SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Anchor } from "../core/source-protocol.ts";
import type { Reader } from "../store/store.ts";
import { anchorsFor } from "./head-value.ts";
import type { SyncSource } from "./needed-head.ts";

/** Segments below the source's own anchors whose ends a look is given. */
const SEGMENTS_GIVEN = 64;

/**
 * The hashes that a look at a head compares, newest first: those kept of the source, and below them
 * the ends of complete segments, so that a deep rewrite is not taken for one of everything. Whichever
 * of them holds, all below it does: a segment is complete only while the source holds to what was known
 * of it.
 */
export async function knownHashes(
  reader: Reader,
  { sync, source }: SyncSource,
  known: SyncSourceRow | null,
): Promise<Anchor[]> {
  const anchors = anchorsFor(known?.anchors ?? []);
  const oldest = anchors.at(-1);
  if (oldest === undefined) return [];
  const [row] = (await reader.find({
    table: TABLES.syncs,
    where: [
      { cell: "name", is: "=", value: sync },
      { cell: "source", is: "=", value: source },
      { cell: "segments_complete", is: ">", value: 0 },
    ],
    order: [{ cell: "sync_id" }],
    limit: 1,
  })) as SyncRow[];
  if (row === undefined) return anchors;
  const segments = (await reader.find({
    table: TABLES.segments,
    where: [
      { cell: "sync_id", is: "=", value: row.sync_id },
      { cell: "from_block", is: "<", value: oldest.block },
      { cell: "to_block", is: "<", value: oldest.block },
      { cell: "status", is: "=", value: "COMPLETE" },
      { cell: "end_hash", is: "not null" },
      // Nobody fetched to its end what was excluded.
      { cell: "excluded", is: "null" },
    ],
    order: [{ cell: "from_block", descending: true }],
    limit: SEGMENTS_GIVEN,
  })) as SegmentRow[];
  const ends = segments.flatMap(({ to_block: block, end_hash: hash }) =>
    hash === null ? [] : [{ block, hash }],
  );
  return [...anchors, ...ends];
}
