import { PawlError } from "../core/errors.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { currentSync, type PinnedSync } from "./sync-lookup.ts";

/** The sync of a name and a target that was not removed; null when there is none. */
export function livingSync(rows: Rows, name: string, targetKey: string): SyncRow | null {
  return syncsOfTarget(rows, name, targetKey, { cell: "state", is: "<>", value: "REMOVED" });
}

function syncsOfTarget(
  rows: Rows,
  name: string,
  targetKey: string,
  ...more: Condition[]
): SyncRow | null {
  const where: Condition[] = [
    { cell: "name", is: "=", value: name },
    { cell: "target_key", is: "=", value: targetKey },
    ...more,
  ];
  return rows.syncs.find(where, [{ cell: "sync_id", descending: true }], 1)[0] ?? null;
}

/** The sync under an id, or of `name@target_key`; refuses what there is not. */
export function knownSync(rows: Rows, reference: string): SyncRow {
  const found = rows.syncs.get(reference) ?? ofTarget(rows, reference);
  if (found !== null) return found;
  throw new PawlError(
    "SYNC_NOT_FOUND",
    `There is no sync ${JSON.stringify(reference)}. \`pawl sync list\` shows those there are.`,
    { details: { sync: reference } },
  );
}

/** One that is there goes before those that were removed. */
function ofTarget(rows: Rows, reference: string): SyncRow | null {
  const at = reference.indexOf("@");
  if (at < 0) return null;
  const [name, targetKey] = [reference.slice(0, at), reference.slice(at + 1)];
  return livingSync(rows, name, targetKey) ?? syncsOfTarget(rows, name, targetKey);
}

/** The current definition of syncs of a name; refuses one that there is not. */
export function knownDefinition(rows: Rows, name: string): PinnedSync {
  const definition = currentSync(rows, name);
  if (definition !== null) return definition;
  throw new PawlError(
    "SYNC_NOT_FOUND",
    `There is no definition of a sync ${JSON.stringify(name)}. Define it in code and publish it ` +
      "with `pawl deploy`.",
    { details: { sync: name } },
  );
}
