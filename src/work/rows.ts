import {
  afterRow,
  type AnyRow,
  type Condition,
  type Key,
  type KeyPart,
  type Order,
  type Table,
} from "../kernel/table.ts";
import type { TABLES, TableName } from "./tables.ts";

/** The row type of a table. */
export type RowOf<Name extends TableName> = Name extends TableName
  ? (typeof TABLES)[Name] extends Table<infer Row>
    ? Row
    : never
  : never;

/**
 * The rows of one table as a decision or the fold sees them. Reading a row that is not in memory
 * throws `RowsMissing`; whoever runs the pure code loads what is missing and runs it again.
 */
export interface RowSet<Row> {
  get(...key: KeyPart[]): Row | null;
  /** Makes sure that all these rows are in memory, with one load for all that are missing. */
  need(keys: readonly Key[]): void;
  /** Writes a row that was read before. */
  put(row: Row): void;
  /** Writes a row that is new by construction, without reading it. */
  insert(row: Row): void;
  delete(...key: KeyPart[]): void;
  /** Rows that fulfil all conditions, in order, with everything decided so far. */
  find(where: readonly Condition[], order: readonly Order[], limit: number): Row[];
}

/** All rows of a workspace. */
export type Rows = { readonly [Name in TableName]: RowSet<RowOf<Name>> };

/** A row that must be there: its absence is a bug. */
export type Readable<Row> = Pick<RowSet<Row>, "get" | "need" | "find">;

/** All rows that fulfil the conditions, read in pages along an order in which no two rows are equal. */
export function findAll<Row extends AnyRow>(
  set: Readable<Row>,
  where: readonly Condition[],
  order: readonly Order[],
  pageSize: number,
): Row[] {
  const all: Row[] = [];
  for (;;) {
    const last = all.at(-1) as AnyRow | undefined;
    const beyond = last === undefined ? [] : [afterRow(last, order)];
    const page = set.find([...where, ...beyond], order, pageSize);
    for (const row of page) all.push(row);
    if (page.length < pageSize) return all;
  }
}
