import type pg from "pg";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";

/*
 * Nothing of pg but types is imported here: routers enter through the copy of pg that an application
 * has, and load none of their own.
 */

/** The SQLSTATEs that Pawl's own functions in a shard raise. Their detail is a JSON object. */
const REFUSALS = {
  PW001: "COORDINATOR_STALE",
  PW002: "STREAM_MOVED",
  PW003: "EPOCH_STALE",
  PW004: "FENCE_CLOSED",
  PW005: "NOT_ENTERED",
  PW006: "VERIFICATION_FAILED",
  PW007: "FENCE_EXPIRED",
  PW009: "STATE_ILLEGAL",
  PW010: "SCHEMA_CHANGED",
} as const satisfies Record<string, ErrorCode>;

/** What Pawl's functions in a shard refused, as the error to handle; null for any other error. */
export function asRefusal(error: unknown): PawlError | null {
  if (!(error instanceof Error) || !("code" in error)) return null;
  const refusals: Readonly<Record<string, ErrorCode>> = REFUSALS;
  const code = refusals[String(error.code)];
  if (code === undefined) return null;
  const details = "detail" in error ? parsedDetail(error.detail) : {};
  return new PawlError(code, error.message, { details, cause: error });
}

function parsedDetail(detail: unknown): Record<string, unknown> {
  if (typeof detail !== "string") return {};
  try {
    const parsed: unknown = JSON.parse(detail);
    return typeof parsed === "object" && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}

// Rows, not a value: applications read booleans in ways of their own.
const IS_INSTALLED = "select 1 where to_regprocedure('_pawl.enter(text,bigint)') is not null";
// Without a name: a pooler between may give the next transaction another connection.
const ENTER = "select _pawl.enter($1, $2)";
const ENTER_READ = "select _pawl.enter_read($1, $2)";

/**
 * Whether Pawl has tables in the database that a client is connected to. A yes stays and may be
 * remembered; a no may not: a tenant may be moved away from the next moment on, and reads that do
 * not ask would not see it. Asking costs as much as entering.
 */
export async function isInstalled(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query(IS_INSTALLED);
  return rows.length > 0;
}

/**
 * Enters a transaction that has begun, for writing to a tenant's rows until it ends; one round
 * trip. Where Pawl is installed only. What it throws, `asRefusal` reads; the transaction is then
 * to be rolled back, as after any error. 40001 means to begin again.
 */
export async function enterWrite(
  client: pg.ClientBase,
  tenant: string,
  epoch: number,
): Promise<void> {
  await client.query(ENTER, [tenant, epoch]);
}

/** Enters a transaction for reading; it must be REPEATABLE READ, so that data and fence are of one snapshot. */
export async function enterRead(
  client: pg.ClientBase,
  tenant: string,
  epoch: number,
): Promise<void> {
  await client.query(ENTER_READ, [tenant, epoch]);
}

/**
 * What `enterWrite` or `enterRead` runs, as a text that can go with the `begin` in one round trip.
 * `escape` is the client's `escapeLiteral`.
 */
export function enterText(
  access: "write" | "read",
  tenant: string,
  epoch: number,
  escape: (text: string) => string,
): string {
  const text = access === "write" ? ENTER : ENTER_READ;
  return text.replaceAll(/\$[12]/g, (place) => escape(place === "$1" ? tenant : String(epoch)));
}

/** The class of the advisory locks of fences; each tenant has one of so many. */
export const FENCE_LOCK_CLASS = 729_184;

/**
 * Tenants share so many locks: a split of ten thousand tenants must not need ten thousand entries
 * of the server's lock table. Two tenants with one lock wait for each other's cutover, no more.
 */
export const FENCE_LOCKS = 1_024;

/** The lock of a tenant, from an expression that gives its name. */
export function fenceLock(tenant: string): string {
  return `(hashtextextended(${tenant}, 0) & ${FENCE_LOCKS - 1})::integer`;
}

const PLACE = "set search_path = pg_catalog, pg_temp";

/**
 * How writes and reads get in, and how triggers find those that did not.
 *
 * A snapshot that is older than the last change of fences does not see it. Under READ COMMITTED each
 * statement of these functions has its own snapshot; a transaction that keeps one snapshot is told
 * to begin again (40001), which it must be ready for anyway.
 */
export const ENTER_FUNCTIONS: readonly string[] = [
  `create or replace function _pawl.check_snapshot() returns void
  language plpgsql ${PLACE} as $$
  begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable')
      and not pg_visible_in_snapshot(
        (select last_value::text::xid8 from _pawl.fence_xid), pg_current_snapshot())
    then
      raise exception using errcode = '40001',
        message = 'Fences of this shard have changed since the transaction began. Begin again.';
    end if;
  end $$`,
  `create or replace function _pawl.refuse_stale(
    of_tenant text, with_epoch bigint, epoch bigint, state text, shard text) returns void
  language plpgsql ${PLACE} as $$
  begin
    raise exception using errcode = 'PW003',
      message = format('Tenant %s is not here under epoch %s: its fence is %s with epoch %s%s.',
        of_tenant, with_epoch, state, epoch, coalesce(', on shard ' || shard, '')),
      detail = json_build_object('tenant', of_tenant, 'epoch', epoch, 'shard', shard);
  end $$`,
  // The lock first: whoever closes the fence waits for those that have it, and commits before
  // others get it.
  `create or replace function _pawl.enter(of_tenant text, with_epoch bigint) returns void
  language plpgsql security definer ${PLACE} as $$
  declare
    fence _pawl.fences;
    entered text[] := coalesce(nullif(current_setting('pawl.entered', true), ''), '{}');
  begin
    perform pg_advisory_xact_lock_shared(${FENCE_LOCK_CLASS}, ${fenceLock("of_tenant")});
    perform _pawl.check_snapshot();
    select * into fence from _pawl.fences f where f.tenant = of_tenant;
    if found then
      if fence.state = 'held' or (fence.state = 'closed' and fence.until > clock_timestamp()) then
        raise exception using errcode = 'PW004',
          message = format('Tenant %s takes no writes right now. Try again in a moment.', of_tenant),
          detail = json_build_object('tenant', of_tenant);
      end if;
      if fence.state not in ('open', 'closed') or fence.epoch <> with_epoch then
        perform _pawl.refuse_stale(of_tenant, with_epoch, fence.epoch, fence.state, fence.shard);
      end if;
    end if;
    perform set_config('pawl.entered', array_append(entered, of_tenant)::text, true);
  end $$`,
  `create or replace function _pawl.enter_read(of_tenant text, with_epoch bigint) returns void
  language plpgsql stable security definer ${PLACE} as $$
  declare fence _pawl.fences;
  begin
    select * into fence from _pawl.fences f where f.tenant = of_tenant;
    if found and (fence.state in ('moved', 'incoming') or fence.epoch <> with_epoch) then
      perform _pawl.refuse_stale(of_tenant, with_epoch, fence.epoch, fence.state, fence.shard);
    end if;
  end $$`,
  `create or replace function _pawl.refuse_unentered(of_tenant text, table_name text) returns void
  language plpgsql ${PLACE} as $$
  begin
    raise exception using errcode = 'PW005',
      message = format('A write to %s for tenant %s did not enter its fence. Write through the router.',
        table_name, of_tenant),
      detail = json_build_object('tenant', of_tenant, 'table', table_name);
  end $$`,
  `create or replace function _pawl.refuse_truncate() returns trigger
  language plpgsql ${PLACE} as $$
  begin
    raise exception using errcode = 'PW009',
      message = format('The table %s cannot be truncated while its changes are captured. Use DELETE.',
        tg_table_name),
      detail = json_build_object('table', tg_table_name);
  end $$`,
];
