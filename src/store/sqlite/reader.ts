import type { AnyRow, AnyTable, Condition, Find, Key, Table } from "../../kernel/table.ts";
import { decodeHead } from "../ledger-head.ts";
import {
  assertPlainCells,
  decodeCounts,
  decodeRow,
  type RowCodec,
  rowCodec,
  rowTexts,
  StatementReader,
} from "../row-reader.ts";
import { cellList, countStatement, findStatement, keyEquals } from "../statements.ts";
import type { CellValue, GroupCount, Head, RowTexts, WorkspaceId } from "../store.ts";
import { Connection, SQLITE } from "./connection.ts";
import { textKept } from "./long-text.ts";

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
        if (values !== undefined) rows.push(rowKept(codec, values));
      }
      return rows;
    });
  }

  async find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]> {
    this.assertOpen();
    const { sql, parameters } = findStatement(SQLITE, this.ws, find);
    const codec = rowCodec(find.table);
    return this.connection.rows(sql, parameters).map((values) => rowKept(codec, values));
  }

  async findTexts(find: Find): Promise<RowTexts> {
    this.assertOpen();
    const { sql, parameters } = findStatement(SQLITE, this.ws, find);
    const codec = rowCodec(find.table);
    const rows = this.connection.rows(sql, parameters);
    for (const values of rows) expand(codec, values);
    return rowTexts(codec, rows);
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

/** The row whose values the database keeps. */
function rowKept<Row extends AnyRow>(codec: RowCodec<Row>, values: unknown[]): Row {
  expand(codec, values);
  return decodeRow(codec, values);
}

/** Puts long texts in the place of what is kept of them. */
function expand<Row extends AnyRow>({ long }: RowCodec<Row>, values: unknown[]): void {
  for (const at of long) {
    const kept = values[at];
    if (typeof kept === "string") values[at] = textKept(kept);
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

/** Snapshots that may be read at the same time; more wait. */
const READERS_MAX = 4;

/** A few read-only connections, each lent to one reader at a time. */
export class ReaderPool {
  readonly #path: string;
  readonly #idle: Connection[] = [];
  readonly #waiting: ((connection: Connection) => void)[] = [];
  #opened: Connection[] = [];
  #plain: Connection | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** A connection that is never in a transaction, for single look-ups. */
  get plain(): Connection {
    this.#plain ??= new Connection(this.#path, { readonly: true });
    return this.#plain;
  }

  async use<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    const connection = await this.#take();
    try {
      return await body(connection);
    } finally {
      this.#giveBack(connection);
    }
  }

  /** Closes all connections, after the reads that are under way. */
  async close(): Promise<void> {
    this.#plain?.close();
    await Promise.all(this.#opened.map(() => this.#take()));
    for (const connection of this.#opened) connection.close();
    this.#opened = [];
  }

  async #take(): Promise<Connection> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#opened.length < READERS_MAX) {
      const connection = new Connection(this.#path, { readonly: true });
      this.#opened.push(connection);
      return connection;
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #giveBack(connection: Connection): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(connection);
    else next(connection);
  }
}
