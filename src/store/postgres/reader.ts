import { assert } from "../../core/assert.ts";
import type { AnyRow, AnyTable, Condition, Find, Key } from "../../core/rows/table.ts";
import { decodeRow, rowCodec } from "../row-codec.ts";
import { RowReader, decodeCounts } from "../row-reader.ts";
import { cellList, countStatement, findStatement, quoted } from "../statements.ts";
import type { GroupCount, Head, WorkspaceId } from "../store.ts";
import { type Connection, POSTGRES, arrayText, arrayType } from "./connection.ts";

const HEAD = "select pos, hash, fold_version from pawl.heads where ws = $1";

/** The end of the workspace's ledger. */
export async function readHead(connection: Connection, ws: WorkspaceId): Promise<Head> {
  const [row] = await connection.rows(HEAD, [ws]);
  return decodeHead(ws, row);
}

/** A head from the values of its columns. */
export function decodeHead(ws: WorkspaceId, row: readonly unknown[] | undefined): Head {
  const [pos, hash, foldVersion] = row ?? [];
  assert(
    typeof pos === "number" && typeof hash === "string" && typeof foldVersion === "number",
    `workspace ${ws} has a head`,
  );
  return { pos, hash, fold_version: foldVersion };
}

/** Reads of one workspace over one connection, which is in a transaction meanwhile. */
export class PostgresReader extends RowReader {
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

  async load(table: AnyTable, keys: readonly Key[]): Promise<AnyRow[]> {
    await this.settle();
    if (keys.length === 0) return [];
    const columns = table.key.map((_, index) => arrayText(keys.map((key) => key[index] ?? null)));
    const rows = await this.connection.rows(loadStatement(table), [this.ws, ...columns]);
    const codec = rowCodec(table);
    return rows.map((values) => decodeRow(codec, values));
  }

  async find(find: Find): Promise<AnyRow[]> {
    await this.settle();
    const { sql, parameters } = findStatement(POSTGRES, this.ws, find);
    const codec = rowCodec(find.table);
    const rows = await this.connection.rows(sql, parameters);
    return rows.map((values) => decodeRow(codec, values));
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

const loadStatements = new WeakMap<AnyTable, string>();

function loadStatement(table: AnyTable): string {
  let sql = loadStatements.get(table);
  if (sql === undefined) {
    const name = POSTGRES.table(table.name);
    const keys = keyArrays(table, 2);
    // A key given twice is one row, as one `in` the other store; hence no plain join.
    sql =
      `select ${cellList(table)}\nfrom ${name}\nwhere "ws" = $1\n` +
      `  and (${table.key.map(quoted).join(", ")}) in (select * from unnest(${keys}))`;
    if (table.key.length === 1) {
      sql = `select ${cellList(table)}\nfrom ${name}\nwhere "ws" = $1\n  and ${quoted(table.key[0] ?? "")} = any(${keys})`;
    }
    loadStatements.set(table, sql);
  }
  return sql;
}

/** Parameters that hold the parts of keys, one array for each part. */
export function keyArrays(table: AnyTable, first: number): string {
  return table.key
    .map((cell, index) => `$${first + index}::${arrayType(table.cells[cell] ?? "text")}`)
    .join(", ");
}
