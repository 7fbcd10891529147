import type { ShardKey } from "../../work/shard/step-protocol.ts";
import type { Scope } from "../../work/shard/spec.ts";
import type { Digest, Guard, KeyRange, Survey } from "../shard.ts";
import { lookUp } from "./catalog.ts";
import type { ShardDatabase } from "./connection.ts";
import { whileApplying, checkGuard } from "./plans.ts";
import {
  compareKey,
  keyColumns,
  keyOrder,
  keyTexts,
  rangeCondition,
  scopeOfRows,
  tenantText,
} from "./scope-sql.ts";
import { RowDigest, rowText } from "./row-digest.ts";
import { quoted } from "./literals.ts";
import { refuseNullKeys, type TableDetail, unfit } from "./table-detail.ts";
import { takeTurns, windowsOf } from "./failures.ts";

/** Count and digest of a range, window by window. */
export async function digestOfRange(db: ShardDatabase, range: KeyRange): Promise<Digest> {
  const digest = new RowDigest();
  for (const add of digestSteps(db, range, digest)) {
    add();
    await takeTurns();
  }
  return digest.result();
}

/** Count and digest of the rows that have one of the keys and are in scope. */
export function digestOfKeys(
  db: ShardDatabase,
  tables: readonly { readonly detail: TableDetail; readonly keys: readonly ShardKey[] }[],
  scope: Scope,
): Digest {
  const digest = new RowDigest();
  for (const { detail, keys } of tables) {
    const unique = new Map(keys.map((key) => [JSON.stringify(key), key]));
    const inScope = scopeOfRows(detail, scope, false);
    for (const key of unique.values()) {
      const { sql, values } = compareKey(detail, "=", key);
      const select = `select ${rowText(detail)} from ${detail.sql} where ${sql} and ${inScope}`;
      digest.add(db.all(select, ...values));
    }
  }
  return digest.result();
}

/** Bounds that cut a range into pieces of so many rows. */
export async function survey(
  db: ShardDatabase,
  range: KeyRange,
  rows: number,
  limit: number,
): Promise<Survey> {
  const detail = rangeDetail(db, range);
  const bounds: { upper: ShardKey | null; rows: number }[] = [];
  let counted = 0;
  for (const { upTo, ...window } of windowsOf(db, detail, range)) {
    let rest: KeyRange = window;
    for (;;) {
      const { sql, values } = rangeCondition(detail, rest, upTo);
      const where = `from ${detail.sql} where ${sql}`;
      const found = Number(db.value(`select count(*) ${where}`, ...values));
      if (counted + found <= rows) {
        counted += found;
        break;
      }
      const select = `select ${keyColumns(detail)} ${where} order by ${keyOrder(detail)}`;
      const next = db.get(`${select} limit 1 offset ?`, ...values, BigInt(rows - counted)) ?? [];
      const upper = keyTexts(detail, next);
      bounds.push({ upper, rows });
      if (bounds.length === limit) return { bounds, sealed: false };
      counted = 0;
      rest = { ...rest, from: upper, after: null };
    }
    await takeTurns();
  }
  bounds.push({ upper: null, rows: counted });
  return { bounds, sealed: true };
}

/** How many rows of a range each tenant has, window by window. */
export async function tenantRows(
  db: ShardDatabase,
  range: KeyRange,
): Promise<Record<string, number>> {
  const detail = rangeDetail(db, range);
  const tenant = tenantText(quoted(detail.shape.shard_by));
  const counts = new Map<string, number>();
  for (const { upTo, ...window } of windowsOf(db, detail, range)) {
    const { sql, values } = rangeCondition(detail, window, upTo);
    const select = `select ${tenant}, count(*) from ${detail.sql} where ${sql} group by 1`;
    for (const [name, count] of db.all(select, ...values)) {
      const key = String(name ?? "");
      counts.set(key, (counts.get(key) ?? 0) + Number(count));
    }
    await takeTurns();
  }
  return Object.fromEntries(counts);
}

/** The least and greatest key of a range. */
export function keyBounds(
  db: ShardDatabase,
  range: KeyRange,
): { least: string; greatest: string } | null {
  const detail = lookUp(db, range.table);
  const { sql, values } = rangeCondition(detail, range);
  const [column, ...others] = detail.key;
  const end = (direction: "asc" | "desc"): string | null => {
    const select = `select ${keyColumns(detail)} from ${detail.sql} where ${sql}`;
    const key = db.get(`${select} order by ${keyOrder(detail)} ${direction} limit 1`, ...values);
    if (key === undefined) return null;
    if (others.length === 0 && typeof key[0] === "bigint") return String(key[0]);
    throw unfit(detail.shape, `has no key of one integer: ${column?.name ?? ""} is none`);
  };
  const least = end("asc");
  const greatest = end("desc");
  return least === null || greatest === null ? null : { least, greatest };
}

/** The key of the last of the next rows of a range, so many of them; null when there is none. */
export async function lastOfNext(
  db: ShardDatabase,
  range: KeyRange,
  limit: number,
): Promise<ShardKey | null> {
  const detail = lookUp(db, range.table);
  let counted = 0;
  let last: ShardKey | null = null;
  for (const { upTo, ...window } of windowsOf(db, detail, range)) {
    const { sql, values } = rangeCondition(detail, window, upTo);
    const keys = db.all(
      `select ${keyColumns(detail)} from ${detail.sql} where ${sql}
       order by ${keyOrder(detail)} limit ?`,
      ...values,
      BigInt(limit - counted),
    );
    counted += keys.length;
    const end = keys.at(-1);
    if (end !== undefined) last = keyTexts(detail, end);
    if (counted === limit) break;
    await takeTurns();
  }
  return last;
}

/** Deletes rows of a range up to a key; those of no range when there is no such key. */
export function removeRangeRows(
  db: ShardDatabase,
  guard: Guard,
  range: KeyRange,
  options: { readonly limit: number; readonly upTo: ShardKey | null },
): number {
  checkGuard(db, guard);
  if (options.upTo === null) return 0;
  const detail = lookUp(db, range.table);
  const { sql, values } = rangeCondition(detail, range, options.upTo);
  const keys = `select ${keyColumns(detail)} from ${detail.sql} where ${sql}
    order by ${keyOrder(detail)} limit ?`;
  const remove = `delete from ${detail.sql} where (${keyColumns(detail)}) in (${keys})`;
  return whileApplying(db, () => db.run(remove, ...values, BigInt(options.limit)));
}

/** Deletes a whole range if it has a digest, in the transaction that looked; else answers null. */
export function removeRange(
  db: ShardDatabase,
  guard: Guard,
  range: KeyRange,
  expect: Digest,
): number | null {
  checkGuard(db, guard);
  const digest = new RowDigest();
  for (const add of digestSteps(db, range, digest)) add();
  const found = digest.result();
  if (found.rows !== expect.rows || found.digest !== expect.digest) return null;
  const detail = lookUp(db, range.table);
  const { sql, values } = rangeCondition(detail, range);
  return whileApplying(db, () => db.run(`delete from ${detail.sql} where ${sql}`, ...values));
}

function* digestSteps(
  db: ShardDatabase,
  range: KeyRange,
  digest: RowDigest,
): Generator<() => void> {
  const detail = rangeDetail(db, range);
  for (const { upTo, ...window } of windowsOf(db, detail, range)) {
    const { sql, values } = rangeCondition(detail, window, upTo);
    yield () => {
      digest.add(db.all(`select ${rowText(detail)} from ${detail.sql} where ${sql}`, ...values));
    };
  }
}

/** Rows with a NULL in their key are in no range, so whoever begins at the start looks for them. */
function rangeDetail(db: ShardDatabase, range: KeyRange): TableDetail {
  const detail = lookUp(db, range.table);
  if ((range.from ?? null) === null && (range.after ?? null) === null) refuseNullKeys(db, detail);
  return detail;
}
