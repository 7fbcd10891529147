import {
  type AnyRow,
  type AnyTable,
  type Condition,
  type Find,
  type Key,
  type KeyPart,
  keyOf,
  keyText,
  type Table,
} from "../../kernel/table.ts";
import { decodeHead } from "../ledger-head.ts";
import {
  assertPlainCells,
  decodeCounts,
  decodeRow,
  rowCodec,
  rowTexts,
  StatementReader,
} from "../row-reader.ts";
import { cellList, countStatement, findStatement, quotedName } from "../statements.ts";
import type { CellValue, GroupCount, Head, RowTexts, WorkspaceId } from "../store.ts";
import { arrayText, arrayType, type Connection, POSTGRES } from "./connection.ts";

/** How many times as many rows as asked for may be looked up to have the faster statement. */
const GRID_FACTOR_MAX = 2;

const HEAD = "select pos, hash, fold_version, damage from pawl.heads where ws = $1";

/** The end of the workspace's ledger. */
export async function readHead(connection: Connection, ws: WorkspaceId): Promise<Head> {
  const [row] = await connection.rows(HEAD, [ws]);
  return decodeHead(ws, row ?? []);
}

/** Reads of one workspace over one connection, which is in a transaction meanwhile. */
export class PostgresReader extends StatementReader {
  protected readonly connection: Connection;
  protected readonly ws: WorkspaceId;

  constructor(connection: Connection, ws: WorkspaceId) {
    super();
    this.connection = connection;
    this.ws = ws;
  }

  /** What must be done before a read, so that it sees what was written. */
  protected async settle(): Promise<void> {
    this.assertOpen();
  }

  async head(): Promise<Head> {
    await this.settle();
    return readHead(this.connection, this.ws);
  }

  async load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]> {
    await this.settle();
    if (keys.length === 0) return [];
    const parts = keyParts(table, keys);
    const isNearGrid = parts.product <= keys.length * GRID_FACTOR_MAX;
    const columns = isNearGrid ? parts.distinct : parts.columns;
    const sql = isNearGrid
      ? `select ${cellList(table)}\nfrom ${POSTGRES.table(table.name)}\nwhere ${isInGrid(table, 2)}`
      : `select found.*\nfrom ${rowsAmong(table, 2, cellList(table))}`;
    const values = await this.connection.rows(sql, [this.ws, ...columns.map(arrayText)]);
    const codec = rowCodec(table);
    const rows = values.map((row) => decodeRow(codec, row));
    if (!isNearGrid || parts.isGrid) return rows;
    const asked = new Set(keys.map(keyText));
    return rows.filter((row) => asked.has(keyText(keyOf(table, row))));
  }

  async find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]> {
    await this.settle();
    const { sql, parameters } = findStatement(POSTGRES, this.ws, find);
    const codec = rowCodec(find.table);
    const rows = await this.connection.rows(sql, parameters);
    return rows.map((values) => decodeRow(codec, values));
  }

  async findTexts(find: Find): Promise<RowTexts> {
    await this.settle();
    const { sql, parameters } = findStatement(POSTGRES, this.ws, find);
    return rowTexts(rowCodec(find.table), await this.connection.rows(sql, parameters));
  }

  async findCells(find: Find, cells: readonly string[]): Promise<CellValue[][]> {
    await this.settle();
    assertPlainCells(find.table, cells);
    const { sql, parameters } = findStatement(POSTGRES, this.ws, find, cells);
    return (await this.connection.rows(sql, parameters)) as CellValue[][];
  }

  async countBy(
    table: AnyTable,
    where: readonly Condition[],
    cells: readonly string[],
  ): Promise<GroupCount[]> {
    await this.settle();
    const { sql, parameters } = countStatement(POSTGRES, this.ws, table, where, cells);
    return decodeCounts(table, cells, await this.connection.rows(sql, parameters));
  }
}

/** Reads of one snapshot, whose head was read as it was taken. */
export class SnapshotReader extends PostgresReader {
  readonly #head: Head;

  constructor(connection: Connection, ws: WorkspaceId, head: Head) {
    super(connection, ws);
    this.#head = head;
  }

  override async head(): Promise<Head> {
    await this.settle();
    return this.#head;
  }
}

/** Keys taken apart, as the statements below want them. */
export type KeyParts = {
  /** The first parts of all keys, then the second parts … */
  readonly columns: readonly (readonly KeyPart[])[];
  /** The same without repetitions. */
  readonly distinct: readonly (readonly KeyPart[])[];
  /** How many keys can be made of the distinct parts. */
  readonly product: number;
  /** Whether those are just the keys. */
  readonly isGrid: boolean;
};

/** Takes keys apart. */
export function keyParts(table: AnyTable, keys: readonly Key[]): KeyParts {
  const columns = table.key.map((_, index) => keys.map((key) => key[index] as KeyPart));
  const distinct = columns.map((column) => [...new Set(column)]);
  const product = distinct.reduce((all, part) => all * part.length, 1);
  const isGrid = product === keys.length && new Set(keys.map(keyText)).size === keys.length;
  return { columns, distinct, product, isGrid };
}

/**
 * Rows of the workspace ($1) whose every part of the key is in that part's array: one pass along
 * the index, five times as fast as key by key. It finds every combination of the parts.
 */
export function isInGrid(table: AnyTable, first: number): string {
  const terms = table.key.map(
    (cell, index) => `${quotedName(cell)} = any($${first + index}::${arrayOf(table, cell)})`,
  );
  return [`"ws" = $1`, ...terms].join(" and ");
}

/**
 * What to read `cells` of rows of the workspace ($1) with exactly these keys from, each looked up for
 * itself. The offset keeps PostgreSQL to that: on a table that it takes for empty, as it was when it
 * was last analysed, it would compare every row of the workspace with every key.
 */
export function rowsAmong(table: AnyTable, first: number, cells: string): string {
  const arrays = table.key.map((cell, index) => `$${first + index}::${arrayOf(table, cell)}`);
  const parts = table.key.map((_, index) => `part_${index}`);
  const isSame = table.key.map((cell, index) => `${quotedName(cell)} = asked.part_${index}`);
  return `(select distinct * from unnest(${arrays.join(", ")}) as asked (${parts.join(", ")})) asked
cross join lateral (
  select ${cells} from ${POSTGRES.table(table.name)}
  where "ws" = $1 and ${isSame.join(" and ")} offset 0
) found`;
}

function arrayOf(table: AnyTable, cell: string): string {
  return arrayType(table.cells[cell] ?? "text");
}
