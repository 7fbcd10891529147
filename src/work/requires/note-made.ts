import { compareText } from "../../kernel/table.ts";
import type { Rows } from "../rows.ts";
import { type AwaitedAssetRow, EVERY } from "./rows.ts";

/** Most partitions that are remembered one by one as waited for; beyond them, whatever is made counts. */
const AWAITED_MAX = 1_000;

type Keys = readonly string[] | typeof EVERY;

function joined(one: Keys, other: Keys): AwaitedAssetRow["awaited"] {
  if (one === EVERY || other === EVERY) return EVERY;
  return [...new Set([...one, ...other])].toSorted(compareText);
}

/** Remembers of partitions that were made those that something waits for: nothing, mostly. */
export function noteMade(rows: Rows, assetKey: string, keys: Keys, pos: number): void {
  const row = rows.awaitedAssets.get(assetKey);
  if (row === null) return;
  const { awaited } = row;
  const own = keys === EVERY || awaited === EVERY ? keys : commonTo(awaited, keys);
  if (own.length === 0) return;
  rows.awaitedAssets.put({ ...row, arrived: joined(row.arrived ?? [], own), arrived_pos: pos });
}

function commonTo(awaited: readonly string[], keys: readonly string[]): readonly string[] {
  const among = new Set(awaited);
  return keys.filter((key) => among.has(key));
}

/** Remembers that partitions of an asset are waited for. */
export function noteAwaited(rows: Rows, assetKey: string, keys: readonly string[]): void {
  const row = rows.awaitedAssets.get(assetKey);
  const awaited = joined(row?.awaited ?? [], keys);
  const isMany = awaited.length > AWAITED_MAX;
  rows.awaitedAssets.put({
    asset_key: assetKey,
    awaited: isMany ? EVERY : awaited,
    arrived: row?.arrived ?? null,
    arrived_pos: row?.arrived_pos ?? 0,
  });
}
