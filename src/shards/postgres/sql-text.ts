import pg from "pg";
import type { Scope, ScopeTest } from "../../work/shard/spec.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import type { KeyRange, TableShape } from "../shard.ts";

/** An identifier as SQL writes it, whatever is in it. */
export const quoted: (name: string) => string = pg.escapeIdentifier;

/** A text as SQL writes it, whatever is in it. */
export const literal: (text: string) => string = pg.escapeLiteral;

/** A text or NULL as SQL writes it. */
export function literalOrNull(text: string | null): string {
  return text === null ? "null" : literal(text);
}

/** A list of texts as one SQL value of type `text[]`. */
export function literalArray(texts: readonly string[]): string {
  const elements = texts.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`);
  return `${literal(`{${elements.join(",")}}`)}::text[]`;
}

/** Where a table is. Names are as the catalogue has them: nothing is folded to lower case. */
export type QualifiedTable = { readonly schema: string; readonly name: string };

/** Reads `table` or `schema.table`; a table whose own name has a dot cannot be named. */
export function tableName(given: string, schema: string): QualifiedTable {
  const dot = given.indexOf(".");
  if (dot < 0) return { schema, name: given };
  return { schema: given.slice(0, dot), name: given.slice(dot + 1) };
}

/** A table in a statement. */
export function tableSql({ schema, name }: QualifiedTable): string {
  return `${quoted(schema)}.${quoted(name)}`;
}

/** The name that Pawl's own tables in the shard know a table by, however it was given. */
export function canonicalName({ schema, name }: QualifiedTable): string {
  return `${schema}.${name}`;
}

/** A list of columns in a statement, each with a prefix. */
export function columnList(names: readonly string[], prefix = ""): string {
  return names.map((name) => prefix + quoted(name)).join(", ");
}

/**
 * A column's type for casts of whole values: without its length, which would cut a value off, and
 * with the collation, which decides how texts compare.
 */
export function castType(type: string): string {
  const [bare = type, collation] = type.split(" collate ");
  const cut = bare.replace(/\([^)]*\)/, "").replace(/^interval .*?(?=(\[\])*$)/, "interval");
  // Without a length these two names mean a length of one, unless they are quoted.
  const named = cut
    .replace(/^character(?=(\[\])*$)/, '"bpchar"')
    .replace(/^bit(?=(\[\])*$)/, '"bit"');
  return collation === undefined ? named : `${named} collate ${collation}`;
}

/** The type of a column of a table. */
export function columnType(table: TableShape, column: string): string {
  const found = table.columns.find(({ name }) => name === column);
  return castType(found?.type ?? "text");
}

/** How a value's text compares with others: byte by byte, whatever order its column has. */
export function exactText(value: string): string {
  return `(${value})::text collate "C"`;
}

/** Whether a value of the column that a table is sharded by is in scope. NULL counts as false. */
export function scopeSql(scope: Scope, value: string, type: string): string {
  if (scope.length === 0) return "true";
  const parts = scope.map(({ any, negate }) => {
    const tests = any.map((test) => testSql(test, value, type));
    const either = tests.length === 0 ? "false" : `(${tests.join(" or ")})`;
    // Only a negation needs to tell NULL from false, and an index serves the plain form alone.
    return negate ? `not coalesce(${either}, false)` : either;
  });
  return `(${parts.join(" and ")})`;
}

function testSql(test: ScopeTest, value: string, type: string): string {
  const typed = (text: string): string => `${literal(text)}::${type}`;
  switch (test.is) {
    case "in": {
      if (test.values.length === 0) return "false";
      const [only] = test.values;
      const isOne = test.values.length === 1 && only !== undefined;
      const [bare = type] = type.split(" collate ");
      const equal = isOne
        ? `${value} = ${typed(only)}`
        : `${value} = any (${literalArray(test.values)}::${bare}[])`;
      if (test.values.every((text) => isOwnText(type, text))) return equal;
      // A tenant is its text. What is equal to it in another one is somebody else's, to fences too;
      // an index serves the first half.
      return isOne
        ? `(${equal} and ${exactText(value)} = ${literal(only)})`
        : `(${equal} and ${exactText(value)} = any (${literalArray(test.values)}))`;
    }
    case "between": {
      const least = test.from === null ? [] : [`${value} >= ${typed(test.from)}`];
      const below = test.below === null ? [] : [`${value} < ${typed(test.below)}`];
      return `(${[`${value} is not null`, ...least, ...below].join(" and ")})`;
    }
    case "hash": {
      if (test.buckets.length === 0) return "false";
      const bytes = `sha256(convert_to(${value}::text, 'UTF8'))`;
      const number = `('x' || substr(encode(${bytes}, 'hex'), 1, 8))::bit(32)::bigint`;
      return `${number} % ${test.modulus} in (${test.buckets.join(", ")})`;
    }
    default:
      return test satisfies never;
  }
}

/** How values of some types are written, and only so: to be equal is then to have the same text. */
const OWN_TEXTS: Readonly<Record<string, RegExp>> = {
  text: /^/,
  "character varying": /^/,
  smallint: /^(?:0|-?[1-9]\d*)$/,
  integer: /^(?:0|-?[1-9]\d*)$/,
  bigint: /^(?:0|-?[1-9]\d*)$/,
  uuid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
};

function isOwnText(type: string, text: string): boolean {
  return OWN_TEXTS[plainType(type)]?.test(text) ?? false;
}

/** Whether values of a type that are equal have the same text, as far as its name tells. */
export function hasOneText(type: string): boolean {
  return ONE_TEXT_TYPES.has(plainType(type));
}

/** Without an order that is known to compare byte by byte; any other may take two texts for one. */
function plainType(type: string): string {
  return type.replace(/ collate "(?:C|POSIX)"$/, "");
}

const ONE_TEXT_TYPES = new Set([
  ...Object.keys(OWN_TEXTS),
  "boolean",
  '"bpchar"',
  "bytea",
  "date",
  "time without time zone",
  "timestamp without time zone",
  "timestamp with time zone",
]);

/** The scope as a condition on the rows of a table. */
export function rowScopeSql(table: TableShape, scope: Scope, prefix = ""): string {
  return scopeSql(scope, prefix + quoted(table.shard_by), columnType(table, table.shard_by));
}

/** A comparison of the key with given values: made by the database, in the order of the key. */
export function keySql(
  table: TableShape,
  operator: ">" | ">=" | "<" | "<=",
  key: ShardKey,
  columns: readonly string[] = table.key.map(quoted),
): string {
  const values = table.key.map((column, index) => {
    const text = key[index] ?? "";
    return `${literal(text)}::${columnType(table, column)}`;
  });
  if (values.length === 1) return `${columns.join()} ${operator} ${values.join()}`;
  return `(${columns.join(", ")}) ${operator} (${values.join(", ")})`;
}

/** A range as a condition on the rows of its table. */
export function rangeSql({ table, scope, after, from, below }: KeyRange): string {
  const parts = [rowScopeSql(table, scope)];
  if (after !== undefined && after !== null) parts.push(keySql(table, ">", after));
  if (from !== undefined && from !== null) parts.push(keySql(table, ">=", from));
  if (below !== undefined && below !== null) parts.push(keySql(table, "<", below));
  return parts.join(" and ");
}

/** The order of a table's key. */
export function keyOrder(table: TableShape): string {
  return columnList(table.key);
}

/**
 * Types whose binary form is the same in every database and says the value exactly. Types with
 * names of one's own have other numbers in each database, so they go by their text.
 */
const EXACT_TYPES = new Set([
  "boolean",
  "smallint",
  "integer",
  "bigint",
  "real",
  "double precision",
  "numeric",
  "text",
  "character varying",
  '"bpchar"',
  "bytea",
  "uuid",
  "date",
  "time without time zone",
  "time with time zone",
  "timestamp without time zone",
  "timestamp with time zone",
  "interval",
  "json",
  "jsonb",
  "inet",
  "cidr",
]);

/** Whether a type comes with PostgreSQL and means the same in every database. */
export function isExactType(type: string): boolean {
  const [bare = ""] = castType(type).split(" collate ");
  return EXACT_TYPES.has(bare.replace(/\[\]$/, ""));
}

/**
 * The digest of one row: 64 bits over its binary form, so that 1.0 and 1.00, or -0 and 0, differ.
 * `hash_record_extended` over the columns themselves is cheaper but combines their hashes by
 * addition: two rows that exchange values would have the same sum.
 */
export function rowDigest(table: TableShape, prefix = ""): string {
  const values = table.columns.map(({ name, type }) => {
    return isExactType(type) ? prefix + quoted(name) : `${prefix}${quoted(name)}::text`;
  });
  return `hash_record_extended(row(record_send(row(${values.join(", ")}))), 0)`;
}

/** Count and digest of rows, given each row's digest: sums do not depend on the order. */
export function digestSql(digest: string): string {
  return `count(*), coalesce(sum(${digest}), 0)`;
}

/** Keys as rows called `given`: one list of texts for each column of the key. */
export function givenKeys(table: TableShape, keys: readonly ShardKey[]): string {
  const lists = table.key.map((_, part) => literalArray(keys.map((key) => key[part] ?? "")));
  const names = table.key.map((_, part) => `k${part}`);
  return `unnest(${lists.join(", ")}) as given(${names.join(", ")})`;
}

/** Whether a row called `present` has the key that `given` is. */
export function hasGivenKey(table: TableShape): string {
  return table.key
    .map(
      (column, part) => `present.${quoted(column)} = given.k${part}::${columnType(table, column)}`,
    )
    .join(" and ");
}

const NEWLINE = 0x0a;

const ESCAPES: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** The values of the last row of what `copy … to stdout` gave, NULL as null; null for no rows. */
export function lastRow(copied: Buffer): (string | null)[] | null {
  if (copied.length === 0) return null;
  const end = copied.at(-1) === NEWLINE ? copied.length - 1 : copied.length;
  // A newline within a value is written as `\n`, so a real one always ends a row.
  const start = copied.lastIndexOf(NEWLINE, end - 1) + 1;
  return copied.toString("utf8", start, end).split("\t").map(fieldValue);
}

function fieldValue(field: string): string | null {
  if (field === "\\N") return null;
  if (!field.includes("\\")) return field;
  return field.replaceAll(/\\(.)/gs, (_, character: string) => ESCAPES[character] ?? character);
}

/** How many fields a row has that PostgreSQL wrote as text: `(1,"a, ""b""",)`. */
export function fieldCount(row: string): number {
  let count = 1;
  let isQuoted = false;
  for (let at = 0; at < row.length; at += 1) {
    const code = row.charCodeAt(at);
    // Within quotes both characters are doubled, or escaped by a backslash.
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) isQuoted = !isQuoted;
    else if (code === COMMA && !isQuoted) count += 1;
  }
  return count;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
