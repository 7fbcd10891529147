import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { PartitionMapping } from "../../kernel/keyspace/mapping.ts";
import { StaleReason } from "../../kernel/keyspace/selector.ts";
import { CHECKS_MAX, CheckSpec } from "../asset/checks.ts";
import { InstantText, JsonValue } from "../envelope.ts";

/** The name of an asset, for example `sales/orders`. */
export const AssetKey = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$/, {
  error: "must be 1 to 200 letters, digits, _ . / - and start with a letter, a digit or _",
});

/**
 * Assets as requests select them: by key, `+orders` with all that it is made from, `orders+` with all that is
 * made from it, by a label with `label:team=growth`, and `group:finance` for the label `group`.
 */
export const AssetSelection = z
  .string()
  .max(620)
  .regex(
    /^(?:\+?[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}\+?|label:[^=]{1,100}=[\s\S]{0,500}|group:[\s\S]{1,500})$/,
    {
      error:
        "must be the key of an asset (letters, digits, _ . / -), with a + before it for all that it is made " +
        "from, with a + after it for all that is made from it, or label:<name>=<value>, or group:<name>",
    },
  );

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

/** How long a task waits for its upstream when its asset says nothing about it: a week. */
export const WAIT_TIMEOUT_MS = 7 * 24 * 3_600_000;

/** What the upstream partitions of a task have to be before it starts, and what becomes of it otherwise. */
export const Requirement = z.strictObject({
  /** All of them there, or there and not stale. */
  upstream: z.enum(["materialized", "fresh"]),
  otherwise: z.enum(["wait", "skip", "fail"]).default("wait"),
  /** How long it waits, after which it fails. */
  wait_timeout_ms: DurationMs.min(1).default(WAIT_TIMEOUT_MS),
});
export type Requirement = z.infer<typeof Requirement>;

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
  /** What judges its partitions after they were made; absent when nothing does. */
  checks: z
    .array(CheckSpec)
    .min(1)
    .max(CHECKS_MAX)
    .refine((checks) => new Set(checks.map(({ name }) => name)).size === checks.length, {
      error: "must have names that differ",
    })
    .exactOptional(),
  /** What has to be so upstream before it is made; absent when nothing has to. */
  requires: Requirement.exactOptional(),
  /** Made elsewhere, and only reported here; absent for all others. */
  external: z.literal(true).exactOptional(),
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

/** The name of a schedule, a sensor or a webhook: for people, and never part of a key. */
export const EntityName = AssetKey;

const described = {
  name: EntityName,
  description: z.string().max(2_000).optional(),
  labels: Labels.default({}),
  /** Whether it acts; a change of this pauses or resumes it. */
  enabled: z.boolean().default(true),
};

const assetSelection = z.array(AssetKey).min(1).max(1_000);
const partitionKeys = z.array(z.string().min(1).max(2_000)).min(1).max(10_000);

/** Most partitions that a tick of a schedule asks for when it looks for what is stale. */
export const STALE_TICK_LIMIT_MAX = 10_000;

/** What of its assets a tick of a schedule asks for. */
export const ScheduleSelection = z.discriminatedUnion("type", [
  /** The assets as a whole: they have no partitions. */
  z.strictObject({ type: z.literal("whole") }),
  /** The partition that the tick's time falls in, or one so many before it. */
  z.strictObject({ type: z.literal("tick_time"), offset: z.int().min(-10_000).max(0).default(0) }),
  z.strictObject({ type: z.literal("explicit"), partition_keys: partitionKeys }),
  /** Every partition there is. */
  z.strictObject({ type: z.literal("all") }),
  /** Partitions that are stale at the time of the tick, as a backfill. */
  z.strictObject({
    type: z.literal("stale"),
    limit: z.int().min(1).max(STALE_TICK_LIMIT_MAX).default(1_000),
    reasons: z.array(StaleReason).min(1).max(4).optional(),
  }),
]);
export type ScheduleSelection = z.infer<typeof ScheduleSelection>;

/** What a tick does while a run of the schedule is still going. */
export const OverlapPolicy = z.enum(["allow", "skip", "buffer_one"]);

/** A schedule as published. */
export const ScheduleSpec = z.strictObject({
  kind: z.literal("schedule"),
  ...described,
  cron: z.string().min(1).max(200),
  timezone: z.string().min(1).max(100).default("UTC"),
  asset_selection: assetSelection,
  selection: ScheduleSelection.default({ type: "whole" }),
  config: JsonValue.default(null),
  priority: z.int().min(-100).max(100).default(0),
  overlap: OverlapPolicy.default("allow"),
  /** How old a missed time may be to be caught up. */
  catchup_window_minutes: z.int().min(0).max(5_256_000).default(1_440),
  /** How many missed times are caught up at most, the newest ones. */
  max_catchup_ticks: z.int().min(0).max(100).default(3),
  catch_up_on_resume: z.boolean().default(false),
  /** Moves all times of the schedule by a part of this, always the same, to spread the load. */
  jitter_ms: DurationMs.max(86_400_000).default(0),
  /** Times before this, or from `ends_at` on, are none of the schedule's. */
  starts_at: InstantText.nullable().default(null),
  ends_at: InstantText.nullable().default(null),
});
export type ScheduleSpec = z.infer<typeof ScheduleSpec>;

/** What a poll sensor looks at, where Pawl does the looking. */
export const WatchSpec = z.discriminatedUnion("type", [
  /** Files that are new or have changed, on the worker's machine. */
  z.strictObject({
    type: z.literal("files"),
    folder: z.string().min(1).max(1_000),
    pattern: z.string().min(1).max(200).default("*"),
    recursive: z.boolean().default(false),
    /** A file that changed less long ago than this may still be written to, and waits. */
    settle_ms: DurationMs.default(1_000),
  }),
  /** Objects that are new or have changed in a store that the project knows how to list. */
  z.strictObject({
    type: z.literal("objects"),
    prefix: z.string().max(1_000).default(""),
    pattern: z.string().min(1).max(200).default("*"),
  }),
  /** Rows beyond a watermark in a SQL table. */
  z.strictObject({
    type: z.literal("rows"),
    /**
     * The worker's environment variable that holds the database's address; null when code knows it.
     * Only some names will do, so that nobody can point a sensor at whatever else a worker knows.
     */
    database_env: z
      .string()
      .regex(/^SENSOR_[A-Z0-9_]{1,99}$/, {
        error: "must begin with SENSOR_, then capital letters, digits and _",
      })
      .nullable()
      .default(null),
    table: z.string().min(1).max(200),
    /** The column that only grows. */
    watermark: z.string().min(1).max(200),
    /** Tells rows of the same watermark apart; needed where the watermark is not unique. */
    key: z.string().min(1).max(200).nullable().default(null),
    limit: z.int().min(1).max(10_000).default(1_000),
  }),
  /** Partitions of another asset that were materialized. */
  z.strictObject({ type: z.literal("materializations"), asset_key: AssetKey }),
  /** Runs that failed, of some assets or of any. */
  z.strictObject({
    type: z.literal("run_failures"),
    assets: z.array(AssetKey).max(1_000).default([]),
  }),
]);
export type WatchSpec = z.infer<typeof WatchSpec>;

/**
 * The run that one item or message asks for, where no function decides. Texts may name fields of the
 * item in braces: `{name}`, `{payload.region}`.
 */
export const SensorTarget = z.strictObject({
  asset_selection: assetSelection,
  partition_key: z.string().min(1).max(2_000).nullable().default(null),
  /** Two items with the same run key are one run. */
  run_key: z.string().min(1).max(200).nullable().default(null),
  config: JsonValue.default(null),
});
export type SensorTarget = z.infer<typeof SensorTarget>;

/** A sensor as published. */
export const SensorSpec = z.strictObject({
  kind: z.literal("sensor"),
  ...described,
  mode: z.enum(["push", "poll"]),
  /** What to look at; null when the sensor's function does the looking, and for push. */
  watch: WatchSpec.nullable().default(null),
  /** What to ask for; null when the sensor's function decides. */
  target: SensorTarget.nullable().default(null),
  min_interval_ms: DurationMs.min(100).default(30_000),
  timeout_ms: DurationMs.min(100).max(3_600_000).default(60_000),
  max_run_requests: z.int().min(1).max(1_000).default(100),
});
export type SensorSpec = z.infer<typeof SensorSpec>;

/** What a webhook can tell of. */
export const NOTIFICATIONS = [
  "run.succeeded",
  "run.failed",
  "run.cancelled",
  "backfill.succeeded",
  "backfill.failed",
  "backfill.cancelled",
  "backfill.paused",
  "schedule.failed",
  "schedule.skipped",
  "sensor.error",
  "sensor.recovered",
  "split.caught_up",
  "split.cut_over",
  "split.fell_back",
  "split.failed",
  "split.completed",
  "split.rolled_back",
  "move.completed",
  "move.paused",
  "move.poisoned",
] as const;

/** How the messages of a webhook can be written: as Pawl's own document, or as a service shows them. */
export const WEBHOOK_FORMATS = ["pawl", "slack", "teams", "discord"] as const;

/** What of many notifications a webhook can be told as one. */
export const WEBHOOK_DIGESTS = ["backfill"] as const;

/** The longest template: what the service with the shortest messages takes. */
const TEMPLATE_LENGTH_MAX = 2_000;

/** Most people that one webhook writes to; lists of people are a mail server's business. */
const EMAIL_ADDRESSES_MAX = 50;

/** What a mail server takes without quotes: the part before the @ may be 64 long, all of it 254. */
const EMAIL_ADDRESS =
  /^(?=.{1,254}$)(?=[^@]{1,64}@)[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*@[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?(?:\.[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?)*$/i;

/** Whether a text is the bare address of a mailbox, such as `ops@example.com`. */
export function isEmailAddress(text: string): boolean {
  return EMAIL_ADDRESS.test(text);
}

/** A mailbox as `Pawl <pawl@example.com>` or `pawl@example.com`; null when the text is neither. */
export function mailboxOf(text: string): { name: string; address: string } | null {
  const [, name = "", address = text] = /^([^<>"\p{Cc}]{1,100}?)\s*<([^<>]+)>$/u.exec(text) ?? [];
  return isEmailAddress(address) ? { name: name.trim(), address } : null;
}

/** To whom a webhook sends e-mail; the server that takes it is the operator's. */
export const WebhookEmail = z.strictObject({
  to: z.array(z.string().min(1).max(320)).min(1).max(EMAIL_ADDRESSES_MAX),
  /** The subject, with `{{names}}` in it as in a template; a title when absent. */
  subject: z.string().min(1).max(500).optional(),
});

/** A webhook as published: where to tell of which outcomes. */
export const WebhookSpec = z.strictObject({
  kind: z.literal("webhook"),
  ...described,
  /** Where it posts to; absent for one that sends e-mail. */
  url: z.string().min(1).max(2_000).optional(),
  /** To whom it sends e-mail; absent for one with an address. */
  email: WebhookEmail.optional(),
  notifications: z.array(z.enum(NOTIFICATIONS)).min(1).max(NOTIFICATIONS.length),
  /** Only outcomes of these assets; empty for all. */
  assets: z.array(AssetKey).max(1_000).default([]),
  /** How messages are written; `pawl` when absent. */
  format: z.enum(WEBHOOK_FORMATS).optional(),
  /** The text of a message, with `{{names}}` of the notification's values in it. */
  template: z.string().min(1).max(TEMPLATE_LENGTH_MAX).optional(),
  /** `backfill`: one message for a backfill, none for its runs. */
  digest: z.enum(WEBHOOK_DIGESTS).optional(),
});
export type WebhookSpec = z.infer<typeof WebhookSpec>;
