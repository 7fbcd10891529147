import type { NewEvent } from "../core/events/index.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow } from "../core/rows/sync-rows.ts";
import { type SyncSpec, targetKeyOf } from "../core/sync-spec.ts";
import { type AddedSync, addedSync, syncsAdded } from "./add-sync.ts";
import { leftCode } from "./advance-sync.ts";
import type { Context } from "./decision.ts";
import { hasLeftCode } from "./sync-lookup.ts";

/** Most targets that one event adds. */
const TARGETS_IN_EVENT_MAX = 500;
/** Most syncs of one name. */
const SYNCS_MAX = 1_000_000;

/** Definitions of syncs that change with a publish: what they become, null for those that go. */
export type SyncPublication = { name: string; spec: SyncSpec | null };

/**
 * What publishing definitions of syncs does to the syncs: targets that code names are added, and
 * those that it does not name any more are removed, as many as there is room for; the rest removes
 * itself when it is next looked at. What the API added stays.
 */
export function publishSyncs(
  rows: Rows,
  publications: readonly SyncPublication[],
  room: number,
  context: Context,
): NewEvent[] {
  const living = publications.map(({ name }) => livingSyncs(rows, name));
  const events = publications.flatMap(({ spec }, index) =>
    spec === null ? [] : additions(spec, living[index] ?? [], context),
  );
  for (const [index, { spec }] of publications.entries()) {
    for (const sync of living[index] ?? []) {
      if (!hasLeftCode(sync, spec)) continue;
      if (events.length >= room) return events;
      // Each of them stops its runs by itself: of thousands, that is too much for one decision.
      events.push(leftCode(sync));
    }
  }
  return events;
}

function livingSyncs(rows: Rows, name: string): SyncRow[] {
  const where = [
    { cell: "name", is: "=", value: name },
    { cell: "state", is: "<>", value: "REMOVED" },
  ] as const;
  return rows.syncs.find(where, [{ cell: "target_key" }, { cell: "sync_id" }], SYNCS_MAX);
}

function additions(spec: SyncSpec, living: readonly SyncRow[], context: Context): NewEvent[] {
  const known = new Set(living.map(({ target_key }) => target_key));
  const added = spec.targets
    .filter((target) => !known.has(targetKeyOf(target)))
    .map((target) => addedSync(spec, target, {}, context));
  const events: NewEvent[] = [];
  for (let at = 0; at < added.length; at += TARGETS_IN_EVENT_MAX) {
    const [first, ...rest] = added.slice(at, at + TARGETS_IN_EVENT_MAX);
    const page: [AddedSync, ...AddedSync[]] | null = first === undefined ? null : [first, ...rest];
    if (page !== null) events.push(syncsAdded(spec.name, "code", page));
  }
  return events;
}
