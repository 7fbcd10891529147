import { z } from "zod";
import { Count, InstantText, JsonValue } from "../events/fields.ts";
import {
  commaList,
  Flag,
  type Operation,
  ORCHESTRATION_PATH,
  pageQuery,
  PosText,
  readQuery,
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
      descending: Flag.optional(),
      before: PosText.optional(),
      /** Server-sent events from `after` (or `Last-Event-ID`) on, without end. */
      follow: Flag.optional(),
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
