import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import type { Condition, Key, Order } from "../core/rows/table.ts";
import type { SyncSpec } from "../core/sync-spec.ts";

const BY_ID: Order[] = [{ cell: "sync_id" }];
/** Sources and definitions that are gone through. */
const SOURCES_MAX = 10_000;

const isState = (...values: SyncRow["state"][]): Condition => ({ cell: "state", is: "in", values });

const isNamed = (name: string): Condition => ({ cell: "name", is: "=", value: name });

/**
 * The syncs that may have something to be decided, at most so many of each sort: what is not whole,
 * and of the others only those whose rows say that something was left undone.
 */
export function unfinishedSyncs(rows: Rows, limit: number): string[] {
  const ids = new Set<string>();
  const add = (...where: Condition[]): void => {
    for (const { sync_id } of rows.syncs.find(where, BY_ID, limit)) ids.add(sync_id);
  };
  add(isState("PENDING", "RUNNING"));
  add(isState("FOLLOWING"), { cell: "segments_pending", is: ">", value: 0 });
  add({ cell: "verify_waiting", is: ">", value: 0 });
  const specs = specsOf(rows);
  for (const [name, { to }] of specs) {
    // Of a range that was fixed and is no more, or ends later than it did.
    const own: Condition = { cell: "to_limit", is: "null" };
    const grown: Condition[] = to === null ? [] : [{ cell: "planned_to", is: "<", value: to }];
    add(isNamed(name), isState("COMPLETE"), own, ...grown);
  }
  for (const { name, source, head, rewrites } of sourcesOf(rows)) {
    const spec = specs.get(name);
    if (spec === undefined) continue;
    const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
    const behind: Condition = { cell: "planned_to", is: "<", value: head - spec.finality };
    add(...own, isState("FOLLOWING"), behind);
    if (rewrites === 0) continue;
    const unseen: Condition = { cell: "rewrites_seen", is: "<", value: rewrites };
    add(...own, isState("FOLLOWING", "COMPLETE", "PAUSED"), unseen);
  }
  for (const id of stoppedSyncs(rows, limit)) ids.add(id);
  return [...ids];
}

/**
 * The syncs that have not changed since their definition did: whoever published it may have died
 * before each of them was looked at. Worth a look once, when a server starts.
 */
export function unseenSyncs(rows: Rows, limit: number): string[] {
  const ofSyncs: Condition = { cell: "kind", is: "=", value: "sync" };
  const definitions = rows.definitions.find([ofSyncs], [{ cell: "name" }], SOURCES_MAX);
  const living: Condition = { cell: "state", is: "<>", value: "REMOVED" };
  const names = definitions.map(({ name }) => name);
  const gone: Condition[] = [
    { cell: "name", is: "not in", values: names },
    { cell: "origin", is: "=", value: "code" },
  ];
  const older = definitions.map(({ name, row_version }): Condition[] => [
    isNamed(name),
    { cell: "row_version", is: "<", value: row_version },
  ]);
  return [gone, ...older].flatMap((where) =>
    rows.syncs.find([...where, living], BY_ID, limit).map(({ sync_id }) => sync_id),
  );
}

/** Syncs that stand still while some of their runs may not have been told. */
function stoppedSyncs(rows: Rows, limit: number): string[] {
  const running = rows.segments.find(
    [{ cell: "run_pos", is: "not null" }],
    [{ cell: "sync_id" }, { cell: "segment_index" }],
    limit,
  );
  const ids = [...new Set(running.map(({ sync_id }) => sync_id))];
  rows.syncs.need(ids.map((id): Key => [id]));
  return ids.filter((id) => {
    const state = rows.syncs.get(id)?.state;
    return state === "PAUSED" || state === "REMOVED";
  });
}

function specsOf(rows: Rows): Map<string, SyncSpec> {
  const ofSyncs: Condition = { cell: "kind", is: "=", value: "sync" };
  const definitions = rows.definitions.find([ofSyncs], [{ cell: "name" }], SOURCES_MAX);
  rows.specs.need(definitions.map(({ spec_hash }): Key => [spec_hash]));
  return new Map(
    definitions.flatMap(({ name, spec_hash }) => {
      const body = rows.specs.get(spec_hash)?.body;
      return body?.kind === "sync" ? [[name, body] as const] : [];
    }),
  );
}

function sourcesOf(rows: Rows): SyncSourceRow[] {
  return rows.syncSources.find([], [{ cell: "name" }, { cell: "source" }], SOURCES_MAX);
}
