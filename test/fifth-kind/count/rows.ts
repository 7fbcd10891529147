import { defineTable, fixed, int, json, type RowIn, text, textOf } from "../../kernel/table.ts";
import type { Instant } from "../../kernel/instant.ts";

/** Where a count stands. */
export const COUNT_STATES = ["RUNNING", "PAUSED", "FAILED", "COMPLETE", "CANCELLED"] as const;
export type CountState = (typeof COUNT_STATES)[number];

/** The table of counts. */
export const COUNTS = defineTable("counts", ["count_id"], {
  count_id: text,
  asset_key: fixed(text),
  spec_hash: fixed(text),
  to: fixed(int),
  chunk_size: fixed(int),
  state: textOf<CountState>(),
  state_version: int,
  /** The next chunk that never ran, and chunks to run again. */
  next: int,
  again: json<number[]>(),
  failed: json<number[]>(),
  /** The runs under way. */
  runs: json<number[]>(),
  /** Runs so far, and numbers that were counted. */
  requested: int,
  counted: int,
  created_at: fixed(textOf<Instant>()),
  created_pos: fixed(int),
});
export type CountRow = RowIn<typeof COUNTS>;

declare module "../tables.ts" {
  interface KindTables {
    readonly counts: typeof COUNTS;
  }
}
