import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { otherFence, type Fence, type FenceStand, type Guard } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { isInstalled, NOW_MS, checkGuard } from "./plans.ts";
import type { SqliteValue } from "./literals.ts";

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
