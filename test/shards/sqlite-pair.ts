import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { asRefusal, enterRead, enterWrite, leave } from "../../src/shards/sqlite/enter.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import type { Dialect, OpenTransaction, ShardPair, Side } from "./conformance/shard-conformance.ts";

const DIALECT: Dialect = {
  kinds: {
    ddl: `create table kinds (id integer primary key, tenant text not null, "int" integer,
      "real" real, "text" text, "blob" blob, "numeric" numeric, "any", "date" text, "json" text,
      "Mixed ""case""" text, doubled integer generated always as ("int" * 2) virtual)`,
    values: [
      `1, 1.5, 'text', X'00ff', 12, 'any', '2026-01-02T03:04:05Z', '{"a":[1,null,"x"]}', 'm'`,
      `9223372036854775807, 0.1, '', X'', 1.25, 1, '1970-01-01', '[]', ''`,
      `-9223372036854775808, -1.7976931348623157e308, 'it''s "quoted"', X'27', 'no number', 1.0, '', 'null', ''''`,
      `9007199254740993, 5e-324, 'line
break and	tab', NULL, 9007199254740993, X'31', NULL, '{}', 'x'`,
      "0, 9e999, 'grüße 🚀 日本 \uFFFD', zeroblob(1000), 1e300, '1', NULL, NULL, NULL",
      "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
      "-1, -0.0, ' padded ', X'FF', -0.0, -9e999, 'null', '\"\"', 'NULL'",
    ],
  },
  keyed: [
    {
      table: "texts",
      ddl: "create table texts (k text primary key, tenant text, note text)",
      inserts: ["''", "'a'", "'A'", "'b''c'", "'é'", "'z'", "'10'", "'9'"].map(
        (key) => `insert into texts values (${key}, 'a', ${key})`,
      ),
    },
    {
      table: "blobs",
      ddl: "create table blobs (k blob primary key, tenant text) without rowid",
      inserts: ["X''", "X'00'", "X'0001'", "X'FF'", "1", "1.5", "'text'"].map(
        (key) => `insert into blobs values (${key}, 'a')`,
      ),
    },
    {
      table: "NoCase Order",
      ddl: `create table "NoCase Order" ("Group" text collate nocase, "select" real not null,
        tenant text, primary key ("Group", "select")) strict`,
      inserts: ["'a', 1.5", "'B', -3", "'C', 1e300", "'a', -1e-300", "'b', 0", "'ä', 3"].map(
        (key) => `insert into "NoCase Order" values (${key}, 'a')`,
      ),
    },
    {
      table: "wide",
      ddl: `create table wide (tenant text not null, b integer, c text collate rtrim, d blob,
        primary key (tenant, b desc, c, d)) without rowid`,
      inserts: ["2, 'x', X'01'", "1, 'x', X'01'", "1, 'x', X'02'", "1, 'w', X'09'"].map(
        (key) => `insert into wide values ('a', ${key})`,
      ),
    },
    {
      table: "big",
      ddl: "create table big (k integer primary key, tenant text)",
      inserts: ["9223372036854775807", "-9223372036854775808", "9007199254740993", "0"].map(
        (key) => `insert into big values (${key}, 'a')`,
      ),
    },
  ],
  serials:
    "create table serials (id integer primary key autoincrement, tenant text not null, note text)",
  keyless: "create table keyless (tenant text)",
  loose: [
    { ...sharded("by_nocase", "text collate nocase"), one: "'acme'", other: "'ACME'" },
    { ...sharded("by_rtrim", "varchar(9) collate rtrim"), one: "'acme'", other: "'acme '" },
    { ...sharded("by_any", "any"), one: "1", other: "1.0" },
    { ...sharded("by_nothing", ""), one: "1", other: "1.0" },
  ],
  exact: [
    { ...sharded("of_text", "text"), tenant: "Acme ", others: [] },
    { ...sharded("of_varchar", "varchar(20)"), tenant: "007", others: [] },
    { ...sharded("of_number", "numeric"), tenant: "x", others: ["1.5", ".5", "1e3"] },
    {
      ...sharded("of_integer", "integer"),
      tenant: "-7",
      others: ["007", "+7", "7.0", "-0", " 7", "9223372036854775808"],
    },
  ],
  ordered: [
    {
      table: "in_case",
      ddl: ["create table in_case (id text collate nocase primary key, tenant text)"],
    },
  ],
  respelled: [
    { ...keyedBy("re_case", "text collate nocase"), one: "'acme'", other: "'ACME'" },
    { ...keyedBy("re_trim", "text collate rtrim"), one: "'acme'", other: "'acme '" },
    { ...keyedBy("re_any", "any"), one: "1", other: "1.0" },
    { ...keyedBy("re_real", "real"), one: "0.0", other: "-0.0" },
  ],
  uncapturable: {
    table: "broken",
    // Somebody has a trigger with the name of ours, on another table.
    ddl: [
      "create table broken (id integer primary key, tenant text)",
      "create table odd (id integer primary key)",
      "create trigger _pawl_before_insert_broken after insert on odd begin select 1; end",
    ],
    reason: /already exists/,
  },
};

function sharded(table: string, type: string): { table: string; type: string; ddl: string[] } {
  return { table, type, ddl: [`create table ${table} (id integer primary key, tenant ${type})`] };
}

function keyedBy(table: string, type: string): { table: string; ddl: string[] } {
  const ddl = `create table ${table} (tenant text, k ${type} not null primary key, note text)`;
  return { table, ddl: [ddl] };
}

/** A pair whose files an application can open too. */
export type SqlitePair = ShardPair & { readonly files: Readonly<Record<Side, string>> };

/** Makes two empty SQLite files and opens a shard on each. */
export async function openSqlitePair(): Promise<SqlitePair> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-shards-"));
  const files = { source: join(folder, "source.db"), target: join(folder, "target.db") };
  for (const file of Object.values(files)) {
    const db = new Database(file);
    db.pragma("journal_mode = wal");
    db.close();
  }
  const open = (side: Side) => openSqliteShard({ file: files[side], busyTimeoutMs: 2_000 });
  const shards = { source: await open("source"), target: await open("target") };
  const on = <T>(side: Side, act: (db: Database.Database) => T): T => {
    const db = new Database(files[side]);
    try {
      return refusing(() => act(db));
    } finally {
      db.close();
    }
  };
  return {
    ...shards,
    files,
    dialect: DIALECT,
    open,
    sql: async (side, text) => on(side, (db) => run(db, text)),
    dump: async (side, table) => on(side, (db) => dump(db, table)),
    write: async (side, tenant, epoch, ...statements) =>
      on(side, (db) =>
        db
          .transaction(() => {
            enterWrite(db, tenant, epoch);
            for (const text of statements) db.exec(text);
            leave(db);
          })
          .immediate(),
      ),
    read: async (side, tenant, epoch, text) =>
      on(side, (db) =>
        db.transaction(() => {
          enterRead(db, tenant, epoch);
          return run(db, text);
        })(),
      ),
    begin: async (side, entered) => begin(files[side], entered),
    close: async () => {
      await shards.source.close();
      await shards.target.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function run(db: Database.Database, text: string): unknown[][] {
  const statement = db.prepare(text);
  if (statement.reader) return statement.raw().all() as unknown[][];
  statement.run();
  return [];
}

/** Every value as a literal, which says its class too. */
function dump(db: Database.Database, table: string): string[] {
  const name = `"${table}"`;
  const columns = db.prepare(`select name from pragma_table_xinfo(?)`).pluck().all(table);
  const texts = columns.map((column) => `quote("${String(column).replaceAll('"', '""')}")`);
  const select = `select ${texts.join(" || ', ' || ")} from ${name} order by 1`;
  return db.prepare(select).pluck().all().map(String);
}

function begin(file: string, entered: { tenant: string; epoch: number } | null): OpenTransaction {
  const db = new Database(file);
  refusing(() => {
    db.exec("begin immediate");
    if (entered !== null) enterWrite(db, entered.tenant, entered.epoch);
  });
  const end = (sql: string): void => {
    db.exec(sql);
    db.close();
  };
  return {
    sql: async (text) => {
      refusing(() => db.exec(text));
    },
    commit: async () => {
      leave(db);
      end("commit");
    },
    rollback: async () => end("rollback"),
  };
}

function refusing<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw asRefusal(error) ?? error;
  }
}
