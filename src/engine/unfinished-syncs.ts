import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import type { Condition, Key, Order } from "../core/rows/table.ts";
import type { SyncSpec } from "../core/sync-spec.ts";

const BY_ID: Order[] = [{ cell: "sync_id" }];
/** Definitions that are gone through. */
const DEFINITIONS_MAX = 10_000;

const isState = (...values: SyncRow["state"][]): Condition => ({ cell: "state", is: "in", values });

const isNamed = (name: string): Condition => ({ cell: "name", is: "=", value: name });

const LIVING: Condition = { cell: "state", is: "<>", value: "REMOVED" };

/** The syncs that are not whole, of which there may be any number. */
export const NOT_WHOLE: Condition = isState("PENDING", "RUNNING");

/**
 * Of the syncs that are whole or stand still, at most so many of each sort whose rows say that something
 * was left undone.
 */
export function unfinishedSyncs(rows: Rows, limit: number): string[] {
  const ids = new Set<string>();
  const add = (...where: Condition[]): void => {
    for (const { sync_id } of rows.syncs.find(where, BY_ID, limit)) ids.add(sync_id);
  };
  add(isState("FOLLOWING"), { cell: "segments_pending", is: ">", value: 0 });
  add({ cell: "verify_waiting", is: ">", value: 0 }, LIVING);
  const specs = specsOf(rows);
  for (const [name, { to }] of specs) {
    // Of a range that was fixed and is no more, or ends later than it did.
    const own: Condition = { cell: "to_limit", is: "null" };
    const grown: Condition[] = to === null ? [] : [{ cell: "planned_to", is: "<", value: to }];
    add(isNamed(name), isState("COMPLETE"), own, ...grown);
  }
  for (const id of stoppedSyncs(rows, limit)) ids.add(id);
  return [...ids];
}

/** How far sources and definitions were gone through: what has not changed since is in order. */
export type Swept = { sources: number; definitions: number };

/** Nothing was gone through. */
export const NOTHING_SWEPT: Swept = { sources: 0, definitions: 0 };

/**
 * The questions that the syncs answer which their sources have left behind, of at most so many sources
 * that changed since, and what is gone through with them. There may be thousands of sources, so each
 * is a question by itself.
 */
export function questionsBehind(
  rows: Rows,
  swept: Swept,
  limit: number,
): { questions: Condition[][]; swept: Swept } {
  const specs = specsOf(rows);
  const definitions = definitionsOf(rows).reduce((max, one) => Math.max(max, one.row_version), 0);
  const since = definitions > swept.definitions ? 0 : swept.sources;
  const changed: Condition = { cell: "row_version", is: ">", value: since };
  const sources = rows.syncSources.find([changed], [{ cell: "row_version" }], limit);
  const questions = sources.flatMap((source) => questionsOf(source, specs.get(source.name)));
  return { questions, swept: { sources: sources.at(-1)?.row_version ?? since, definitions } };
}

function questionsOf(
  { name, source, head, rewrites }: SyncSourceRow,
  spec: SyncSpec | undefined,
): Condition[][] {
  if (spec === undefined) return [];
  const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
  const behind: Condition = { cell: "planned_to", is: "<", value: head - spec.finality };
  const unseen: Condition = { cell: "rewrites_seen", is: "<", value: rewrites };
  return [
    [...own, isState("FOLLOWING"), behind],
    ...(rewrites === 0 ? [] : [[...own, isState("FOLLOWING", "COMPLETE", "PAUSED"), unseen]]),
  ];
}

/**
 * The syncs that have not changed since their definition did: whoever published it may have died
 * before each of them was looked at. Worth a look once, when a server starts.
 */
export function unseenSyncs(rows: Rows, limit: number): string[] {
  const definitions = definitionsOf(rows);
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
    rows.syncs.find([...where, LIVING], BY_ID, limit).map(({ sync_id }) => sync_id),
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
  const definitions = definitionsOf(rows);
  rows.specs.need(definitions.map(({ spec_hash }): Key => [spec_hash]));
  return new Map(
    definitions.flatMap(({ name, spec_hash }) => {
      const body = rows.specs.get(spec_hash)?.body;
      return body?.kind === "sync" ? [[name, body] as const] : [];
    }),
  );
}

function definitionsOf(rows: Rows): DefinitionRow[] {
  const ofSyncs: Condition = { cell: "kind", is: "=", value: "sync" };
  return rows.definitions.find([ofSyncs], [{ cell: "name" }], DEFINITIONS_MAX);
}
