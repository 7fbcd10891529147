import { z } from "zod";
import { Count, InstantText } from "../events/fields.ts";
import { ChunkStateField } from "./backfill-documents.ts";

/** The states of all chunks of a backfill, short enough to be drawn at once. */
export const ChunkMap = z
  .strictObject({
    backfill_id: z.string(),
    /** As the backfill counts them: a split chunk is not counted, its tiles are. */
    total_chunks: Count,
    /** How many cells the map has: all values of chunk_index, split chunks and tiles included. */
    cells: Count,
    /** The chunks that the backfill began with; the cells from here on are tiles of split ones. */
    base_chunks: Count,
    states: z.array(ChunkStateField),
    /** Place in `states` and number of chunks, in turn, from chunk_index 0 on. */
    lengths: z.array(Count),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "ChunkMap" });
export type ChunkMap = z.infer<typeof ChunkMap>;

/** Tasks that failed alike: with errors of one class, whose messages differ only in values. */
export const FailureGroup = z
  .strictObject({
    error_class: z.string(),
    /** The newest message. */
    message: z.string(),
    /** The messages without numbers, quoted values, ids and partition keys. */
    pattern: z.string(),
    /** Runs in which tasks failed so. */
    runs: Count,
    /** Tasks that failed so; a batch counts once for each kind that its partitions failed with. */
    tasks: Count,
    first_at: InstantText,
    last_at: InstantText,
    /** A task in the newest failed run that failed so; the run alone where more is not known. */
    example: z.strictObject({
      run_id: z.string(),
      chunk_index: Count,
      task_key: Count.nullable(),
      asset_key: z.string().nullable(),
      partition_key: z.string().nullable(),
    }),
  })
  .meta({ id: "FailureGroup" });
export type FailureGroup = z.infer<typeof FailureGroup>;

/** What went wrong in a backfill, what most tasks failed with first. */
export const FailureGroups = z
  .strictObject({
    backfill_id: z.string(),
    items: z.array(FailureGroup),
    /**
     * False when there are more failed runs or kinds of failure than were looked at; tasks may then be
     * counted as the first one of their run that failed.
     */
    complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "FailureGroups" });
export type FailureGroups = z.infer<typeof FailureGroups>;
