import {
  type AnyRow,
  type AnyTable,
  type Condition,
  type Find,
  type Key,
  type Table,
  keyOf,
  keyText,
} from "../../kernel/table.ts";
import { decodeHead } from "../ledger-head.ts";
import { decodeRow, rowCodec } from "../row-codec.ts";
import { StatementReader, assertPlainCells, decodeCounts } from "../row-reader.ts";
import { cellList, countStatement, findStatement } from "../statements.ts";
import type { CellValue, GroupCount, Head, WorkspaceId } from "../store.ts";
import { type Connection, POSTGRES, arrayText } from "./connection.ts";
import { isInGrid, keyParts, rowsAmong } from "./key-arrays.ts";

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
