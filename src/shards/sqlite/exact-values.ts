import { PawlError } from "../../kernel/errors.ts";
import type { SqliteValue } from "./literals.ts";

const REPLACEMENT = "\uFFFD";

/**
 * Says how many bytes rows have, about, and refuses texts that do not survive: those that are not
 * UTF-8, which would arrive as other bytes, and those with a NUL, which SQLite itself cuts off.
 */
export function measure(
  table: string,
  rows: readonly (readonly SqliteValue[])[],
  isExact: (row: readonly SqliteValue[], column: number) => boolean,
): number {
  let bytes = 0;
  for (const row of rows) {
    for (let column = 0; column < row.length; column += 1) {
      const value = row[column];
      if (typeof value === "string") {
        bytes += value.length;
        // Of a text in Latin-1, as V8 keeps most, this needs not look at the characters.
        if (value.includes(REPLACEMENT) && !isExact(row, column)) throw inexact(table, "UTF-8");
        if (value.includes("\0")) throw inexact(table, "text: it has a NUL character");
      } else if (value instanceof Uint8Array) bytes += value.length;
      else bytes += 8;
    }
  }
  return bytes;
}

function inexact(table: string, what: string): PawlError {
  return new PawlError(
    "TABLE_UNFIT",
    `The table ${table} cannot be moved: a value in it is marked as text but is no ${what}. Store it as a blob, or correct it.`,
    { details: { table } },
  );
}
