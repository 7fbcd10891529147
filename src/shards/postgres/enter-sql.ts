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
