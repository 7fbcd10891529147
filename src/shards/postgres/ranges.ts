import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import {
  otherFence,
  type Digest,
  type Fence,
  type FenceStand,
  type Guard,
  type KeyRange,
  type Position,
  type RemoveOptions,
  type Survey,
} from "../shard.ts";
import { applyingSql } from "./apply.ts";
import { refuseCascades } from "./catalogue.ts";
import { FLUSH, POSITION } from "./read.ts";
import {
  columnType,
  digestSql,
  exactText,
  keyOrder,
  literalArray,
  quoted,
  rangeSql,
  rowDigest,
  tableName,
  tableSql,
} from "./sql-text.ts";
import { guardSql } from "./install.ts";
import { onlyValue, type ResultRows, withSession, withTransaction } from "./session.ts";

const INTEGERS = new Set(["smallint", "integer", "bigint"]);

/** Count and digest of a range, with the position of the snapshot it was made in. */
export async function digest(
  pool: pg.Pool,
  schema: string,
  range: KeyRange,
): Promise<Digest & { position: Position }> {
  const table = tableSql(tableName(range.table.table, schema));
  const { results } = await withSession(pool, (session) =>
    session.run([
      "begin isolation level repeatable read read only",
      // Before the snapshot: a table that is rewritten between the two would look empty.
      `lock table ${table} in access share mode`,
      `select ${POSITION}`,
      `select ${digestSql(rowDigest(range.table))} from ${table} where ${rangeSql(range)}`,
      "commit",
      ...FLUSH,
    ]),
  );
  const [row] = results[1] ?? [];
  return {
    rows: Number(row?.[0] ?? 0),
    digest: row?.[1] ?? "0",
    position: onlyValue(results[0]),
  };
}

/** Bounds that cut a range into pieces of so many rows, found in one pass along the key. */
export async function survey(
  pool: pg.Pool,
  schema: string,
  range: KeyRange,
  rows: number,
  limit: number,
): Promise<Survey> {
  const { table } = range;
  const texts = table.key.map((column) => `${quoted(column)}::text`).join(", ");
  const most = rows * limit;
  // One row more than all pieces have: it is the first of the piece after the last.
  const found = await withSession(pool, (session) =>
    session.rows(`
select place, is_last, ${texts} from (
  select ${keyOrder(table)},
    row_number() over along - 1 as place,
    lead(true) over along is null as is_last
  from ${tableSql(tableName(table.table, schema))}
  where ${rangeSql(range)}
  window along as (order by ${keyOrder(table)})
  order by ${keyOrder(table)} limit ${most + 1}) as numbered
where place % ${rows} = 0 or is_last
order by place`),
  );
  const bounds = found
    .filter(([place]) => Number(place) > 0 && Number(place) % rows === 0)
    .map(([, , ...key]) => ({ upper: key.map((part) => part ?? ""), rows }));
  if (bounds.length === limit) return { bounds, sealed: false };
  const last = found.find(([, isLast]) => isLast === "t");
  const total = last === undefined ? 0 : Number(last[0]) + 1;
  return {
    bounds: [...bounds, { upper: null, rows: total - bounds.length * rows }],
    sealed: true,
  };
}

/** How many rows of a range each tenant has. */
export async function tenantRows(
  pool: pg.Pool,
  schema: string,
  range: KeyRange,
): Promise<Record<string, number>> {
  const { table, shard_by } = range.table;
  const found = await withSession(pool, (session) =>
    session.rows(
      `select ${exactText(quoted(shard_by))}, count(*) from ${tableSql(tableName(table, schema))}
      where ${rangeSql(range)} group by 1`,
    ),
  );
  return Object.fromEntries(found.map(([tenant, count]) => [tenant ?? "", Number(count)]));
}

/** The least and the greatest key of an integer key of one column. */
export async function keyBounds(
  pool: pg.Pool,
  schema: string,
  range: KeyRange,
): Promise<{ least: string; greatest: string } | null> {
  const { table } = range;
  const [column = ""] = table.key;
  if (table.key.length !== 1 || !INTEGERS.has(columnType(table, column))) {
    throw new PawlError(
      "INPUT_INVALID",
      `The key of ${table.table} is not one integer, so it has no widths. Use the strategy "cardinality".`,
      { details: { table: table.table } },
    );
  }
  const key = quoted(column);
  const [row] = await withSession(pool, (session) =>
    session.rows(
      `select min(${key}), max(${key}) from ${tableSql(tableName(table.table, schema))} where ${rangeSql(range)}`,
    ),
  );
  const [least = null, greatest = null] = row ?? [];
  return least === null || greatest === null ? null : { least, greatest };
}

/** Reads fences and keeps them from being changed until the transaction has ended. */
function standingSql(fences: readonly FenceStand[]): string {
  const tenants = literalArray(fences.map(({ tenant }) => tenant));
  return `select tenant, epoch, state from _pawl.fences where tenant = any (${tenants}) for share`;
}

function requireFences(stand: readonly FenceStand[], rows: ResultRows): void {
  const found = new Map(
    rows.map(([tenant, epoch, state]) => [
      tenant,
      { tenant: tenant ?? "", epoch: Number(epoch), state: state as Fence["state"] },
    ]),
  );
  for (const wanted of stand) {
    const fence = found.get(wanted.tenant);
    if (fence?.state !== wanted.state || fence.epoch !== wanted.epoch) {
      throw otherFence(wanted, fence);
    }
  }
}

/** Deletes rows of a range past capture, fences and, where the role may, triggers. */
export async function remove(
  pool: pg.Pool,
  schema: string,
  isReplica: boolean,
  guard: Guard,
  range: KeyRange,
  options: RemoveOptions,
): Promise<number | null> {
  const { table } = range;
  const reference = tableSql(tableName(table.table, schema));
  const { expect, fences = [] } = options;
  const deletion =
    expect === null
      ? `with gone as (
          delete from ${reference} where ctid = any (array(
            select ctid from ${reference} where ${rangeSql(range)}
            order by ${keyOrder(table)} limit ${Math.trunc(options.limit)} for update))
          returning 1
        ) select count(*), 0 from gone`
      : `with gone as (
          delete from ${reference} where ${rangeSql(range)} returning ${rowDigest(table)} as digest
        ) select ${digestSql("digest")} from gone`;
  return withTransaction(pool, async (session) => {
    const beginning = ["begin", ...applyingSql(isReplica), guardSql(guard)];
    if (!isReplica) {
      await session.run(beginning.splice(0));
      await refuseCascades(session, schema, range, expect === null ? options.limit : null);
    }
    const { results } = await session.run([...beginning, standingSql(fences), deletion]);
    requireFences(fences, results.at(-2) ?? []);
    const [row] = results.at(-1) ?? [];
    const removed = Number(row?.[0] ?? 0);
    if (expect !== null && (removed !== expect.rows || row?.[1] !== expect.digest)) {
      await session.run(["rollback"]);
      return null;
    }
    await session.run(["commit"]);
    return removed;
  });
}
