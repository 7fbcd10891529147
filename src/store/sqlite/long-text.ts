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

/** A text as it is kept: compressed when that is much shorter. */
function keptText(text: string): string {
  const kept = MARK + zstdCompressSync(text).toString("base64");
  return kept.length < text.length / 2 ? kept : text;
}

/** Long documents as they are kept: a run's row is written several times with the same list of keys. */
const keptDocuments = new WeakMap<object, string>();

/** The text of a cell as it is kept, where its value may be a document. */
export function keptCell(value: unknown, text: StoredValue): StoredValue {
  if (typeof text !== "string" || text.length < LONG) return text;
  if (typeof value !== "object" || value === null) return keptText(text);
  const kept = keptDocuments.get(value) ?? keptText(text);
  keptDocuments.set(value, kept);
  return kept;
}

/** The text that was kept; damaged, it is handed out as it is, and is not what was hashed. */
export function textKept(kept: string): string {
  if (!kept.startsWith(MARK)) return kept;
  try {
    return zstdDecompressSync(Buffer.from(kept.slice(MARK.length), "base64")).toString();
  } catch {
    return kept;
  }
}
