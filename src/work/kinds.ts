import { CHUNK_RUNS } from "./backfill/fold.ts";
import { MOVE_RUNS } from "./move/fold-steps.ts";
import type { RunHolder } from "./run/holder.ts";
import { SCHEDULE_RUNS } from "./schedule/fold.ts";
import { SPLIT_RUNS } from "./split/fold.ts";
import { SEGMENT_RUNS } from "./sync/fold-segments.ts";

/** Every kind of work that asks for runs, in the order in which they are told of one. */
export const HOLDERS: readonly RunHolder[] = [
  CHUNK_RUNS,
  SCHEDULE_RUNS,
  SEGMENT_RUNS,
  SPLIT_RUNS,
  MOVE_RUNS,
];
