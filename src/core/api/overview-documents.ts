import { z } from "zod";
import { Count, InstantText } from "../events/fields.ts";

/** How long a bucket of samples is, in seconds. */
export const SAMPLE_SECONDS = 10;

/** How long samples are kept. */
export const SAMPLES_KEPT_MS = 24 * 3_600_000;

/** Most that is listed of what wants attention, and of what is running. */
export const ATTENTION_MAX = 100;
export const RUNNING_MAX = 50;

/** A series by time. */
export const SeriesDocument = z
  .strictObject({
    series: z.string(),
    /** Seconds since the start of 1970 at which a bucket begins, and what it holds; buckets without a word are left out. */
    points: z.array(z.tuple([z.int(), z.int()])),
  })
  .meta({ id: "Series" });
export type SeriesDocument = z.infer<typeof SeriesDocument>;

/** What is wrong with something, the most urgent first. */
export const Concern = z.enum(["failed", "stuck", "late", "stale", "paused"]);
export type Concern = z.infer<typeof Concern>;

/** What may want attention. */
export const AttentionKind = z.enum([
  "backfill",
  "run",
  "schedule",
  "sensor",
  "sync",
  "move",
  "split",
  "asset",
  "worker",
  "conflict",
]);
export type AttentionKind = z.infer<typeof AttentionKind>;

/** Something that somebody should look at. */
export const AttentionDocument = z
  .strictObject({
    kind: AttentionKind,
    /** What it is found by: of an asset its key, of a worker the name of the work that waits for one, of a conflict the id of the run. */
    id: z.string(),
    name: z.string(),
    what: Concern,
    /** When it began, as far as that is known. */
    since: InstantText.nullable(),
    /** What happened and why, in a sentence. */
    text: z.string(),
  })
  .meta({ id: "Attention" });
export type AttentionDocument = z.infer<typeof AttentionDocument>;

/** Something under way. */
export const RunningDocument = z
  .strictObject({
    kind: z.enum(["backfill", "run", "sync", "move", "split"]),
    id: z.string(),
    name: z.string(),
    /** What it is doing, in a few words. */
    text: z.string(),
    done: Count,
    /** Null while that is not known. */
    total: Count.nullable(),
    unit: z.enum(["partitions", "tasks", "blocks", "rows"]),
    failed: Count,
    rate_per_second: z.number().nullable(),
    eta_at: InstantText.nullable(),
    started_at: InstantText.nullable(),
  })
  .meta({ id: "Running" });
export type RunningDocument = z.infer<typeof RunningDocument>;

const Counts = z.record(z.string(), Count);

/** Everything that there is, by kind and state. */
export const OverviewCounts = z
  .strictObject({
    backfills: Counts,
    /** Of runs and tasks, those of unfinished runs. */
    runs: Counts,
    tasks: Counts,
    schedules: Counts,
    sensors: Counts,
    syncs: Counts,
    moves: Counts,
    /** By phase. */
    splits: Counts,
    /** What is published, by kind. */
    definitions: Counts,
  })
  .meta({ id: "OverviewCounts" });
export type OverviewCounts = z.infer<typeof OverviewCounts>;

/** What is running, late, failed, stale and paused right now. */
export const OverviewDocument = z
  .strictObject({
    now: InstantText,
    counts: OverviewCounts,
    /** The most urgent first. */
    attention: z.array(AttentionDocument).max(ATTENTION_MAX),
    /** How much wants attention in all, and by what is wrong. */
    attention_total: Count,
    attention_counts: z.strictObject({
      failed: Count,
      stuck: Count,
      late: Count,
      stale: Count,
      paused: Count,
    }),
    /** Whether all partitions were looked at for what is stale. */
    stale_complete: z.boolean(),
    /** The position that what is stale reflects; before `pos` while it is looked for again. */
    stale_pos: Count,
    running: z.array(RunningDocument).max(RUNNING_MAX),
    running_total: Count,
    /** Whether all unfinished runs were looked at for what is running. */
    running_complete: z.boolean(),
    pos: Count,
  })
  .meta({ id: "Overview" });
export type OverviewDocument = z.infer<typeof OverviewDocument>;
