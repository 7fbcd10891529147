import { z } from "zod";
import { WebhookSpec } from "../definition/spec.ts";
import { Count, InstantText, JsonValue } from "../envelope.ts";
import type { WebhookRow } from "../sensor/rows.ts";
import {
  clientRequestId,
  definedAnswer,
  EntityRef,
  commaList,
  expectation,
  expectationQuery,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  DOCUMENT_BYTES_MAX,
  NewSecretBody,
  secretAnswer,
} from "../operation.ts";

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

const WEBHOOKS_PATH = `${ORCHESTRATION_PATH}/webhooks`;
const WEBHOOK_PATH = `${WEBHOOKS_PATH}/{webhook_id}`;

const { name, ...definition } = WebhookSpec.omit({ kind: true }).shape;

/** A wish for a webhook. */
export const CreateWebhookBody = z
  .strictObject({ ...clientRequestId, name, ...definition })
  .meta({ id: "CreateWebhook" });
export type CreateWebhookBody = z.infer<typeof CreateWebhookBody>;

/** The whole definition of a webhook that takes the place of the one there is. */
export const UpdateWebhookBody = z
  .strictObject({
    ...expectation,
    /** Its own, which cannot change. */
    name: name.optional(),
    ...definition,
  })
  .meta({ id: "UpdateWebhook" });

const named = { webhook_id: z.string(), state: WebhookStateField };

/** What changing or deleting a webhook answers. */
export const DefinedWebhook = z
  .strictObject({ ...definedAnswer, ...named })
  .meta({ id: "DefinedWebhook" });
export type DefinedWebhook = z.infer<typeof DefinedWebhook>;

const CreatedWebhook = DefinedWebhook.extend({
  /** What it signs with, shown this once; null when the request is a repeat, and for e-mail. */
  secret: z.string().nullable(),
  /** Whether what it sends is signed; e-mail is not. */
  signed: z.boolean(),
}).meta({ id: "CreatedWebhook" });

const WebhookSecret = z
  .strictObject({ ...secretAnswer, webhook_id: z.string() })
  .meta({ id: "WebhookSecret" });

const TestedWebhook = z
  .strictObject({
    message: z.string(),
    webhook_id: z.string(),
    delivery_id: z.string(),
    /** Whether the receiver answered with a 2xx, an SMTP server with 250. */
    delivered: z.boolean(),
    /** What the receiver answered; null when nothing came. */
    status: z.int().nullable(),
    error: z.string().nullable(),
    duration_ms: Count,
    /** What was sent. */
    body: JsonValue,
  })
  .meta({ id: "TestedWebhook" });

const params = z.strictObject({
  webhook_id: EntityRef.describe("The id of the webhook, or its name"),
});

/** What the API can do with webhooks. */
export const WEBHOOK_OPERATIONS = {
  createWebhook: {
    method: "POST",
    path: WEBHOOKS_PATH,
    summary: "Creates a webhook: an address, or people by e-mail, that are notified of outcomes",
    verb: "write",
    body: CreateWebhookBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: CreatedWebhook,
    status: 202,
    creates: true,
    keyField: "client_request_id",
  },
  listWebhooks: {
    method: "GET",
    path: WEBHOOKS_PATH,
    summary: "Lists webhooks by name",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      /** ACTIVE and PAUSED unless told. */
      status: commaList(WebhookStateField).optional(),
    }),
    answer: pageOf(WebhookDocument),
    status: 200,
  },
  getWebhook: {
    method: "GET",
    path: WEBHOOK_PATH,
    summary: "Shows a webhook",
    verb: "read",
    params,
    query: z.strictObject(readQuery),
    answer: WebhookDocument,
    status: 200,
  },
  updateWebhook: {
    method: "PUT",
    path: WEBHOOK_PATH,
    summary: "Replaces the definition of a webhook; its secret stays",
    verb: "write",
    params,
    body: UpdateWebhookBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: DefinedWebhook,
    status: 202,
  },
  deleteWebhook: {
    method: "DELETE",
    path: WEBHOOK_PATH,
    summary: "Deletes a webhook and its pending notifications",
    verb: "write",
    params,
    query: z.strictObject(expectationQuery),
    answer: DefinedWebhook,
    status: 202,
  },
  createWebhookSecret: {
    method: "POST",
    path: `${WEBHOOK_PATH}/secret`,
    summary: "Makes a new secret that a webhook signs with; it is shown this once",
    verb: "write",
    params,
    body: NewSecretBody,
    answer: WebhookSecret,
    status: 201,
  },
  listDeliveries: {
    method: "GET",
    path: `${WEBHOOK_PATH}/deliveries`,
    summary: "Lists the pending and failed notifications of a webhook, newest first",
    verb: "read",
    params,
    query: z.strictObject({ ...pageQuery, status: commaList(DeliveryStatusField).optional() }),
    answer: pageOf(DeliveryDocument),
    status: 200,
  },
  testWebhook: {
    method: "POST",
    path: `${WEBHOOK_PATH}/test`,
    summary: "Sends a test to a webhook now and says what the receiver answered",
    verb: "write",
    params,
    body: z.strictObject({}),
    answer: TestedWebhook,
    status: 200,
  },
} as const satisfies Record<string, Operation>;
