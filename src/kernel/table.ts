/** What a value of a cell is: UTF-8 text, an integer, or a JSON document kept as canonical text. */
export type CellKind = "text" | "int" | "json";

/** The names of a row type's cells. */
export type Cell<Row> = Extract<keyof Row, string>;

/**
 * A kind of rows that the fold writes: its name in the database, its key and its cells. Both stores
 * generate their load and write statements from it, so that no statement is written twice.
 */
export type Table<Row extends AnyRow> = {
  readonly name: string;
  readonly key: readonly Cell<Row>[];
  readonly cells: Readonly<Record<Cell<Row>, CellKind>>;
  /** Cells that never change once the row is there: an update leaves them, and their indexes, alone. */
  readonly fixed?: readonly Cell<Row>[];
  /** Cells of texts that may be long: no statement looks into them, so a store may compress them. */
  readonly long?: readonly Cell<Row>[];
};

/** A cell of a table: what its value is in the database, and in code. */
export type CellOf<Value> = {
  readonly kind: CellKind;
  readonly isFixed?: boolean;
  readonly isLong?: boolean;
} & {
  /** Only for the type checker. */
  readonly value?: Value;
};

/** A cell of UTF-8 text. */
export const text: CellOf<string> = { kind: "text" };

/** A cell of text that is only some texts, or may be null. */
export function textOf<Value extends string | null>(): CellOf<Value> {
  return { kind: "text" };
}

/** A cell of an integer. */
export const int: CellOf<number> = { kind: "int" };

/** A cell of an integer that is only some integers, or may be null. */
export function intOf<Value extends number | null>(): CellOf<Value> {
  return { kind: "int" };
}

/** A cell of a JSON document. */
export function json<Value>(): CellOf<Value> {
  return { kind: "json" };
}

/** A cell that never changes once the row is there. */
export function fixed<Value>(cell: CellOf<Value>): CellOf<Value> {
  return { ...cell, isFixed: true };
}

/** A cell of text or of a document that may be long. */
export function long<Value>(cell: CellOf<Value>): CellOf<Value> {
  return { ...cell, isLong: true };
}

type Cells = Readonly<Record<string, CellOf<unknown>>>;

/** The row that cells make. */
type RowOfCells<Own extends Cells> = {
  -readonly [Name in keyof Own]: Own[Name] extends CellOf<infer Value> ? Value : never;
};

/** The row type of a table. */
export type RowIn<Of> = Of extends Table<infer Row> ? Row : never;

/** Describes a table: its name in the database, the cells of its key, and all its cells. */
export function defineTable<const Own extends Cells>(
  name: string,
  key: readonly Extract<keyof Own, string>[],
  cells: Own,
): Table<RowOfCells<Own>> {
  const own = Object.entries(cells);
  const those = (isOne: (cell: CellOf<unknown>) => boolean | undefined) =>
    own.flatMap(([each, cell]) => (isOne(cell) ? [each as Extract<keyof Own, string>] : []));
  return {
    name,
    key,
    cells: Object.fromEntries(own.map(([cell, { kind }]) => [cell, kind])) as Table<
      RowOfCells<Own>
    >["cells"],
    fixed: those(({ isFixed }) => isFixed),
    long: those(({ isLong }) => isLong),
  };
}

/** A row of any table, where only the descriptor knows its cells. */
export type AnyRow = Readonly<Record<string, unknown>>;

/** A table whose row type does not matter to the reader. */
export type AnyTable = Table<AnyRow>;

/** One part of a row's key. */
export type KeyPart = string | number;

/** A row's key, in the order of the table's key cells. */
export type Key = readonly KeyPart[];

/** The key as one text, for maps: distinct for distinct keys of one table. */
export function keyText(key: Key): string {
  // Spelt out for the usual lengths: this runs for every row that is read or written.
  if (key.length === 2) return `${key[0]}\u0000${key[1]}`;
  return key.length === 1 ? String(key[0]) : key.join("\u0000");
}

/** The key of a row. */
export function keyOf(table: AnyTable, row: AnyRow): Key {
  const [first, second] = table.key as [string, string | undefined];
  if (table.key.length > 2) return table.key.map((cell) => row[cell] as KeyPart);
  const head = row[first] as KeyPart;
  return second === undefined ? [head] : [head, row[second] as KeyPart];
}

/** One condition on a cell; several are joined by "and". */
export type Condition =
  | {
      readonly cell: string;
      readonly is: "=" | "<" | "<=" | ">" | ">=" | "<>";
      readonly value: KeyPart;
    }
  | { readonly cell: string; readonly is: "in" | "not in"; readonly values: readonly KeyPart[] }
  | { readonly cell: string; readonly is: "null" | "not null" }
  /** The first cells in order, compared as a tuple: the place where a page goes on. */
  | { readonly cells: readonly string[]; readonly is: "after"; readonly key: Key };

/** Which way a list runs along a cell. */
export type Order = { readonly cell: string; readonly descending?: boolean };

/** The place behind a row, from where the next page goes on. */
export function afterRow(row: AnyRow | undefined, order: readonly Order[]): Condition {
  const cells = order.map(({ cell }) => cell);
  return { cells, is: "after", key: cells.map((cell) => row?.[cell] as KeyPart) };
}

/** A bounded look-up along an index: rows that fulfil all conditions, in order. */
export type Find<Row extends AnyRow = AnyRow> = {
  readonly table: Table<Row>;
  readonly where: readonly Condition[];
  readonly order: readonly Order[];
  readonly limit: number;
};

/** Whether a row fulfils all conditions of a look-up; null compares as absent, as in SQL. */
export function fulfils(row: AnyRow, find: Find): boolean {
  return find.where.every((condition) => holds(row, condition, find.order));
}

function holds(row: AnyRow, condition: Condition, order: readonly Order[]): boolean {
  if (condition.is === "after") return isAfter(row, condition.cells, condition.key, order);
  const value = row[condition.cell] as KeyPart | null;
  if (condition.is === "null") return value === null;
  if (value === null) return false;
  switch (condition.is) {
    case "not null":
      return true;
    case "in":
      return condition.values.includes(value);
    case "not in":
      return !condition.values.includes(value);
    case "=":
      return value === condition.value;
    case "<>":
      return value !== condition.value;
    case "<":
      return compareParts(value, condition.value) < 0;
    case "<=":
      return compareParts(value, condition.value) <= 0;
    case ">":
      return compareParts(value, condition.value) > 0;
    case ">=":
      return compareParts(value, condition.value) >= 0;
  }
}

function isAfter(
  row: AnyRow,
  cells: readonly string[],
  key: Key,
  order: readonly Order[],
): boolean {
  for (const [index, cell] of cells.entries()) {
    const compared = compareParts(row[cell] as KeyPart, key[index] as KeyPart);
    if (compared !== 0) return order[index]?.descending === true ? compared < 0 : compared > 0;
  }
  return false;
}

/** The order of two rows in a look-up. */
export function compareRows(a: AnyRow, b: AnyRow, order: readonly Order[]): number {
  for (const { cell, descending } of order) {
    const compared = compareParts(a[cell] as KeyPart, b[cell] as KeyPart);
    if (compared !== 0) return descending === true ? -compared : compared;
  }
  return 0;
}

function compareParts(a: KeyPart, b: KeyPart): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return compareText(String(a), String(b));
}

/**
 * The order of texts by code point, which is the order of their UTF-8 bytes: what SQLite's BINARY
 * and PostgreSQL's "C" collation use. JavaScript's own `<` differs beyond the basic plane.
 */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const left = a.charCodeAt(index);
    const right = b.charCodeAt(index);
    if (left !== right) {
      const bothSurrogateOrNeither = isSurrogate(left) === isSurrogate(right);
      return bothSurrogateOrNeither ? left - right : isSurrogate(left) ? 1 : -1;
    }
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}
