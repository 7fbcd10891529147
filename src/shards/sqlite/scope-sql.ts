import type { Scope, ScopeTest } from "../../work/shard/spec.ts";
import { literal, quoted, type SqliteValue, valueOf } from "./literals.ts";
import { type Affinity, type TableDetail, nullKey } from "./table-detail.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import type { KeyRange } from "../shard.ts";

/*
 * What a scope means is the same for a row of a table and for a captured change of it: values are
 * compared byte by byte, and a tenant's text is that of a text or an integer, of nothing else.
 */

/** The text of a tenant in a column or expression; NULL for a value that is no tenant. */
export function tenantText(expression: string): string {
  return `(case when typeof(${expression}) in ('text', 'integer') then cast(${expression} as text) end)`;
}

/** A condition for the rows of a table that are in scope. */
export function scopeOfRows(detail: TableDetail, scope: Scope, useIndex: boolean): string {
  const column = quoted(detail.shape.shard_by);
  return scopeSql(useIndex ? column : `+${column}`, scope, detail.affinity);
}

/** A condition on an expression that holds the value of the column a table is sharded by. */
export function scopeSql(expression: string, scope: Scope, affinity: Affinity): string {
  const parts = scope.map(({ any, negate }) => {
    const tests = any.map((test) => testSql(expression, test, affinity));
    const holds = tests.length === 0 ? "0" : tests.join(" or ");
    return negate ? `not coalesce(${holds}, 0)` : `(${holds})`;
  });
  return parts.length === 0 ? "1" : parts.join(" and ");
}

/** The only tenant that is in scope, when there is just one. */
export function onlyTenant(scope: Scope): string | null {
  const [part, ...others] = scope;
  if (part === undefined || others.length > 0 || part.negate) return null;
  const [test, ...more] = part.any;
  if (test?.is !== "in" || more.length > 0 || test.values.length !== 1) return null;
  return test.values[0] ?? null;
}

function testSql(expression: string, test: ScopeTest, affinity: Affinity): string {
  const text = tenantText(expression);
  switch (test.is) {
    case "in": {
      if (test.values.length === 0) return "0";
      const texts = `${text} collate binary in (${test.values.map(textLiteral).join(", ")})`;
      if (affinity === "blob") return texts;
      // Says nothing more, but an index of the column can answer it.
      const typed = test.values.map((value) => typedLiteral(value, affinity));
      return `(${expression} collate binary in (${typed.join(", ")}) and ${texts})`;
    }
    case "between": {
      const compare = (operator: string, value: string | null): string =>
        value === null
          ? `${expression} is not null`
          : `${expression} collate binary ${operator} ${typedLiteral(value, affinity)}`;
      return `(${compare(">=", test.from)} and ${compare("<", test.below)})`;
    }
    case "hash": {
      const buckets = test.buckets.length === 0 ? "NULL" : test.buckets.join(", ");
      return `coalesce(pawl_bucket(${text}, ${test.modulus}) in (${buckets}), 0)`;
    }
  }
}

/** What a column of numbers makes of a text, without leaving it to where it is compared. */
function typedLiteral(text: string, affinity: Affinity): string {
  const isNumber = affinity === "numeric" && /^\s*[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?\s*$/i.test(text);
  if (!isNumber) return textLiteral(text);
  const value: SqliteValue = /^\s*[+-]?\d{1,18}\s*$/.test(text) ? BigInt(text) : Number(text);
  return literal(value);
}

function textLiteral(text: string): string {
  // SQL ends at a NUL character.
  return text.includes("\0")
    ? `cast(${literal(Buffer.from(text, "utf8"))} as text)`
    : literal(text);
}

/** A condition with the values of its parameters. */
export type SqlCondition = { readonly sql: string; readonly values: readonly SqliteValue[] };

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
): SqlCondition {
  if (key === null || key === undefined) return { sql: "1", values: [] };
  const right = detail.key.map(({ collation }) => `? collate ${collation}`).join(", ");
  return { sql: `(${keyColumns(detail)}) ${comparison} (${right})`, values: key.map(valueOf) };
}

/** The rows of a range, up to a key where one is given. */
export function rangeCondition(
  detail: TableDetail,
  range: KeyRange,
  upTo: ShardKey | null = null,
): SqlCondition {
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
): SqlCondition {
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
function fromCondition(detail: TableDetail, { after, from }: KeyRange): SqlCondition {
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

function both(...conditions: readonly SqlCondition[]): SqlCondition {
  const real = conditions.filter(({ sql }) => sql !== "1");
  if (real.length === 0) return { sql: "1", values: [] };
  return {
    sql: real.map(({ sql }) => sql).join(" and "),
    values: real.flatMap(({ values }) => values),
  };
}
