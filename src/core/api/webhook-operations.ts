import { z } from "zod";
import { WebhookSpec } from "../automation-specs.ts";
import { Count } from "../events/fields.ts";
import { clientRequestId, definedAnswer, EntityRef } from "./entity-fields.ts";
import {
  commaList,
  expectation,
  expectationQuery,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";
import { NewSecretBody, secretAnswer } from "./secret-fields.ts";
import {
  DeliveryDocument,
  DeliveryStatusField,
  WebhookDocument,
  WebhookStateField,
} from "./webhook-documents.ts";

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
  /** What it signs with, shown this once; null when the request is a repeat. */
  secret: z.string().nullable(),
}).meta({ id: "CreatedWebhook" });

const WebhookSecret = z
  .strictObject({ ...secretAnswer, webhook_id: z.string() })
  .meta({ id: "WebhookSecret" });

const TestedWebhook = z
  .strictObject({
    message: z.string(),
    webhook_id: z.string(),
    delivery_id: z.string(),
    /** Whether the receiver answered with a 2xx. */
    delivered: z.boolean(),
    /** What the receiver answered; null when nothing came. */
    status: z.int().nullable(),
    error: z.string().nullable(),
    duration_ms: Count,
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
    summary: "Creates a webhook: an address that is told of outcomes",
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
    summary: "Deletes a webhook and what it has still to tell",
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
    summary: "Lists what a webhook has still to tell, and what it could not, newest first",
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
