import type { Rows } from "../core/rows/rows.ts";
import type { ClaimedMove, ShardWorkRef } from "../core/step-protocol.ts";

/** What a worker is told of a step of a move; null when it is not to be done any more. */
export function claimedMove(
  _rows: Rows,
  _ref: Extract<ShardWorkRef, { work: "move" }>,
): ClaimedMove | null {
  return null;
}
