import type { SplitLimits } from "./split-limits.ts";

/** How many rows the next chunk should have, after one that took so long and had so many bytes. */
export function nextChunkRows(
  asked: number,
  took: { readonly ms: number; readonly rows: number; readonly bytes: number },
  limits: SplitLimits,
): number {
  const { chunkRowsMin, chunkRowsMax, chunkBytes, chunkMs } = limits;
  // One slow or quick chunk says little, so the size at most doubles or halves.
  const factor = Math.min(2, Math.max(0.5, chunkMs / Math.max(1, took.ms)));
  const inBytes = took.bytes === 0 ? chunkRowsMax : (chunkBytes * took.rows) / took.bytes;
  return Math.max(chunkRowsMin, Math.floor(Math.min(asked * factor, inBytes, chunkRowsMax)));
}
