import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { PartitionMapping } from "../../kernel/keyspace/mapping.ts";

/** The name of an asset, for example `sales/orders`. */
export const AssetKey = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$/, {
  error: "must be 1 to 200 letters, digits, _ . / - and start with a letter, a digit or _",
});

/** The name of a pool. */
export const PoolName = AssetKey;

/** The longest duration that anything may be given: ten years, so that every time can be written. */
export const DURATION_MS_MAX = 10 * 366 * 24 * 3_600_000;

/** A length of time in milliseconds. */
export const DurationMs = z.int().min(0).max(DURATION_MS_MAX);

/** Most attempts in a row that a task loses with their worker, where its policy says nothing else. */
export const LOST_ATTEMPTS_MAX = 10;

/**
 * When a failed task is tried again; `max_attempts` null means without end. Attempts that were lost
 * with their worker are no failures of the task: they have a bound of their own, which is
 * `LOST_ATTEMPTS_MAX` when absent.
 */
export const RetryPolicy = z.strictObject({
  max_attempts: z.int().min(1).nullable().default(3),
  max_lost_attempts: z.int().min(1).nullable().optional(),
  delay_ms: DurationMs.default(1_000),
  factor: z.number().min(1).max(100).default(2),
  max_delay_ms: DurationMs.default(300_000),
  jitter: z.number().min(0).max(1).default(0.2),
});
export type RetryPolicy = z.infer<typeof RetryPolicy>;

/** The retry policy of an asset that says nothing about it. */
export const DEFAULT_RETRY: RetryPolicy = Object.freeze(RetryPolicy.parse({}));

/** How long an attempt may take when the asset says nothing about it: an hour. */
export const DEFAULT_TIMEOUT_MS = 3_600_000;

/** Free texts by name, for people and for filters. */
export const Labels = z.record(z.string().min(1).max(100), z.string().max(500));

/** Most characters of a run's configuration, as JSON: what a message may hold, and some more around it. */
export const CONFIG_LENGTH_MAX = 300_000;

/** The same where every run of many has it, of a backfill or a schedule; and of labels. */
export const CONFIG_LENGTH_SHARED_MAX = 16_000;

/** What is too long of what runs are given, as the end of a sentence; null when nothing is. */
export function lengthFault(
  { config = null, labels = {} }: { config?: Json | undefined; labels?: object | undefined },
  configMax: number,
): string | null {
  const parts = [
    ["a configuration", config, configMax],
    ["labels", labels, CONFIG_LENGTH_SHARED_MAX],
  ] as const;
  for (const [what, value, most] of parts) {
    const { length } = JSON.stringify(value);
    if (length > most) return `${what} of ${length} characters of JSON; at most ${most} are taken`;
  }
  return null;
}

/** An asset as published: everything about it but its function. */
export const AssetSpec = z.strictObject({
  kind: z.literal("asset"),
  asset_key: AssetKey,
  description: z.string().max(2_000).optional(),
  partitions: PartitionDefinition.nullable(),
  upstream: z
    .array(z.strictObject({ asset_key: AssetKey, mapping: PartitionMapping }))
    .max(1_000)
    .default([]),
  retry: RetryPolicy.default(DEFAULT_RETRY),
  /** One task for a whole chunk, which reports an outcome for each partition. */
  batch: z.boolean().default(false),
  /** Whether a batch that fails as a whole is halved until what fails stands alone. */
  bisect: z.boolean().default(false),
  pool: PoolName.nullable().default(null),
  timeout_ms: DurationMs.min(1).default(DEFAULT_TIMEOUT_MS),
  stall_after_ms: DurationMs.min(1).nullable().default(null),
  freshness: z
    .strictObject({ maximum_lag_minutes: z.int().min(1) })
    .nullable()
    .default(null),
  code_version: z.string().min(1).max(200).nullable().default(null),
  labels: Labels.default({}),
});
export type AssetSpec = z.infer<typeof AssetSpec>;

/** A pool as published: how many tasks that name it may run at once. */
export const PoolSpec = z.strictObject({
  kind: z.literal("pool"),
  pool: PoolName,
  limit: z.int().min(1),
});
export type PoolSpec = z.infer<typeof PoolSpec>;

/** How many attempts in a row a task may lose with their worker; null when without end. */
export function lostAttemptsMax({ max_attempts, max_lost_attempts }: RetryPolicy): number | null {
  if (max_lost_attempts !== undefined) return max_lost_attempts;
  // Who allows a single attempt does not want the function to run twice, whatever became of the first.
  return max_attempts === 1 ? 1 : LOST_ATTEMPTS_MAX;
}
