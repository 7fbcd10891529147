import { z } from "zod";
import { WebhookSpec } from "../automation-specs.ts";
import { Count, InstantText, JsonValue } from "../events/fields.ts";
import type { WebhookRow } from "../rows/sensor-rows.ts";

/** Where a webhook stands. */
export const WebhookStateField = z.enum(["ACTIVE", "PAUSED", "DELETED"]);

const { ...definitionFields } = WebhookSpec.omit({ kind: true }).shape;

const webhookFields = {
  webhook_id: z.string(),
  spec_hash: z.string(),
  origin: z.enum(["code", "api"]),
  definition_version: Count,
  state: WebhookStateField,
  state_version: Count,
  created_at: InstantText,
  created_pos: Count,
  row_version: Count,
} satisfies { [Field in Exclude<keyof WebhookRow, "name">]: z.ZodType<WebhookRow[Field]> };

/** A webhook as the API shows it: its definition, and what it has still to tell. */
export const WebhookDocument = z
  .strictObject({
    ...definitionFields,
    ...webhookFields,
    /** Whether there is a secret; without one, what is told is not signed. */
    has_secret: z.boolean(),
    /** What waits to be told, and what could not be told within the last week. */
    deliveries_pending: Count,
    deliveries_failed: Count,
  })
  .meta({ id: "Webhook" });
export type WebhookDocument = z.infer<typeof WebhookDocument>;

/** Whether something is still to be told, or was given up. */
export const DeliveryStatusField = z.enum(["pending", "failed"]);

/** Something that a webhook has to tell, or could not. What was told is not kept. */
export const DeliveryDocument = z
  .strictObject({
    /** The `webhook-id` that every try of it carries. */
    delivery_id: z.string(),
    webhook_id: z.string(),
    /** The position of the event that it tells of. */
    pos: Count,
    type: z.string(),
    status: DeliveryStatusField,
    attempts: Count,
    /** When it is tried next; null when it was given up. */
    next_attempt_at: InstantText.nullable(),
    last_attempt_at: InstantText.nullable(),
    /** What the receiver answered last; null when it did not. */
    last_status: z.int().nullable(),
    last_error: z.string().nullable(),
    created_at: InstantText,
    failed_at: InstantText.nullable(),
    body: JsonValue,
  })
  .meta({ id: "Delivery" });
export type DeliveryDocument = z.infer<typeof DeliveryDocument>;
