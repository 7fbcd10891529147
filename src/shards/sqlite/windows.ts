import type { KeyRange } from "../shard.ts";
import type { Connection } from "./connection.ts";
import {
  boundsCondition,
  canUseIndex,
  keyColumns,
  keyOrder,
  keyTexts,
  rangeCondition,
} from "./range-sql.ts";
import type { TableDetail } from "./table-detail.ts";

/** Rows that are looked at in one go: some 10 ms of work. */
export const WINDOW_ROWS = 10_000;

/**
 * Cuts a range into windows of a bounded number of rows, whether they are in scope or not, so that
 * no statement takes long however few of them are.
 */
export function* windowsOf(
  db: Connection,
  detail: TableDetail,
  range: KeyRange,
  rows: number = WINDOW_ROWS,
): Generator<KeyRange & { readonly upTo: string[] | null }> {
  let rest = range;
  for (;;) {
    const condition = canUseIndex(detail, rest)
      ? rangeCondition(detail, rest)
      : boundsCondition(detail, rest);
    const end = db.get(
      `select ${keyColumns(detail)} from ${detail.sql} where ${condition.sql}
       order by ${keyOrder(detail)} limit 1 offset ?`,
      ...condition.values,
      BigInt(rows - 1),
    );
    const upTo = end === undefined ? null : keyTexts(detail, end);
    yield { ...rest, upTo };
    if (upTo === null) return;
    rest = { ...rest, from: null, after: upTo };
  }
}

/** Lets others of this process have their turn. */
export function takeTurns(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
