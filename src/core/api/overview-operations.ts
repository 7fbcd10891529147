import { z } from "zod";
import { Count } from "../events/fields.ts";
import { type Operation, ORCHESTRATION_PATH, QueryInstant, readQuery } from "./operation.ts";
import { OverviewDocument, SeriesDocument } from "./overview-documents.ts";

/** Most series that one request reads. */
const SERIES_MAX = 20;

const SeriesNames = z
  .string()
  .transform((text) => text.split(","))
  .pipe(z.array(z.string().min(1).max(200)).min(1).max(SERIES_MAX))
  .describe(
    "Names with commas between: `tasks_succeeded`, `tasks_failed`, `runs_finished` are counted; " +
      "`tasks_queued`, `tasks_running`, `split_lag_ms:{split_id}`, `split_lag_events:{split_id}`, " +
      "`sync_lag_blocks:{sync_id}` are looked at",
  );

/** What the API can say about everything at once. */
export const OVERVIEW_OPERATIONS = {
  getOverview: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/overview`,
    summary: "Says what is running, late, failed, stale and paused right now",
    verb: "read",
    query: z.strictObject(readQuery),
    answer: OverviewDocument,
    status: 200,
  },
  listSamples: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/samples`,
    summary: "Lists how much was done and how much waited, by time, for up to a day back",
    verb: "read",
    query: z.strictObject({
      ...readQuery,
      series: SeriesNames,
      /** The last hour when it is left out. */
      since: QueryInstant.optional(),
      until: QueryInstant.optional(),
    }),
    answer: z.strictObject({
      items: z.array(SeriesDocument),
      /** How long a bucket is. */
      bucket_seconds: Count,
      pos: Count,
    }),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
