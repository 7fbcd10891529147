import { assert } from "../kernel/errors.ts";
import { canonicalJson } from "../kernel/canonical.ts";
import type { AnyRow, AnyTable, CellKind, Table } from "../kernel/table.ts";

/** What a cell holds in the database; JSON documents are there as canonical text. */
export type StoredValue = string | number | null;

/**
 * Turns the rows of one table into the values of its columns and back, in the order of the
 * descriptor's cells.
 */
export type RowCodec<Row extends AnyRow = AnyRow> = {
  readonly table: Table<Row>;
  readonly names: readonly string[];
  readonly kinds: readonly CellKind[];
};

const codecs = new WeakMap<AnyTable, RowCodec>();

/** The codec of a table; the same one each time. */
export function rowCodec<Row extends AnyRow>(table: Table<Row>): RowCodec<Row> {
  const known = codecs.get(table) as RowCodec<Row> | undefined;
  if (known !== undefined) return known;
  const kinds: CellKind[] = Object.values(table.cells);
  const codec = { table, names: Object.keys(table.cells), kinds };
  codecs.set(table, codec);
  return codec;
}

/** Puts the row's values into `values` from `offset` on: the hot path, so nothing is allocated. */
export function encodeInto(
  values: StoredValue[],
  offset: number,
  { table, names, kinds }: RowCodec,
  row: AnyRow,
): void {
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    const value = row[name];
    if (value === undefined) assert(false, `a row of ${table.name} has the cell ${name}`);
    values[offset + index] = encoded(kinds[index] as CellKind, value);
  }
}

/** The value of a cell as the database keeps it. JSON null is SQL null. */
export function encoded(kind: CellKind, value: unknown): StoredValue {
  if (kind !== "json" || value === null) return value as StoredValue;
  return typeof value === "object" ? documentText(value) : canonicalJson(value);
}

/** Texts of documents that were written before: rows are values, so a document never changes. */
const documentTexts = new WeakMap<object, string>();

/** A run's row is written several times with the same list of keys: the text is made once. */
function documentText(document: object): string {
  let text = documentTexts.get(document);
  if (text === undefined) {
    text = canonicalJson(document);
    documentTexts.set(document, text);
  }
  return text;
}

/** The row of a table whose values stand in `values` in the order of the cells. */
export function decodeRow<Row extends AnyRow>(
  { table, names, kinds }: RowCodec<Row>,
  values: readonly unknown[],
): Row {
  const row: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    row[name] = decoded(table, name, kinds[index] as CellKind, values[index]);
  }
  // Every cell was checked for its kind; what more its type says, the fold alone has written.
  return row as Row;
}

/** The value of a cell, checked for its kind. */
export function decoded(table: AnyTable, name: string, kind: CellKind, value: unknown): unknown {
  if (value === null) return null;
  if (kind === "int") {
    assert(typeof value === "number", `${table.name}.${name} is an integer`);
    return value;
  }
  assert(typeof value === "string", `${table.name}.${name} is text`);
  return kind === "json" ? JSON.parse(value) : value;
}
