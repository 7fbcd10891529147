import pg from "pg";
import { asRefusal, enterRead, enterWrite, isInstalled } from "../../src/shards/postgres/enter.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { emptyDatabase, freshDatabaseUrl } from "../postgres.ts";
import type { Dialect, OpenTransaction, ShardPair, Side } from "./conformance/shard-conformance.ts";

const INTEGER_TYPES = new Set<number>([
  pg.types.builtins.INT2,
  pg.types.builtins.INT4,
  pg.types.builtins.INT8,
]);

/** A client as an application has it, with integers as numbers and all else as it was sent. */
export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    types: {
      getTypeParser: (oid: number) => (INTEGER_TYPES.has(oid) ? Number : String),
    },
  });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

/** Runs a body and gives its refusal as the router does. */
export async function refusing<Result>(body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    throw asRefusal(error) ?? error;
  }
}

async function rowsOf(client: pg.ClientBase, text: string): Promise<unknown[][]> {
  const { rows } = await client.query<unknown[]>({ text, rowMode: "array" });
  return rows;
}

async function within<Result>(
  client: pg.Client,
  begin: string,
  body: () => Promise<Result>,
): Promise<Result> {
  await client.query(begin);
  try {
    const result = await refusing(body);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

type DatabaseMaker = () => Promise<string>;

/** Databases that no test has, by how they were made: to make one takes longer than most tests. */
const idle = new Map<DatabaseMaker, string[]>();

/** A database for one side, with whoever is connected to it. */
type Place = { readonly url: string; readonly client: pg.Client; readonly shard: Shard };

async function openPlace(databaseUrl: DatabaseMaker): Promise<Place> {
  const url = idle.get(databaseUrl)?.pop() ?? (await databaseUrl());
  const shard = await openPostgresShard({ connectionString: url });
  return { url, client: await connect(url), shard };
}

/** Leaves the database to the next test. Connections are not kept: plans of what is gone slow them down. */
async function leavePlace(
  databaseUrl: DatabaseMaker,
  { url, client, shard }: Place,
): Promise<void> {
  await shard.close();
  try {
    await emptyDatabase(client);
  } finally {
    await client.end();
  }
  idle.set(databaseUrl, [...(idle.get(databaseUrl) ?? []), url]);
}

/** A pair of empty databases, with the clients of an application beside them. */
export async function postgresPair(
  dialect: Dialect,
  databaseUrl: DatabaseMaker = freshDatabaseUrl,
): Promise<ShardPair & { url: (side: Side) => string }> {
  const [one, other] = [await openPlace(databaseUrl), await openPlace(databaseUrl)];
  const places: Record<Side, Place> = { source: one, target: other };
  const clients: Record<Side, pg.Client> = { source: one.client, target: other.client };
  const others: pg.Client[] = [];
  const enterFirst = async (side: Side, tenant: string, epoch: number): Promise<void> => {
    if (await isInstalled(clients[side])) await enterWrite(clients[side], tenant, epoch);
  };
  return {
    source: places.source.shard,
    target: places.target.shard,
    dialect,
    url: (side) => places[side].url,
    open: (side) => openPostgresShard({ connectionString: places[side].url }),
    sql: (side, text) => refusing(() => rowsOf(clients[side], text)),
    dump: async (side, table) => {
      const rows = await rowsOf(clients[side], `select t::text from ${table} t order by 1`);
      return rows.map(([text]) => String(text));
    },
    write: (side, tenant, epoch, ...sql) =>
      within(clients[side], "begin", async () => {
        await enterFirst(side, tenant, epoch);
        for (const text of sql) await clients[side].query(text);
      }),
    read: (side, tenant, epoch, sql) =>
      within(clients[side], "begin isolation level repeatable read read only", async () => {
        if (await isInstalled(clients[side])) await enterRead(clients[side], tenant, epoch);
        return rowsOf(clients[side], sql);
      }),
    begin: async (side, entered): Promise<OpenTransaction> => {
      const client = await connect(places[side].url);
      others.push(client);
      await client.query("begin");
      if (entered !== null && (await isInstalled(client))) {
        await refusing(() => enterWrite(client, entered.tenant, entered.epoch));
      }
      const ending = (how: string) => async (): Promise<void> => {
        await client.query(how);
        await client.end();
      };
      return {
        sql: async (text) => {
          await refusing(() => client.query(text));
        },
        commit: ending("commit"),
        rollback: ending("rollback"),
      };
    },
    close: async () => {
      await Promise.all(others.map((client) => client.end()));
      await Promise.all([leavePlace(databaseUrl, one), leavePlace(databaseUrl, other)]);
    },
  };
}

/** A fresh database whose user owns what is made in it, and has no right beyond. */
export async function ownedDatabaseUrl(): Promise<string> {
  const url = new URL(await freshDatabaseUrl());
  const client = await connect(url.href);
  try {
    const name = url.pathname.slice(1);
    await client.query(`create role "${name}_owner" login password 'owner'`);
    await client.query(`grant create on database "${name}" to "${name}_owner"`);
    await client.query(`alter schema public owner to "${name}_owner"`);
    url.username = `${name}_owner`;
    url.password = "owner";
    return url.href;
  } finally {
    await client.end();
  }
}

/** What PostgreSQL writes in its own way. */
export const POSTGRES_DIALECT: Dialect = {
  kinds: {
    ddl: `create table kinds (
      id integer primary key, tenant text not null, yes boolean, small smallint, big bigint,
      exact numeric, price numeric(12, 2), single real, wide double precision, letters text,
      short varchar(10), fixed char(5), bytes bytea, day date, hour time, hour_zone timetz,
      moment timestamp, instant timestamptz, span interval, loose json, tight jsonb, unique_id uuid,
      host inet, network cidr, bits bit(3), many_bits bit varying, numbers integer[],
      words text[], span_of int4range, spans int4multirange, cash money, point_at point,
      search tsvector, mac macaddr, lsn pg_lsn, document xml, label name)`,
    values: [
      `true, 32767, 9223372036854775807, 1.0, 12.30, 0.1, 0.1, 'a', 'short', 'ab', '\\x00ff5c0a'::bytea,
      '2024-02-29', '23:59:59.999999', '12:00+05:30', '2024-02-29 12:00:00.123456',
      '2024-03-31 02:30:00+01', '1 year 2 mons 3 days 04:05:06.7', '{"b": 1,  "a":2}', '{"b": 1, "a": 2.0}',
      'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/8', '10.0.0.0/8', '101', '1011',
      '{1,NULL,3}', '{"a,b",NULL,"x\\"y"}', '[1,5)', '{[1,2),[5,7)}', '12.34', '(1.5,2)', 'a b:2',
      '08:00:2b:01:02:03', '16/B374D848', '<a>x</a>', 'label'`,
      `false, -32768, -9223372036854775808, 1.00, -0.01, '-0', '-0', '', '', '', '',
      'infinity', '00:00', '00:00-12', '-infinity', 'infinity', '-1 mons +5 days -00:00:00.000001',
      'null', 'null', '00000000-0000-0000-0000-000000000000', '::1', '::/0', '000', '',
      '{}', '{}', 'empty', '{}', '-0.01', '(NaN,-Infinity)', '', 'ff:ff:ff:ff:ff:ff', '0/0', '', ''`,
      `null, null, null, 'NaN', null, 'NaN', 'Infinity', E'tab\\tnew\\nback\\\\slash "quoted" ''single''', null, null, null,
      '0001-01-01 BC', null, null, null, '4713-01-01 BC', null, null, null, null, null, null, null, null,
      '[2:3]={7,8}', '{NULL,"NULL","\\\\"}', '(,)', null, null, null, null, null, null, null, null`,
      `true, 1, 1, 1e-30, 1, 3.4028235e38, 1.7976931348623157e308, '\\N', '\\.', 'é😀', '\\x5c2e',
      '2024-01-01', '00:00', '00:00+00', '2024-01-01', '2024-01-01 00:00+00', '0', '"\\u0000"', '"x"',
      null, null, null, null, null, '{{1,2},{3,4}}', '{{a},{b}}', '[1,)', null, null, null, null, null, null, null, null`,
    ],
  },
  keyed: [
    keyed("by_text", 'k text collate "C" primary key', [
      "''",
      "'a'",
      "'B'",
      "'é'",
      "E'a\\tb'",
      "E'\\\\N'",
      "'it''s'",
      "'a,b'",
      "'{\"x\"}'",
    ]),
    keyed("by_uuid", "k uuid primary key", [
      "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
      "'00000000-0000-0000-0000-000000000000'",
    ]),
    keyed("by_number", "k numeric primary key", ["1.50", "-0.3", "1e40", "'NaN'"]),
    keyed("by_float", "k double precision primary key", [
      "0.1",
      "1e300",
      "'-Infinity'",
      "0.30000000000000004",
    ]),
    keyed("by_instant", "k timestamptz primary key", [
      "'2024-01-01 00:00:00.000001+00'",
      "'infinity'",
    ]),
    keyed("by_bytes", "k bytea primary key", ["'\\x'", "'\\x00'", "'\\xff5c'"]),
    keyed("by_big", "k bigint primary key", [
      "9223372036854775807",
      "-9223372036854775808",
      "10",
      "9",
    ]),
    keyed("by_flag", "k boolean primary key", ["true", "false"]),
    keyed("by_fixed", "k char(4) primary key", ["'a'", "'ab'", "'abcd'"]),
    keyed("by_span", "k interval primary key", ["'1 mon'", "'-1 day'", "'36:00'"]),
    keyed("by_two", "k varchar(20), l date, primary key (l, k)", [
      "'x', '2024-01-01'",
      "'a', '2024-01-02'",
      "'y', '2023-12-31'",
    ]),
  ],
  serials:
    "create table serials (id bigint generated by default as identity primary key, tenant text not null, note text)",
  keyless: "create table keyless (tenant text)",
  loose: [
    loose("by_citext", "citext", ["'acme'", "'ACME'"], ["create extension if not exists citext"]),
    loose("by_domain", "nick", ["'acme'", "'ACME'"], ["create domain nick as citext"]),
    loose(
      "by_fold",
      "text collate folding",
      ["'acme'", "'ACME'"],
      [
        "create collation folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
      ],
    ),
    loose("by_numeric", "numeric", ["1.5", "1.50"]),
    loose("by_real", "double precision", ["'0'", "'-0'"]),
    loose("by_interval", "interval", ["'1 day'", "'24:00'"]),
    loose("by_json", "jsonb", ["'1.0'", "'1.00'"]),
    loose("by_moment", "timestamp with time zone", ["'2024-01-01 00:00+00'", "'2024-01-02+00'"]),
  ],
  exact: [
    exact("of_text", "text", "Acme ", []),
    exact("of_varchar", "varchar(20)", "Acme ", []),
    exact("of_fixed", "char(8)", "Acme", ["Acme  "]),
    exact("of_integer", "integer", "-7", ["007", "+7", "7.0", "seven", "", "99999999999"]),
    exact("of_bigint", "bigint", "9223372036854775807", ["0x10"]),
    exact("of_uuid", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", [
      "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
      "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
    ]),
    exact("of_price", "numeric(12, 2)", "1.50", ["1.5", "1"]),
    exact("of_day", "date", "2024-02-29", ["2024-2-29", "today", "29.02.2024"]),
    exact("of_flag", "boolean", "true", ["t", "yes", "TRUE"]),
    exact("of_mood", "feeling", "so so", ["So so"], ["create type feeling as enum ('so so')"]),
    exact("of_name", "nickname", "Acme", [], ["create domain nickname as varchar(9)"]),
    exact("of_order", 'text collate "en-x-icu"', "Acme", []),
  ],
  ordered: [
    ordered("in_icu", 'text collate "en-x-icu"'),
    ordered("in_posix", 'varchar(9) collate "POSIX"'),
    ordered("in_fold", "text collate folded", [
      "create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    ]),
    ordered("in_citext", "citext", ["create extension if not exists citext"]),
  ],
  respelled: [
    respelled(
      "re_citext",
      "citext",
      ["'acme'", "'ACME'"],
      ["create extension if not exists citext"],
    ),
    respelled("re_numeric", "numeric", ["1.5", "1.50"]),
    respelled("re_float", "double precision", ["'0'", "'-0'"]),
    respelled("re_interval", "interval", ["'1 day'", "'24:00'"]),
    respelled("re_jsonb", "jsonb", ["'1.0'", "'1.00'"]),
    respelled("re_list", "numeric[]", ["'{1.5}'", "'{1.50}'"]),
    respelled(
      "re_fold",
      "text collate refolded",
      ["'acme'", "'ACME'"],
      [
        "create collation refolded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
      ],
    ),
  ],
  uncapturable: {
    table: "branches",
    // An operator that is in a schema of its own, where the capture does not look for any.
    ddl: [
      "create schema elsewhere",
      "create extension ltree schema elsewhere",
      "create table branches (id elsewhere.ltree primary key, tenant text)",
      "insert into branches values ('a.b', 'a')",
    ],
    reason: /operator does not exist/,
  },
};

function loose(
  table: string,
  type: string,
  [one, other]: readonly [string, string],
  before: readonly string[] = [],
): Dialect["loose"][number] {
  const ddl = [...before, `create table ${table} (id integer primary key, tenant ${type})`];
  return { table, type, one, other, ddl };
}

function exact(
  table: string,
  type: string,
  tenant: string,
  others: readonly string[],
  before: readonly string[] = [],
): Dialect["exact"][number] {
  const ddl = [...before, `create table ${table} (id integer primary key, tenant ${type})`];
  return { table, ddl, tenant, others };
}

function ordered(
  table: string,
  type: string,
  before: readonly string[] = [],
): Dialect["ordered"][number] {
  return {
    table,
    ddl: [...before, `create table ${table} (id ${type} primary key, tenant ${type})`],
  };
}

function respelled(
  table: string,
  type: string,
  [one, other]: readonly [string, string],
  before: readonly string[] = [],
): Dialect["respelled"][number] {
  const ddl = [...before, `create table ${table} (tenant text, k ${type} primary key, note text)`];
  return { table, one, other, ddl };
}

function keyed(table: string, key: string, values: readonly string[]): Dialect["keyed"][number] {
  return {
    table,
    ddl: `create table ${table} (tenant text not null, ${key})`,
    inserts: values.map((value) => `insert into ${table} values ('a', ${value})`),
  };
}
