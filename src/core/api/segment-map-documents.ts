import { z } from "zod";
import { Count } from "../events/fields.ts";
import { Block } from "../sync-spec.ts";
import { SegmentStatusField } from "./sync-documents.ts";

/** Most cells of a map of segments; more segments share cells. */
export const SEGMENT_CELLS_MAX = 365;

/** What a cell can say, the worst last; EXCLUDED may stay unfetched, on somebody's word. */
export const SegmentCellStatus = z.enum([
  "COMPLETE",
  "EXCLUDED",
  ...SegmentStatusField.exclude(["COMPLETE"]).options,
]);
export type SegmentCellStatus = z.infer<typeof SegmentCellStatus>;

/** One segment, or several next to each other; it says the worst of them. */
const SegmentCell = z
  .strictObject({
    from_block: Block,
    to_block: Block,
    segments: z.int().positive(),
    status: SegmentCellStatus,
    /** The first segment of the cell that is so. */
    segment_index: Count,
  })
  .meta({ id: "SyncSegmentCell" });
export type SegmentCell = z.infer<typeof SegmentCell>;

/** All segments of a sync at once, in the order of their blocks. */
export const SegmentMap = z
  .strictObject({
    sync_id: z.string(),
    segments: Count,
    cells: z.array(SegmentCell).max(SEGMENT_CELLS_MAX),
    /** How many segments are so; what there is none of is left out. */
    counts: z.partialRecord(SegmentCellStatus, Count),
    state_version: Count,
    row_version: Count,
    pos: Count,
  })
  .meta({ id: "SyncSegmentMap" });
export type SegmentMap = z.infer<typeof SegmentMap>;
