import type { ShardKey } from "../../core/step-protocol.ts";
import type { KeyRange } from "../shard.ts";
import { literal, quoted, type SqliteValue, valueOf } from "./literals.ts";
import { onlyTenant, scopeOfRows } from "./scope-sql.ts";
import { nullKey, type TableDetail } from "./table-detail.ts";

/** A condition with the values of its parameters. */
export type Condition = { readonly sql: string; readonly values: readonly SqliteValue[] };

/** How keys are compared: each as one value, in the order of the key's own index. */
export type Comparison = ">" | ">=" | "<" | "<=" | "=";

/** The columns of the key, as a list for a select. */
export function keyColumns(detail: TableDetail): string {
  return detail.key.map(({ name }) => quoted(name)).join(", ");
}

/** The order of the key. */
export function keyOrder(detail: TableDetail): string {
  return detail.key.map(({ name, collation }) => `${quoted(name)} collate ${collation}`).join(", ");
}

/** A comparison of a row's key. The collation stands on the right, where it leaves indexes usable. */
export function compareKey(
  detail: TableDetail,
  comparison: Comparison,
  key: ShardKey | null | undefined,
): Condition {
  if (key === null || key === undefined) return { sql: "1", values: [] };
  const right = detail.key.map(({ collation }) => `? collate ${collation}`).join(", ");
  return { sql: `(${keyColumns(detail)}) ${comparison} (${right})`, values: key.map(valueOf) };
}

/** The rows of a range, up to a key where one is given. */
export function rangeCondition(
  detail: TableDetail,
  range: KeyRange,
  upTo: ShardKey | null = null,
): Condition {
  const useIndex = canUseIndex(detail, range);
  const bounds = boundsCondition(detail, range, upTo);
  return {
    sql: `${bounds.sql} and ${scopeOfRows(detail, range.scope, useIndex)}`,
    values: bounds.values,
  };
}

/** The bounds of a range without its scope. */
export function boundsCondition(
  detail: TableDetail,
  range: KeyRange,
  upTo: ShardKey | null = null,
): Condition {
  return both(
    compareKey(detail, ">", range.after),
    fromCondition(detail, range),
    compareKey(detail, "<", range.below),
    compareKey(detail, "<=", upTo),
  );
}

/**
 * A cursor lies behind the lower bound of its range. The bound is then hidden from the choice of
 * an index (`+`), or SQLite might read from there again for every chunk.
 */
function fromCondition(detail: TableDetail, { after, from }: KeyRange): Condition {
  const condition = compareKey(detail, ">=", from);
  if (after === null || after === undefined || condition.values.length === 0) return condition;
  const columns = keyColumns(detail);
  const hidden = detail.key.map(({ name }) => `+${quoted(name)}`).join(", ");
  return { ...condition, sql: condition.sql.replace(columns, () => hidden) };
}

/** Whether an index leads to the rows in scope in the order of the key, past all others. */
export function canUseIndex(detail: TableDetail, { scope }: KeyRange): boolean {
  return detail.tenantOrdered && onlyTenant(scope) !== null;
}

/** The texts of a key's values. */
export function keyTexts(detail: TableDetail, values: readonly SqliteValue[]): ShardKey {
  return values.map((value, index) => {
    if (value === null) throw nullKey(detail.shape, detail.key[index]?.name ?? "");
    return literal(value);
  });
}

function both(...conditions: readonly Condition[]): Condition {
  const real = conditions.filter(({ sql }) => sql !== "1");
  if (real.length === 0) return { sql: "1", values: [] };
  return {
    sql: real.map(({ sql }) => sql).join(" and "),
    values: real.flatMap(({ values }) => values),
  };
}
