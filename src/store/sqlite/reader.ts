import type { AnyRow, AnyTable, Condition, Find, Key, Table } from "../../kernel/table.ts";
import { decodeHead } from "../ledger-head.ts";
import { decodeRow, rowCodec } from "../row-codec.ts";
import { StatementReader, assertPlainCells, decodeCounts } from "../row-reader.ts";
import { cellList, countStatement, findStatement, keyEquals } from "../statements.ts";
import type { CellValue, GroupCount, Head, WorkspaceId } from "../store.ts";
import { SQLITE, type Connection } from "./connection.ts";

const HEAD = "select pos, hash, fold_version, damage from heads where ws = ?";

/** The end of the workspace's ledger. */
export function readHead(connection: Connection, ws: WorkspaceId): Head {
  return decodeHead(ws, connection.row(HEAD, [ws]) ?? []);
}

/** Reads of one workspace over one connection, which is in a transaction meanwhile. */
export class SqliteReader extends StatementReader {
  protected readonly connection: Connection;
  protected readonly ws: WorkspaceId;

  constructor(connection: Connection, ws: WorkspaceId) {
    super();
    this.connection = connection;
    this.ws = ws;
  }

  async head(): Promise<Head> {
    this.assertOpen();
    return readHead(this.connection, this.ws);
  }

  /** One prepared look-up per key: in the same process that is faster than a list of keys. */
  async load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]> {
    this.assertOpen();
    const codec = rowCodec(table);
    const statement = this.connection.prepared(loadByKey(table));
    const parameters: unknown[] = [this.ws];
    return this.connection.guard(() => {
      const rows: Row[] = [];
      for (const key of keys) {
        for (let index = 0; index < key.length; index++) parameters[index + 1] = key[index];
        const values = statement.get(parameters) as unknown[] | undefined;
        if (values !== undefined) rows.push(decodeRow(codec, values));
      }
      return rows;
    });
  }

  async find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]> {
    this.assertOpen();
    const { sql, parameters } = findStatement(SQLITE, this.ws, find);
    const codec = rowCodec(find.table);
    return this.connection.rows(sql, parameters).map((values) => decodeRow(codec, values));
  }

  async findCells(find: Find, cells: readonly string[]): Promise<CellValue[][]> {
    this.assertOpen();
    assertPlainCells(find.table, cells);
    const { sql, parameters } = findStatement(SQLITE, this.ws, find, cells);
    return this.connection.rows(sql, parameters) as CellValue[][];
  }

  async countBy(
    table: AnyTable,
    where: readonly Condition[],
    cells: readonly string[],
  ): Promise<GroupCount[]> {
    this.assertOpen();
    const { sql, parameters } = countStatement(SQLITE, this.ws, table, where, cells);
    return decodeCounts(table, cells, this.connection.rows(sql, parameters));
  }
}

const loadsByKey = new WeakMap<AnyTable, string>();

/** The look-up of one row by its key; its text is made once, as commits load rows all the time. */
function loadByKey(table: AnyTable): string {
  let sql = loadsByKey.get(table);
  if (sql === undefined) {
    sql =
      `select ${cellList(table)}\nfrom ${SQLITE.table(table.name)}\n` +
      `where ${keyEquals(SQLITE, table, 1)}`;
    loadsByKey.set(table, sql);
  }
  return sql;
}
