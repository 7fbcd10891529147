import type { Scope } from "../../work/shard/spec.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import type { Digest, Guard, KeyRange, Survey } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { takeTurns, windowsOf } from "./failures.ts";
import { quoted } from "./literals.ts";
import { checkGuard, whileApplying } from "./plans.ts";
import {
  compareKey,
  keyColumns,
  keyOrder,
  keyTexts,
  rangeCondition,
  scopeOfRows,
  tenantText,
} from "./scope-sql.ts";
import { lookUp, refuseNullKeys, type TableDetail, unfit } from "./table-detail.ts";

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

/** Arguments that a function of SQLite takes in any build. */
const ARGUMENTS_MAX = 90;
const MASK = (1n << 64n) - 1n;

/**
 * A row as one text in which 1, 1.0, '1' and X'31' differ: what `quote` makes of each value. It
 * cuts texts at a NUL character, but rows with one are never copied.
 */
export function rowText(detail: TableDetail): string {
  let parts = detail.shape.columns.map(({ name }) => `quote(${quoted(name)})`);
  while (parts.length > 1) {
    const groups: string[] = [];
    for (let start = 0; start < parts.length; start += ARGUMENTS_MAX) {
      groups.push(`concat_ws(',', ${parts.slice(start, start + ARGUMENTS_MAX).join(", ")})`);
    }
    parts = groups;
  }
  return parts.join("");
}

/** The sum of the hashes of rows, which does not depend on their order. */
export class RowDigest {
  #rows = 0;
  #first = 0n;
  #second = 0n;

  add(texts: readonly (readonly unknown[])[]): void {
    // Sums of 32-bit hashes stay exact as numbers for two million rows; a window has fewer.
    let first = 0;
    let second = 0;
    for (const [text] of texts) {
      const row = String(text);
      let one = 0x9e3779b9;
      let other = 0x85ebca6b;
      for (let index = 0; index < row.length; index += 1) {
        const unit = row.charCodeAt(index);
        one = Math.imul(one ^ unit, 0x9e3779b1);
        other = Math.imul(other ^ unit, 0x5f356495);
        other = (other << 13) | (other >>> 19);
      }
      first += mixed(one ^ row.length, other);
      second += mixed(other, one);
    }
    this.#rows += texts.length;
    this.#first = (this.#first + BigInt(first)) & MASK;
    this.#second = (this.#second + BigInt(second)) & MASK;
  }

  result(): Digest {
    const hex = (sum: bigint): string => sum.toString(16).padStart(16, "0");
    return { rows: this.#rows, digest: hex(this.#first) + hex(this.#second) };
  }
}

/** The finish of MurmurHash3 over two halves: each bit of them decides about each bit of the result. */
function mixed(one: number, other: number): number {
  let hash = one ^ Math.imul(other, 0xcc9e2d51);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
