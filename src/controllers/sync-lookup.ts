import { OPEN_SEGMENTS } from "./segment-lookup.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import { type SyncSpec, targetKeyOf } from "../core/sync-spec.ts";

/** A sync's spec and the hash that pins it. */
export type PinnedSync = { spec: SyncSpec; spec_hash: string };

/** The current definition of syncs of a name; null when there is none. */
export function currentSync(rows: Rows, name: string): PinnedSync | null {
  const definition = rows.definitions.get("sync", name);
  if (definition === null) return null;
  const { spec_hash } = definition;
  const body = rows.specs.get(spec_hash)?.body;
  return body?.kind === "sync" ? { spec: body, spec_hash } : null;
}

/** Whether looks at heads compare hashes for syncs of a name, so that a rewrite does not go unseen. */
export function seesRewrites(rows: Rows, name: string): boolean {
  const has = currentSync(rows, name)?.spec.has;
  return has?.head === true && has.hash;
}

/** How many segments of a sync may run at once. */
export function parallelOf(
  sync: Pick<SyncRow, "max_parallel">,
  spec: Pick<SyncSpec, "max_parallel" | "splittable">,
): number {
  return spec.splittable ? (sync.max_parallel ?? spec.max_parallel) : 1;
}

/** The last block of a sync's fixed range; null when it follows the head. */
export function limitOf(sync: SyncRow, spec: SyncSpec): number | null {
  return sync.to_limit ?? spec.to;
}

/** The newest block that may be fetched; null while the head is not known. */
export function safeEnd(spec: SyncSpec, source: SyncSourceRow | null): number | null {
  // Without a head to ask for, the whole of a fixed range is there.
  if (!spec.has.head) return Number.MAX_SAFE_INTEGER - 1;
  if (source === null) return null;
  const safe = source.head - spec.finality;
  if (!spec.has.hash) return safe;
  // Beyond the newest known hash a rewrite would go unseen, as where less finality is asked for since.
  return Math.min(safe, source.anchors.at(-1)?.block ?? -1);
}

/** The last block that should be planned by now; null while that is not known. */
export function wantedEnd(
  sync: SyncRow,
  spec: SyncSpec,
  source: SyncSourceRow | null,
): number | null {
  const safe = safeEnd(spec, source);
  const limit = limitOf(sync, spec);
  if (safe === null) return null;
  if (limit !== null) return Math.min(safe, limit);
  return spec.has.head ? safe : null;
}

/**
 * The end of the longest complete prefix when these segments are complete, and others, from
 * `openedFrom` on, are open.
 */
export function syncedTo(
  rows: Rows,
  sync: SyncRow,
  change: { completing?: number; openedFrom?: number | null },
): number {
  const { completing, openedFrom } = change;
  const where = [{ cell: "sync_id", is: "=", value: sync.sync_id }, OPEN_SEGMENTS] as const;
  const [open] = rows.segments
    .find(where, [{ cell: "from_block" }], 2)
    .filter(({ segment_index }) => segment_index !== completing);
  const first = Math.min(
    open?.from_block ?? Number.POSITIVE_INFINITY,
    openedFrom ?? Number.POSITIVE_INFINITY,
  );
  return Number.isFinite(first) ? first - 1 : (sync.planned_to ?? sync.from_block - 1);
}

const namedBy = new WeakMap<SyncSpec, ReadonlySet<string>>();

/** The targets that a definition names. Made once for a definition: every sync of it asks. */
export function targetsOf(spec: SyncSpec): ReadonlySet<string> {
  const known = namedBy.get(spec);
  if (known !== undefined) return known;
  const named = new Set(spec.targets.map(targetKeyOf));
  namedBy.set(spec, named);
  return named;
}

/** Whether code made the sync and does not name it any more. */
export function hasLeftCode(sync: SyncRow, spec: SyncSpec | null): boolean {
  return sync.origin === "code" && (spec === null || !targetsOf(spec).has(sync.target_key));
}
