import type { WorkKind } from "../kind.ts";
import { SENSOR_STORIES } from "./story.ts";

/** Runs and backfills when something happened elsewhere. No controller: its polls and messages move it on. */
export const SENSOR: WorkKind = {
  name: "sensor",
  runs: { owns: ({ trigger_source_ref: { type } }) => type === "sensor" },
  stories: SENSOR_STORIES,
};
