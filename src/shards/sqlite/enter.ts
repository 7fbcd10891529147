import type Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { NOT_ENTERED } from "./capture-triggers.ts";
import { NOW_MS } from "./plans.ts";

/*
 * What an application does to its own connection before it reads or writes rows of a tenant. In
 * SQLite only one transaction writes at a time, so a fence that was read within it stays as it is.
 */

const FENCE = `
  select epoch, state, shard, state = 'closed' and until <= ${NOW_MS}
  from _pawl_fences where tenant = ?`;
const ENTER = "update _pawl_session set tenant = ?, epoch = ?";
const LEAVE = "update _pawl_session set tenant = null, epoch = null where tenant is not null";

type FenceRow = [epoch: number, state: string, shard: string | null, expired: number | null];

type Statements = {
  fence: Database.Statement<[tenant: string], FenceRow>;
  enter: Database.Statement;
  leave: Database.Statement;
};

const prepared = new WeakMap<Database.Database, Statements>();

/** Lets this transaction write rows of a tenant; call it inside an immediate transaction. Throws EPOCH_STALE or FENCE_CLOSED. */
export function enterWrite(db: Database.Database, tenant: string, epoch: number): void {
  const statements = statementsOf(db);
  if (statements === null) return;
  const fence = fenceOf(statements, tenant);
  if (fence === null) return;
  const [fenceEpoch, state, shard, expired] = fence;
  checkEpoch(tenant, epoch, fence);
  if (state === "held" || (state === "closed" && expired !== 1)) {
    throw new PawlError(
      "FENCE_CLOSED",
      `A cutover of ${tenant} is under way: it takes no writes for a moment. Repeat the write.`,
      { details: { tenant, epoch: fenceEpoch, shard } },
    );
  }
  statements.enter.run(tenant, epoch);
}

/** Ends what `enterWrite` began; call it right before the commit. */
export function leave(db: Database.Database): void {
  statementsOf(db)?.leave.run();
}

/** Lets this transaction read rows of a tenant; call it first, so that the fence is of the same snapshot. Throws EPOCH_STALE. */
export function enterRead(db: Database.Database, tenant: string, epoch: number): void {
  const statements = statementsOf(db);
  const fence = statements === null ? null : fenceOf(statements, tenant);
  if (fence !== null) checkEpoch(tenant, epoch, fence);
}

/** What a failure of the application's statement means, when a guard trigger refused it. */
export function asRefusal(error: unknown): PawlError | null {
  // The error may be of another copy of the library, which the application has.
  if (!(error instanceof Error) || !error.message.startsWith(NOT_ENTERED)) return null;
  const table = error.message.slice(NOT_ENTERED.length).trim();
  return new PawlError(
    "NOT_ENTERED",
    `A row of the table ${table} belongs to a tenant that a split is moving, and the write did not pass its fence. Write through createRouter().`,
    { details: { table }, cause: error },
  );
}

function checkEpoch(tenant: string, epoch: number, [fenceEpoch, state, shard]: FenceRow): void {
  const isHere = state !== "moved" && state !== "incoming";
  if (isHere && fenceEpoch === epoch) return;
  const where = shard === null ? "" : `, on the shard ${shard}`;
  throw new PawlError(
    "EPOCH_STALE",
    `${tenant} is not here under epoch ${epoch}: its epoch is ${fenceEpoch}${where}.`,
    { details: { tenant, epoch: fenceEpoch, shard } },
  );
}

function fenceOf({ fence }: Statements, tenant: string): FenceRow | null {
  return fence.get(tenant) ?? null;
}

/** Null where Pawl's tables are not. */
function statementsOf(db: Database.Database): Statements | null {
  if (!db.inTransaction) {
    throw new PawlError("INPUT_INVALID", "Begin a transaction before you enter for a tenant.");
  }
  const known = prepared.get(db);
  if (known !== undefined) return known;
  const installed = db
    .prepare("select count(*) from sqlite_schema where name = '_pawl_fences'")
    .pluck()
    .get();
  if (Number(installed) === 0) return null;
  const statements = {
    fence: db.prepare<[tenant: string], FenceRow>(FENCE).raw().safeIntegers(false),
    enter: db.prepare(ENTER),
    leave: db.prepare(LEAVE),
  };
  prepared.set(db, statements);
  return statements;
}
