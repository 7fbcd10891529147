import { type TablePolicy, type Scope, tenantScope } from "../../../src/work/shard/spec.ts";
import type {
  ApplyRequest,
  RowChange,
  Guard,
  ReadAnswer,
  ReadRequest,
  Shard,
  StreamState,
  TableShape,
} from "../../../src/shards/shard.ts";
import type { ShardPair, Side } from "./shard-conformance.ts";

/** The plan that most cases act for. */
export const GUARD: Guard = { plan: "plan-1", token: 1 };

/** Tables in SQL that every engine reads. */
export const TABLES = {
  items:
    "create table items (id integer primary key, tenant text not null, n integer not null, note text)",
  lines:
    "create table lines (tenant text not null, sku text not null, line integer not null, note text, primary key (sku, line))",
  handles:
    "create table handles (id integer primary key, tenant text not null, handle text unique)",
  parents: "create table parents (id integer primary key, tenant text not null)",
  children:
    "create table children (id integer primary key, tenant text not null, parent integer references parents (id))",
  heirs:
    "create table heirs (id integer primary key, tenant text not null, parent integer references parents (id) on delete cascade)",
  heirlooms:
    "create table heirlooms (id integer primary key, tenant text not null, heir integer references heirs (id) on delete cascade)",
  accounts:
    "create table accounts (id integer primary key, tenant text not null, mail text unique, code text)",
  orders:
    "create table orders (id integer primary key, tenant text not null, account integer references accounts (id) on delete set null)",
  places:
    "create table places (id integer primary key, tenant text not null, name text not null unique)",
  visits:
    "create table visits (id integer primary key, tenant text not null, place integer not null references places (id))",
  people:
    "create table people (id integer primary key, tenant text not null, boss integer references people (id))",
} as const;

/** The policy of a table that is sharded by `tenant`. */
export function policy(table: string): TablePolicy {
  return { table, shard_by: "tenant" };
}

/** Makes a table on both shards. */
export async function createTables(pair: ShardPair, ...ddl: readonly string[]): Promise<void> {
  for (const side of ["source", "target"] as const) {
    for (const sql of ddl) await pair.sql(side, sql);
  }
}

/** The shapes of tables on a shard. */
export function shapesOf(shard: Shard, ...tables: string[]): Promise<TableShape[]> {
  return shard.describe(tables.map(policy));
}

/** The shape of one table. */
export async function shapeOf(shard: Shard, table: string): Promise<TableShape> {
  const [shape] = await shapesOf(shard, table);
  if (shape === undefined) throw new Error(`There is no shape of ${table}.`);
  return shape;
}

/** Makes Pawl's tables on a shard and lets the plan act there. */
export async function enrol(shard: Shard, guard: Guard = GUARD): Promise<void> {
  await shard.install();
  await shard.take(guard);
}

/** Makes tables on both shards, has those of the source captured, and gives shapes and position. */
export async function armed(
  pair: ShardPair,
  ...tables: (keyof typeof TABLES)[]
): Promise<{ shapes: TableShape[]; position: string }> {
  await createTables(pair, ...tables.map((table) => TABLES[table]));
  await enrol(pair.source);
  await enrol(pair.target);
  const shapes = await shapesOf(pair.source, ...tables);
  const position = await pair.source.armCapture(GUARD, shapes);
  return { shapes, position };
}

/** An insert of items with these ids, all of one tenant. */
export function insertItems(tenant: string, ...ids: readonly number[]): string {
  const rows = ids.map((id) => `(${id}, '${tenant}', ${id}, 'note ${id}')`);
  return `insert into items (id, tenant, n, note) values ${rows.join(", ")}`;
}

/** A request for changes of tenant `a`, with what a case is about. */
export function changesSince(
  tables: readonly TableShape[],
  from: string,
  given: Partial<ReadRequest> = {},
): ReadRequest {
  const scope = tenantScope(["a"]);
  return { tables, scope, from, cursor: null, changesMax: 1_000, chunk: null, ...given };
}

/** A request for the next rows of a table, without changes. */
export function chunkOf(
  table: TableShape,
  given: { scope?: Scope; after?: readonly string[] | null; limit?: number } = {},
): ReadRequest {
  const scope = given.scope ?? tenantScope(["a"]);
  const after = given.after === undefined || given.after === null ? null : [...given.after];
  return {
    tables: [table],
    scope,
    from: null,
    cursor: null,
    changesMax: 1,
    chunk: { table, scope, after, limit: given.limit ?? 1_000 },
  };
}

/** What happened, without images: `put items 1`. */
export function spelled(changes: readonly RowChange[]): string[] {
  return changes.map(({ op, table, key }) => [op, table, ...key].join(" "));
}

/** A state of a stream, with what a case is about. */
export function state(given: Partial<StreamState> = {}): StreamState {
  return {
    position: null,
    reaching: null,
    cursor: { table: 0, key: null },
    phase: "copy",
    rows: [0],
    fingerprint: "",
    verified: null,
    ...given,
  };
}

/** A write of a new stream, with what a case is about. */
export function applying(
  tables: readonly TableShape[],
  given: Partial<ApplyRequest> = {},
): ApplyRequest {
  return {
    guard: GUARD,
    stream: "plan-1",
    before: null,
    after: state(),
    tables,
    scope: tenantScope(["a"]),
    changes: [],
    ddl: null,
    chunk: null,
    changed: null,
    ...given,
  };
}

/** The last image of each covered key of an answer, as `apply` takes them. */
export function lastImages(answer: ReadAnswer): ApplyRequest["changes"] {
  const tables = new Map<string, Map<string, RowChange>>();
  for (const change of answer.changes) {
    if (!change.covered || change.op === "ddl") continue;
    const keys = tables.get(change.table) ?? new Map<string, RowChange>();
    tables.set(change.table, keys.set(JSON.stringify(change.key), change));
  }
  return [...tables].map(([table, keys]) => ({
    table,
    rows: [...keys.values()].map(({ key, image }) => ({ key, image })),
  }));
}

/** Takes whatever the source has of tenant `a` after a position to the target, and gives the answer. */
export async function carryOver(
  pair: ShardPair,
  shapes: readonly TableShape[],
  from: string,
): Promise<ReadAnswer> {
  const answer = await pair.source.read(changesSince(shapes, from));
  const before = await pair.target.loadStream("plan-1");
  const after = state({ position: answer.position, phase: "tail" });
  const changes = lastImages(answer);
  await pair.target.apply(applying(shapes, { before, after, changes, changed: answer.changed }));
  return answer;
}

/** How many rows a table has. */
export async function countOf(pair: ShardPair, side: Side, table: string): Promise<number> {
  const [row] = await pair.sql(side, `select count(*) from ${table}`);
  return Number(row?.[0]);
}
