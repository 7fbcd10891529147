import { PawlError } from "../../kernel/errors.ts";
import type { AnyTable, Key, KeyPart } from "../../kernel/table.ts";

/** The text that stands for the place after a key. */
export function cursorOf(key: Key): string {
  return Buffer.from(JSON.stringify(key)).toString("base64url");
}

/** The key that a cursor stands for, with parts of these kinds; `INPUT_INVALID` for another text. */
export function keyOfCursor(cursor: string, kinds: readonly ("int" | "text")[]): Key {
  try {
    const key: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (isKey(key, kinds)) return key;
  } catch {
    // Whatever the text is, it is no cursor; the one answer below says so.
  }
  throw new PawlError(
    "INPUT_INVALID",
    `The cursor ${JSON.stringify(cursor.slice(0, 80))} is not one that a page of this list ended ` +
      "with. Start again without a cursor.",
    { details: { cursor } },
  );
}

/** The kinds of a table's cells, where they are part of a place in a list. */
export function kindsOf(table: AnyTable, cells: readonly string[]): ("int" | "text")[] {
  return cells.map((cell) => (table.cells[cell] === "int" ? "int" : "text"));
}

function isKey(key: unknown, kinds: readonly ("int" | "text")[]): key is KeyPart[] {
  return (
    Array.isArray(key) &&
    key.length === kinds.length &&
    key.every((part, index) =>
      kinds[index] === "int"
        ? Number.isSafeInteger(part)
        : typeof part === "string" && part.isWellFormed() && !part.includes("\u0000"),
    )
  );
}

/** Refuses a range of blocks that ends before it begins. */
export function checkRange(from: number | undefined, to: number | undefined): void {
  if (from === undefined || to === undefined || from <= to) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The range begins at block ${from} and ends before that, at ${to}. Both ends belong to it.`,
    { details: { from_block: from, to_block: to } },
  );
}
