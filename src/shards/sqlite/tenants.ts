import Database from "better-sqlite3";
import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import {
  type Fence,
  type FenceStand,
  type Guard,
  otherFence,
  type SequenceValue,
  type TableShape,
} from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { quoted, type SqliteValue } from "./literals.ts";
import { checkGuard, isInstalled, NOW_MS } from "./plans.ts";
import { lookUp, type TableDetail } from "./table-detail.ts";

/*
 * A tenant is a text: to the routing, to routers, to fences and to the log of changes. So the column
 * that a table is sharded by must have one text for each value, or the application takes rows for
 * those of one tenant that Pawl tells apart.
 */

/** Why texts do not stand for the tenants of these tables everywhere alike; null when they do. */
export function tenantProblem(
  db: ShardDatabase,
  tables: readonly TableShape[],
  tenants: readonly string[],
): string | null {
  for (const table of tables) {
    const detail = lookUp(db, table);
    const problem = looseColumn(db, detail) ?? otherSpelling(detail, tenants);
    if (problem !== null) return problem;
  }
  return null;
}

function looseColumn(db: ShardDatabase, detail: TableDetail): string | null {
  const { shape, affinity } = detail;
  const type = shape.columns.find(({ name }) => name === shape.shard_by)?.type ?? "";
  const column = `The column ${shape.shard_by} of ${shape.table}`;
  const whatToDo = "Declare it as text or integer, or shard by another column";
  if (affinity === "blob") {
    const declared = type === "" ? "has no type" : `is of type ${type}`;
    return `${column} ${declared}, so that 1, 1.0 and '1' in it are different values of one tenant or of none. ${whatToDo}`;
  }
  const collation = collationOf(db, detail);
  if (collation === "binary") return null;
  return (
    `${column} is of type ${type} collate ${collation}, in which one value can have several texts: ` +
    "routing and fences would tell apart what the table takes for equal. " +
    `Declare it without the collation, or shard by another column`
  );
}

/** How a column compares, by what it does: nothing tells the name of a column's collation. */
function collationOf(db: ShardDatabase, { sql, shape }: TableDetail): string {
  try {
    const compared = db.get(
      `select tried = 'A', tried = 'a ', tried = 'a'
       from (select ${quoted(shape.shard_by)} as tried from ${sql} where 0 union all select 'a')`,
    );
    const [noCase, noSpace, same] = compared ?? [];
    if (noCase === 1n) return "nocase";
    if (noSpace === 1n) return "rtrim";
    return same === 1n ? "binary" : "of the application";
  } catch (error) {
    // A collation that only the application has.
    if (error instanceof Database.SqliteError) return "of the application";
    throw error;
  }
}

/** What a column of numbers makes a number of, and the only texts that it gives them back with. */
const NUMBER = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*$/i;
const INTEGER = /^(?:0|-?[1-9]\d{0,18})$/;
const INTEGER_MAX = 9_223_372_036_854_775_807n;

/** A tenant that the column writes otherwise. */
function otherSpelling(
  { shape, affinity }: TableDetail,
  tenants: readonly string[],
): string | null {
  if (affinity !== "numeric") return null;
  const other = tenants.find((tenant) => NUMBER.test(tenant) && !isInteger(tenant));
  if (other === undefined) return null;
  return (
    `No row is of tenant ${JSON.stringify(other)}: the column ${shape.shard_by} of ${shape.table} ` +
    "makes a number of it, and a tenant that is a number is an integer, written without a sign, " +
    "zeros or spaces before it. Write it so, in the routing too"
  );
}

function isInteger(text: string): boolean {
  if (!INTEGER.test(text)) return false;
  const value = BigInt(text);
  return value <= INTEGER_MAX && value >= -INTEGER_MAX - 1n;
}

const STANDS = "select seq from sqlite_sequence where name = ? collate nocase";
const MOVE_ON = "update sqlite_sequence set seq = max(seq, ?) where name = ? collate nocase";
const BEGIN = `
  insert into sqlite_sequence (name, seq)
  select name, ? from sqlite_schema where type = 'table' and name = ? collate nocase`;

/** Where the tables with AUTOINCREMENT stand; others count on from their greatest key. */
export function sequences(db: ShardDatabase, tables: readonly TableShape[]): SequenceValue[] {
  return tables.flatMap((table) => {
    const { autoincrement, key } = lookUp(db, table);
    const value = autoincrement ? db.value(STANDS, table.table) : null;
    const column = key[0]?.name;
    if (value === null || column === undefined) return [];
    return [{ table: table.table, column, value: String(value) }];
  });
}

/** Moves sequences on to values, never back. */
export function advanceSequences(db: ShardDatabase, values: readonly SequenceValue[]): void {
  for (const { table, value } of values) {
    if (db.run(MOVE_ON, BigInt(value), table) === 0) db.run(BEGIN, BigInt(value), table);
  }
}

const FENCE = "select tenant, epoch, state, shard, until from _pawl_fences where tenant = ?";
const SET = `
  insert into _pawl_fences (tenant, epoch, state, shard, until, plan) values (?, ?, ?, ?, null, ?)
  on conflict (tenant) do update set epoch = excluded.epoch, state = excluded.state,
    shard = excluded.shard, until = null, plan = excluded.plan`;
const CLOSE = `
  update _pawl_fences set state = 'closed', until = ${NOW_MS} + ?, plan = ?
  where tenant = ? and state in ('open', 'closed')`;
const HOLD = `
  update _pawl_fences set state = 'held', until = null, plan = ?
  where tenant = ? and (state = 'held' or (state = 'closed' and until > ${NOW_MS}))`;
// Somebody may have committed without leaving; nobody is in when a fence changes.
const EMPTY = "update _pawl_session set tenant = null, epoch = null where tenant is not null";

const FenceRow = z.object({
  tenant: z.string(),
  epoch: z.bigint().transform(Number),
  state: z.enum(["open", "closed", "held", "incoming", "moved"]),
  shard: z.string().nullable(),
  until: z
    .number()
    .nullable()
    .transform((ms) => (ms === null ? null : new Date(ms).toISOString())),
});

/** The fences of tenants that have one, in the order asked for. */
export function fences(db: ShardDatabase, tenants: readonly string[]): Fence[] {
  if (!isInstalled(db)) return [];
  return [...new Set(tenants)].flatMap((tenant) => {
    const row = db.get(FENCE, tenant);
    return row === undefined ? [] : [fenceOf(row)];
  });
}

/** Refuses unless fences stand as they have to, in the transaction of what depends on it. */
export function requireFences(db: ShardDatabase, stand: readonly FenceStand[]): void {
  for (const wanted of stand) {
    const [fence] = fences(db, [wanted.tenant]);
    if (fence?.state !== wanted.state || fence.epoch !== wanted.epoch) {
      throw otherFence(wanted, fence);
    }
  }
}

/** Sets fences as they are given. */
export function setFences(
  db: ShardDatabase,
  guard: Guard,
  given: readonly Omit<Fence, "until">[],
): void {
  checkGuard(db, guard);
  db.run(EMPTY);
  for (const { tenant, epoch, state, shard } of given) {
    db.run(SET, tenant, BigInt(epoch), state, shard, guard.plan);
  }
}

/** Closes fences for so long; one that is held stays held. */
export function closeFences(
  db: ShardDatabase,
  guard: Guard,
  tenants: readonly string[],
  holdMs: number,
): void {
  checkGuard(db, guard);
  db.run(EMPTY);
  for (const tenant of tenants) {
    if (db.run(CLOSE, holdMs, guard.plan, tenant) === 1) continue;
    const [fence] = fences(db, [tenant]);
    if (fence?.state !== "held") throw notClosed(tenant, fence);
  }
}

/** Makes closed fences held. */
export function holdFences(db: ShardDatabase, guard: Guard, tenants: readonly string[]): void {
  checkGuard(db, guard);
  for (const tenant of tenants) {
    if (db.run(HOLD, guard.plan, tenant) !== 1) throw notClosed(tenant, fences(db, [tenant])[0]);
  }
}

/** Drops the fences of tenants. */
export function dropFences(db: ShardDatabase, guard: Guard, tenants: readonly string[]): void {
  checkGuard(db, guard);
  for (const tenant of tenants) db.run("delete from _pawl_fences where tenant = ?", tenant);
}

function fenceOf([tenant, epoch, state, shard, until]: readonly SqliteValue[]): Fence {
  return FenceRow.parse({ tenant, epoch, state, shard, until });
}

function notClosed(tenant: string, fence: Fence | undefined): PawlError {
  const found = fence === undefined ? "there is none" : `it is ${fence.state}`;
  const until = fence?.until === null || fence === undefined ? "" : `, until ${fence.until}`;
  return new PawlError(
    "FENCE_EXPIRED",
    `The fence of ${tenant} is not closed for a cutover any more: ${found}${until}.`,
    { details: { tenant, state: fence?.state ?? null, until: fence?.until ?? null } },
  );
}
