import type { Scope, ScopeTest } from "../../core/topology.ts";
import { literal, quoted, type SqliteValue } from "./literals.ts";
import type { Affinity, TableDetail } from "./table-detail.ts";

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
