import { createHash } from "node:crypto";
import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { TableShape } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { quoted, type SqliteValue } from "./literals.ts";

/** How SQLite compares values with a column of a declared type. */
export type Affinity = "text" | "numeric" | "real" | "blob";

/** What the driver knows of a table beside its shape. */
export type TableDetail = {
  readonly shape: TableShape;
  /** The table's name in quotes. */
  readonly sql: string;
  /** The columns of the key with the collation that the key is ordered by. */
  readonly key: readonly {
    readonly name: string;
    readonly collation: string;
    readonly nullable: boolean;
    /** The key is the rowid: it has no index of its own and is never NULL. */
    readonly isRowid: boolean;
  }[];
  /** Of the column that the table is sharded by. */
  readonly affinity: Affinity;
  /** The columns of each constraint that no two rows may agree in, the key first. */
  readonly uniques: readonly (readonly { readonly name: string; readonly collation: string }[])[];
  /** Whether an index gives the rows of one tenant in the order of the key. */
  readonly tenantOrdered: boolean;
  readonly autoincrement: boolean;
};

/** Stands for the column that an index of a rowid table ends with; no column has this name. */
const ROWID = "";

const COLLATIONS = new Set(["BINARY", "NOCASE", "RTRIM"]);

type Column = {
  name: string;
  type: string;
  notNull: boolean;
  keyIndex: number;
  hidden: number;
};

type Index = {
  unique: boolean;
  origin: string;
  partial: boolean;
  /** A null name is an expression. */
  columns: { name: string | null; collation: string; key: boolean }[];
};

/** Looks a table up. Throws TABLE_UNFIT for what cannot be moved. */
export function tableDetail(db: ShardDatabase, policy: TablePolicy): TableDetail {
  const found = db.get(
    `select l.name, l.type, l.wr, l.strict, s.sql from pragma_table_list l
     join sqlite_schema s on s.type in ('table', 'view') and s.name = l.name
     where l.schema = 'main' and l.name = ? collate nocase`,
    policy.table,
  );
  if (found === undefined) throw unfit(policy, "is not there");
  const [name, type, withoutRowid, strict, ddl] = found;
  if (type !== "table") throw unfit(policy, `is no plain table but a ${String(type)} one`);
  const table = String(name);
  const columns = columnsOf(db, table);
  const shardBy = columns.find((column) => sameName(column.name, policy.shard_by));
  if (shardBy === undefined) throw unfit(policy, `has no column ${policy.shard_by}`);
  const stored = columns.filter((column) => column.hidden === 0);
  const affinity = affinityOf(shardBy.type);
  if (!stored.includes(shardBy)) throw unfit(policy, `computes ${shardBy.name} from other columns`);
  if (affinity === "real") throw unfit(policy, `has inexact numbers in ${shardBy.name}`);

  const indexes = indexesOf(db, table);
  const key = keyOf(policy, columns, indexes, withoutRowid !== 0n);
  const uniques = uniquesOf(policy, key, indexes);
  const shape = {
    table: policy.table,
    shard_by: shardBy.name,
    columns: stored.map((column) => ({ name: column.name, type: column.type })),
    key: key.map((column) => column.name),
    references: referencesOf(db, table),
    fingerprint: fingerprintOf([
      table.toLowerCase(),
      columns.map((column) => [
        column.name,
        column.type.toUpperCase(),
        column.notNull,
        column.hidden,
      ]),
      key.map((column) => [column.name, column.collation]),
      [String(withoutRowid), String(strict)],
    ]),
  };
  return {
    shape,
    sql: quoted(table),
    key,
    affinity,
    uniques,
    tenantOrdered: indexes.some((index) => isTenantOrdered(index, shardBy.name, key)),
    autoincrement: /\bautoincrement\b/i.test(String(ddl)),
  };
}

/** One fingerprint for all tables together. */
export function commonFingerprint(details: readonly TableDetail[]): string {
  return fingerprintOf(details.map(({ shape }) => shape.fingerprint));
}

/** Refuses a table with rows that have a NULL in their key: they come in no order. */
export function refuseNullKeys(db: ShardDatabase, detail: TableDetail): void {
  for (const { name } of detail.key.filter((column) => column.nullable)) {
    const sql = `select 1 from ${detail.sql} where ${quoted(name)} is null limit 1`;
    if (db.get(sql) !== undefined) throw nullKey(detail.shape, name);
  }
}

/** Says that a row has a NULL in its key. */
export function nullKey(shape: TableShape, column: string): PawlError {
  return unfit(
    shape,
    `has a row with NULL in its key column ${column}: give it a value, or delete it`,
  );
}

/** Whether two names mean the same to SQLite. */
export function sameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** Says why a table cannot be moved. */
export function unfit(policy: TablePolicy, reason: string): PawlError {
  return new PawlError("TABLE_UNFIT", `The table ${policy.table} cannot be moved: it ${reason}.`, {
    details: { table: policy.table, shard_by: policy.shard_by },
  });
}

function columnsOf(db: ShardDatabase, table: string): Column[] {
  return db
    .all(`select name, type, "notnull", pk, hidden from pragma_table_xinfo(?)`, table)
    .map(([name, type, notNull, keyIndex, hidden]) => ({
      name: String(name),
      type: String(type),
      notNull: notNull !== 0n,
      keyIndex: Number(keyIndex),
      hidden: Number(hidden),
    }));
}

function indexesOf(db: ShardDatabase, table: string): Index[] {
  const listed = db.all(`select name, "unique", origin, partial from pragma_index_list(?)`, table);
  return listed.map(([name, unique, origin, partial]) => ({
    unique: unique !== 0n,
    origin: String(origin),
    partial: partial !== 0n,
    columns: db
      .all("select name, coll, key, cid from pragma_index_xinfo(?) order by seqno", name ?? null)
      .map(([column, collation, isKey, columnId]) => ({
        name: columnId === -2n ? null : column === null ? ROWID : String(column),
        collation: String(collation),
        key: isKey !== 0n,
      })),
  }));
}

function keyOf(
  policy: TablePolicy,
  columns: readonly Column[],
  indexes: readonly Index[],
  withoutRowid: boolean,
): TableDetail["key"] {
  const key = columns
    .filter((column) => column.keyIndex > 0)
    .toSorted((one, other) => one.keyIndex - other.keyIndex);
  if (key.length === 0) throw unfit(policy, "has no primary key");
  const index = indexes.find(({ origin }) => origin === "pk");
  return key.map(({ name, notNull }) => {
    const collation = index?.columns.find((column) => column.name === name)?.collation ?? "BINARY";
    if (!COLLATIONS.has(collation.toUpperCase())) {
      throw unfit(
        policy,
        `orders its key by the collation ${collation}, which only the application has`,
      );
    }
    const isRowid = index === undefined;
    return { name, collation, nullable: !notNull && !withoutRowid && !isRowid, isRowid };
  });
}

function uniquesOf(
  policy: TablePolicy,
  key: TableDetail["key"],
  indexes: readonly Index[],
): TableDetail["uniques"] {
  const others = indexes.filter((index) => index.unique && index.origin !== "pk");
  return [
    key,
    ...others.map((index) =>
      index.columns
        .filter((column) => column.key)
        .map(({ name, collation }) => {
          // A row that REPLACE takes away for it could not be found.
          if (name === null) throw unfit(policy, "has a unique index on an expression");
          return { name, collation };
        }),
    ),
  ];
}

/**
 * Keys of several columns are left out: SQLite would look at the tenant alone and read all of its
 * rows for each chunk.
 */
function isTenantOrdered(index: Index, shardBy: string, key: TableDetail["key"]): boolean {
  const [first, second] = index.columns;
  const [column, ...others] = key;
  if (index.partial || column === undefined || others.length > 0) return false;
  if (first?.name !== shardBy || first.collation.toUpperCase() !== "BINARY") return false;
  return second?.name === (column.isRowid ? ROWID : column.name);
}

function referencesOf(db: ShardDatabase, table: string): string[] {
  const rows = db.all(`select distinct "table" from pragma_foreign_key_list(?)`, table);
  return rows
    .map(([name]) => String(name))
    .filter((name) => !sameName(name, table))
    .toSorted();
}

/** The rules of https://sqlite.org/datatype3.html, in their order. */
function affinityOf(type: string): Affinity {
  if (/int/i.test(type)) return "numeric";
  if (/char|clob|text/i.test(type)) return "text";
  if (type === "" || /blob|^any$/i.test(type)) return "blob";
  if (/real|floa|doub/i.test(type)) return "real";
  return "numeric";
}

function fingerprintOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 32);
}

const known = new WeakMap<
  ShardDatabase,
  { version: SqliteValue; tables: Map<string, TableDetail> }
>();

/**
 * What a table looks like in the transaction at hand, looked up once for each version of the
 * schema. Not for transactions that change the schema: another can have the same version later.
 */
export function lookUp(db: ShardDatabase, { table, shard_by }: TablePolicy): TableDetail {
  const version = db.value("pragma schema_version");
  let entry = known.get(db);
  if (entry === undefined || entry.version !== version) {
    entry = { version, tables: new Map() };
    known.set(db, entry);
  }
  const name = JSON.stringify([table, shard_by]);
  const detail = entry.tables.get(name) ?? tableDetail(db, { table, shard_by });
  entry.tables.set(name, detail);
  return detail;
}
