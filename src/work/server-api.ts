import { z } from "zod";
import { Count, InstantText, JsonValue } from "./envelope.ts";
import {
  commaList,
  QueryFlag,
  type Operation,
  ORCHESTRATION_PATH,
  pageQuery,
  PosText,
  readQuery,
  VERBS,
  QueryInstant,
} from "./operation.ts";

/** An event as the API shows it: the envelope as it was hashed, with its data as a document. */
export const EventDocument = z
  .strictObject({
    pos: Count,
    v: Count,
    event_id: z.string(),
    tenant_id: z.string(),
    workspace_id: z.string(),
    type: z.string(),
    /**
     * The pos at which the event's subject was created; 0 for the workspace itself, below 0 for a
     * schedule or a sensor.
     */
    subject_pos: z.int(),
    idempotency_key: z.string(),
    occurred_at: InstantText,
    actor: z.strictObject({ principal: z.string(), token_id: z.string().nullable() }),
    correlation_id: z.string().nullable(),
    data: JsonValue,
    prev_hash: z.string(),
    hash: z.string(),
  })
  .meta({ id: "Event" });
export type EventDocument = z.infer<typeof EventDocument>;

const entity = z
  .string()
  .min(1)
  .max(4_000)
  .describe(
    "A backfill id, a run id, a chunk id (`{backfill_id}:{chunk_index}`), a schedule or a sensor " +
      "(id or name), a sync (id or `{name}@{target_key}`), a split, a move, a segment id " +
      "(`{sync_id}:{segment_index}` or `{move_id}:{segment_index}`), or a tick id or an evaluation id: then what it asked for, or " +
      "how it was decided, or a partition (`{asset_key}@{partition_key}`): then the runs that last " +
      "made it or tried to",
  );

/** What the API can do with the ledger. */
export const EVENT_OPERATIONS = {
  listEvents: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/events`,
    summary: "Lists events by position, or follows them as they come",
    verb: "read",
    query: z.strictObject({
      ...readQuery,
      limit: pageQuery.limit,
      /** Only events after this position: the `next_after` of the page before. */
      after: PosText.default(0),
      types: commaList(z.string().min(1).max(100)).optional(),
      /** The same as `types`. */
      type: commaList(z.string().min(1).max(100)).optional(),
      entity: entity.optional(),
      /** Newest first, from before the position in `before`. */
      descending: QueryFlag.optional(),
      before: PosText.optional(),
      /** Server-sent events from `after` (or `Last-Event-ID`) on, without end. */
      follow: QueryFlag.optional(),
    }),
    answer: z.strictObject({
      items: z.array(EventDocument),
      /** Give this as `after` to go on; null at the end, and newest first. */
      next_after: Count.nullable(),
      /** Newest first, give this as `before` to go on; null at the end. */
      next_before: Count.nullable(),
      pos: Count,
    }),
    status: 200,
    streams: "when followed",
  },
  followChanges: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/changes`,
    summary: "Tells as server-sent events which types of events came, at most ten times a second",
    verb: "read",
    /** What each message holds. */
    answer: z
      .strictObject({
        pos: Count,
        /** Types of the events since the message before. */
        types: z.array(z.string()),
      })
      .meta({ id: "Change" }),
    status: 200,
    streams: "only",
  },
  explainEntity: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/events/why`,
    summary: "Lists the chain of events that led to where something stands, oldest first",
    verb: "read",
    query: z.strictObject({
      ...readQuery,
      entity: entity.describe(
        "A backfill id, a run id, a chunk id (`{backfill_id}:{chunk_index}`), a schedule or a " +
          "sensor (id or name), a sync (id or `{name}@{target_key}`), a split, a move, a segment " +
          "id (`{sync_id}:{segment_index}` or `{move_id}:{segment_index}`), a tick id, an evaluation id, or a partition " +
          "(`{asset_key}@{partition_key}`)",
      ),
    }),
    answer: z.strictObject({ items: z.array(EventDocument), pos: Count }),
    status: 200,
  },
  tick: {
    method: "POST",
    path: `${ORCHESTRATION_PATH}/tick`,
    summary: "Makes one full pass of everything that is due",
    verb: "write",
    body: z.strictObject({}),
    answer: z
      .strictObject({
        /** How many events the pass recorded. */
        events: Count,
        pos: Count,
      })
      .meta({ id: "Tick" }),
    status: 200,
  },
} as const satisfies Record<string, Operation>;

/** An access token as the API shows it: never its secret. */
export const TokenDocument = z
  .strictObject({
    token_id: z.string(),
    principal: z.string(),
    verbs: z.array(z.enum(VERBS)),
    created_at: InstantText,
    expires_at: InstantText.nullable(),
    revoked_at: InstantText.nullable(),
  })
  .meta({ id: "Token" });
export type TokenDocument = z.infer<typeof TokenDocument>;

/** A wish for a token. */
export const CreateTokenBody = z
  .strictObject({
    /** Who uses it; stands in every event that the token causes. */
    principal: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,99}$/, {
      error: "must be 1 to 100 letters, digits, _ . @ / - and start with a letter, a digit or _",
    }),
    verbs: z.array(z.enum(VERBS)).min(1).max(VERBS.length),
    expires_in_seconds: z.int().min(1).max(315_360_000).optional(),
  })
  .meta({ id: "CreateToken" });
export type CreateTokenBody = z.infer<typeof CreateTokenBody>;

/** What the API can do with tokens, and what it says about itself. */
export const SERVER_OPERATIONS = {
  listTokens: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/tokens`,
    summary: "Lists access tokens",
    verb: "admin",
    answer: z.strictObject({ items: z.array(TokenDocument) }),
    status: 200,
  },
  createToken: {
    method: "POST",
    path: `${ORCHESTRATION_PATH}/tokens`,
    summary: "Creates an access token; its text is shown this once",
    verb: "admin",
    body: CreateTokenBody,
    answer: TokenDocument.extend({ token: z.string() }).meta({ id: "CreatedToken" }),
    status: 201,
  },
  revokeToken: {
    method: "DELETE",
    path: `${ORCHESTRATION_PATH}/tokens/{token_id}`,
    summary: "Ends a token at once",
    verb: "admin",
    params: z.strictObject({ token_id: z.string().min(1).max(100) }),
    answer: z.strictObject({
      token_id: z.string(),
      /** False when there was no such token. */
      revoked: z.boolean(),
    }),
    status: 200,
  },
  livez: {
    method: "GET",
    path: "/livez",
    summary: "Says that the process answers",
    verb: null,
    answer: z.strictObject({ status: z.literal("ok") }),
    status: 200,
  },
  readyz: {
    method: "GET",
    path: "/readyz",
    summary: "Says whether the server can serve, and what it runs on",
    verb: null,
    answer: z
      .strictObject({
        status: z.enum(["ok", "unavailable"]),
        version: z.string(),
        store: z.string(),
        /** Why an acknowledged write may be lost on power failure; null when it cannot. */
        unsafe: z.string().nullable(),
        /** What keeps the server from serving. */
        reasons: z.array(z.string()),
        uptime_seconds: Count,
      })
      .meta({ id: "Readiness" }),
    status: 200,
  },
} as const satisfies Record<string, Operation>;

/** Where a browser signs in and out. */
export const SESSION_PATH = "/api/v1/session";

/** Who a browser is signed in as, and what they may do. */
export const SessionDocument = z
  .strictObject({
    /** Whether the server answers at all: it may need no token, or have one. */
    signed_in: z.boolean(),
    /** Whether a token is needed to look. */
    token_required: z.boolean(),
    principal: z.string().nullable(),
    verbs: z.array(z.enum(VERBS)),
    tenant_id: z.string().nullable(),
    workspace_id: z.string().nullable(),
    version: z.string(),
  })
  .meta({ id: "Session" });
export type SessionDocument = z.infer<typeof SessionDocument>;

/** What a browser can do about who it is. */
export const SESSION_OPERATIONS = {
  getSession: {
    method: "GET",
    path: SESSION_PATH,
    summary: "Says who is asking, and what they may do",
    verb: null,
    answer: SessionDocument,
    status: 200,
  },
  signIn: {
    method: "POST",
    path: SESSION_PATH,
    summary: "Keeps a token in a cookie of the browser, for the page",
    verb: null,
    body: z.strictObject({ token: z.string().min(1).max(200) }),
    // Anybody may send one: there is no token yet.
    bodyBytesMax: 1_024,
    answer: SessionDocument,
    status: 200,
  },
  signOut: {
    method: "DELETE",
    path: SESSION_PATH,
    summary: "Takes the token out of the browser",
    verb: null,
    answer: SessionDocument,
    status: 200,
  },
} as const satisfies Record<string, Operation>;

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
