import type Database from "better-sqlite3";
import type { TablePolicy } from "../../src/work/shard/spec.ts";
import type { Random } from "../simulation/random.ts";

/** Tables with foreign keys, values that must be unique, and keys of several columns. */
export const SCHEMA: readonly string[] = [
  `create table accounts (id integer primary key, tenant text not null, email text unique,
    n integer not null)`,
  `create table orders (code text not null, line integer not null, tenant text not null,
    account integer references accounts (id) on delete cascade on update cascade,
    n integer not null, primary key (code, line)) without rowid`,
  `create table notes (id text primary key not null, tenant text not null,
    account integer references accounts (id) on delete set null on update cascade, body blob)`,
];

/** The tables, each after those that it refers to. */
export const TABLES: readonly TablePolicy[] = ["accounts", "orders", "notes"].map((table) => ({
  table,
  shard_by: "tenant",
}));

/** All tenants: two that are split off, one that stays, and one that has been on the target always. */
export const TENANTS = ["t1", "t2", "stays", "native"] as const;
export type Tenant = (typeof TENANTS)[number];
/** Those that are split off. */
export const MOVING: readonly Tenant[] = ["t1", "t2"];

/** Ids of tenants lie between each other, and no two have the same. */
function idOf(random: Random, tenant: Tenant): number {
  return random.integer(1, 12) * TENANTS.length + TENANTS.indexOf(tenant);
}

function emailOf(random: Random, tenant: Tenant): string {
  return `${tenant}-${random.integer(1, 15)}`;
}

/** A statement and its parameters: few texts, so that each is prepared once. */
export type Drawn = { sql: string; values: (string | number | null)[] };

/** Rows that a tenant has from the beginning. */
export function firstRows(random: Random, tenant: Tenant, most: number): Drawn[] {
  return Array.from({ length: random.integer(0, most) }, () => insertOf(random, tenant));
}

function insertOf(random: Random, tenant: Tenant): Drawn {
  const id = idOf(random, tenant);
  const isAlone = random.chance(0.3);
  const account = isAlone ? "null" : "(select min(id) from accounts where tenant = ? and id >= ?)";
  const accountOf = isAlone ? [] : [tenant, idOf(random, tenant)];
  switch (random.pick(["accounts", "accounts", "orders", "notes"] as const)) {
    case "accounts": {
      const email = random.chance(0.2) ? null : emailOf(random, tenant);
      const sql = "insert or ignore into accounts (id, tenant, email, n) values (?, ?, ?, 1)";
      return { sql, values: [id, tenant, email] };
    }
    case "orders": {
      const code = `${random.pick(["a", "b", "B", "c"])}-${tenant}`;
      const line = random.integer(1, 4);
      const sql = `insert or ignore into orders (code, line, tenant, account, n)
        values (?, ?, ?, ${account}, 1)`;
      return { sql, values: [code, line, tenant, ...accountOf] };
    }
    case "notes": {
      const note = `${tenant}-${random.integer(1, 9)}`;
      const body = random.pick(["null", "1", "1.5", "'text'", "x'00ff'", "9007199254740993"]);
      const sql = `insert or ignore into notes (id, tenant, account, body)
        values (?, ?, ${account}, ${body})`;
      return { sql, values: [note, tenant, ...accountOf] };
    }
  }
}

const KINDS = {
  insert: 5,
  add: 6,
  addAll: 1,
  remove: 3,
  rekey: 2,
  swap: 1,
  replace: 2,
  rewrite: 1,
} as const;

/** A transaction of a tenant: statements that mean the same wherever its rows are. */
export function drawTransaction(random: Random, tenant: Tenant): Drawn[] {
  return Array.from({ length: random.chance(0.3) ? 2 : 1 }, () => draw(random, tenant)).flat();
}

function draw(random: Random, tenant: Tenant): Drawn[] {
  const [id, other] = [idOf(random, tenant), idOf(random, tenant)];
  const table = random.pick(["accounts", "orders"] as const);
  switch (random.weighted(KINDS)) {
    case "insert":
      return [insertOf(random, tenant)];
    case "add":
      return table === "accounts"
        ? [{ sql: "update accounts set n = n + 1 where id = ?", values: [id] }]
        : [
            {
              sql: "update orders set n = n + 1 where tenant = ? and line = ?",
              values: [tenant, id % 4],
            },
          ];
    case "addAll":
      return [{ sql: `update ${table} set n = n + 1 where tenant = ?`, values: [tenant] }];
    case "remove":
      return random.chance(0.5)
        ? [{ sql: "delete from accounts where id = ?", values: [id] }]
        : [
            {
              sql: "delete from notes where id = ?",
              values: [`${tenant}-${random.integer(1, 9)}`],
            },
          ];
    case "rekey":
      return [
        { sql: "update or ignore accounts set id = ? where id = ?", values: [other, id] },
        {
          sql: "update or ignore orders set line = line + 1 where tenant = ? and line = ?",
          values: [tenant, id % 4],
        },
      ];
    case "swap":
      return swapOf(id, other);
    case "replace":
      return [
        {
          sql: "insert or replace into accounts (id, tenant, email, n) values (?, ?, ?, 5)",
          values: [id, tenant, emailOf(random, tenant)],
        },
      ];
    case "rewrite":
      return [
        { sql: "update notes set body = length(hex(body)) where tenant = ?", values: [tenant] },
      ];
  }
}

function swapOf(id: number, other: number): Drawn[] {
  const values = [id, other];
  return [
    { sql: "create temp table if not exists swapped (id, email)", values: [] },
    { sql: "delete from swapped", values: [] },
    {
      sql: "insert into swapped select id, email from accounts where id in (?, ?)",
      values,
    },
    { sql: "update accounts set email = null where id in (?, ?)", values },
    {
      sql: `update accounts set email = (select email from swapped where id <> accounts.id)
        where id in (?, ?) and (select count(*) from swapped) = 2`,
      values,
    },
  ];
}

/** Every row of tenants, as exact texts; of those that stay only what tables began with. */
export function dumpOf(db: Database.Database, tenants: readonly string[]): string[] {
  const isMoving = tenants.every((tenant) => MOVING.includes(tenant as Tenant));
  const which = isMoving ? "" : " where name not like 'extra%'";
  return TABLES.flatMap(({ table }) => {
    const columns = db
      .prepare(`select name from pragma_table_info(?)${which} order by name`)
      .pluck()
      .all(table);
    const text = columns.map((column) => `quote("${String(column)}")`).join(" || ',' || ");
    const list = tenants.map((tenant) => `'${tenant}'`).join(", ");
    const select = `select '${table} ' || ${text} from ${table} where tenant in (${list}) order by 1`;
    return db.prepare(select).pluck().all().map(String);
  });
}
