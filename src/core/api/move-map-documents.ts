import { z } from "zod";
import { Count } from "../events/fields.ts";

/** What a segment of a move is shown as on a map: RUNNING where somebody works on it, and was not told to stop. */
export const MoveCellState = z.enum([
  "PENDING",
  "RUNNING",
  "COPIED",
  "REMOVED",
  "POISONED",
  "EXCLUDED",
]);
export type MoveCellState = z.infer<typeof MoveCellState>;

/** How far the rows of one table from one shard to another are; as many lanes as a move is shown with. */
const LaneProgress = z
  .strictObject({
    lane: Count,
    segments: Count,
    /** Of the segments, how many are so; what there is none of is left out. */
    states: z.partialRecord(MoveCellState, Count),
    rows_estimated: Count,
    rows_copied: Count,
  })
  .meta({ id: "MoveLaneProgress" });
export type LaneProgress = z.infer<typeof LaneProgress>;

/** All segments of a move at once, by their index. */
export const MoveSegmentMap = z
  .strictObject({
    move_id: z.string(),
    cells: Count,
    states: z.array(MoveCellState),
    /** A place in `states` and a number of segments, in turn, from the first segment on. */
    lengths: z.array(Count),
    /** Those that have segments, the first thousand. */
    lanes: z.array(LaneProgress),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "MoveSegmentMap" });
export type MoveSegmentMap = z.infer<typeof MoveSegmentMap>;
