import { PawlError } from "../../kernel/errors.ts";

/** A value of SQLite in the class it is stored in: a `bigint` is an integer, a `number` a real. */
export type SqliteValue = null | bigint | number | string | Uint8Array;

/** An identifier in quotes. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A value as SQL writes it; the text of a key column is this. */
export function literal(value: SqliteValue): string {
  if (value === null) return "NULL";
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return realLiteral(value);
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  return `X'${Buffer.from(value).toString("hex").toUpperCase()}'`;
}

/** The value of a literal that `literal` or SQLite's `quote()` wrote; refuses anything else. */
export function valueOf(text: string): SqliteValue {
  if (/^-?\d+$/.test(text)) return BigInt(text);
  if (/^'(?:[^']|'')*'$/.test(text)) return text.slice(1, -1).replaceAll("''", "'");
  if (/^X'(?:[0-9A-F]{2})*'$/i.test(text)) return Buffer.from(text.slice(2, -1), "hex");
  if (/^-?\d+(?:\.\d*)?(?:e[+-]?\d+)?$/i.test(text)) return Number(text);
  throw new PawlError(
    "INPUT_INVALID",
    `${text} is no key of an SQLite table: it must be written as a literal of SQL.`,
    { details: { key: text } },
  );
}

/** A real needs a point or an exponent to be read as one again. */
function realLiteral(value: number): string {
  if (value === Infinity) return "9.0e+999";
  if (value === -Infinity) return "-9.0e+999";
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}
