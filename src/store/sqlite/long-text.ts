import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import type { StoredValue } from "../row-reader.ts";

/*
 * A chunk of a thousand partitions has all their keys in the event that asks for its run, in the run's
 * row and in the event of its end. Neighbours' keys are so alike that they take a fortieth of the room
 * when they are compressed. PostgreSQL does that by itself.
 */

/** Characters from which on a text is worth it: a quarter of a page of the database holds the others. */
const LONG = 2_000;

/** How a compressed text begins; none of ours does, as all are JSON. */
const MARK = "zstd:";

/** The text of a cell as it is kept: compressed when that is much shorter. */
export function keptText(text: StoredValue): StoredValue {
  if (typeof text !== "string" || text.length < LONG) return text;
  const kept = MARK + zstdCompressSync(text).toString("base64");
  return kept.length < text.length / 2 ? kept : text;
}

/** The text that was kept; damaged, it is handed out as it is, and is not what was hashed. */
export function textKept(kept: string): string {
  if (!kept.startsWith(MARK)) return kept;
  try {
    return zstdDecompressSync(Buffer.from(kept.slice(MARK.length), "base64")).toString();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return kept;
  }
}

/** Whether it is the text that is at fault, and not that there is no memory for it. */
function isDamage(error: unknown): boolean {
  const { code = "" } = error as { code?: string };
  if (code === "ZSTD_error_memory_allocation") return false;
  return code === "Z_BUF_ERROR" || code.startsWith("ZSTD_error_");
}
