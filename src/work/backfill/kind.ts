import { OPEN_BACKFILLS } from "./rows.ts";
import type { ControlledWork, WorkKind } from "../kind.ts";
import { planChunks } from "./advance.ts";
import { bisected } from "./bisect.ts";
import { CHUNK_RUNS } from "./fold.ts";
import { BACKFILL_STORIES } from "./story.ts";

const WORK: ControlledWork<"backfills"> = {
  table: "backfills",
  advance: planChunks,
  weight: 15,
  rounds: 1,
  // There may be more than one decision had room for, also where it changed only its runs.
  repeats: true,
  open: [{ where: [OPEN_BACKFILLS], order: [{ cell: "created_pos" }] }],
  page: 10_000,
  changed: ({ backfill_id, finished_at, followers }) =>
    finished_at === null ? [backfill_id] : followers,
};

/** Partitions of assets, in chunks of which each is a run. */
export const BACKFILL: WorkKind = {
  name: "backfill",
  runs: {
    ...CHUNK_RUNS,
    owns: ({ backfill_id }) => backfill_id !== null,
    ended(rows, ended) {
      const split = bisected(rows, ended);
      return split === null ? {} : { fields: { splits: true }, after: [split] };
    },
  },
  work: WORK,
  stories: BACKFILL_STORIES,
};
