import { PawlError } from "../core/errors.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import type { Key } from "../core/rows/table.ts";

/** The split under an id; refuses what there is not. */
export function knownSplit(rows: Rows, reference: string): SplitRow {
  const found = rows.splits.get(reference);
  if (found !== null) return found;
  throw new PawlError(
    "SPLIT_NOT_FOUND",
    `There is no split ${JSON.stringify(reference)}. \`pawl split list\` shows those there are.`,
    { details: { split: reference } },
  );
}

/** Refuses tenants that an active split is about. */
export function refuseSplitTenants(rows: Rows, tenants: readonly string[], action: string): void {
  rows.splitTenants.need(tenants.map((tenant): Key => [tenant]));
  for (const tenant of tenants) {
    const other = rows.splitTenants.get(tenant);
    if (other === null) continue;
    const { split_id } = other;
    throw new PawlError(
      "SPLIT_OVERLAPS",
      `The tenant ${JSON.stringify(tenant)} is under the split ${split_id}, so ${action} has to ` +
        "wait. Complete that split or roll it back first.",
      { details: { tenant, split_id } },
    );
  }
}
