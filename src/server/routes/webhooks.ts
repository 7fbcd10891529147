import { setImmediate as turnOfOthers } from "node:timers/promises";
import type { DeliveryDocument, WebhookDocument, DefinedWebhook } from "../../work/webhook/api.ts";
import type { Spec } from "../../work/definition/published-spec.ts";
import type { WebhookSpec } from "../../work/definition/spec.ts";
import { TEST_TYPE } from "../../work/webhook/message.ts";
import { SPECS } from "../../work/definition/rows.ts";
import { assert, PawlError } from "../../kernel/errors.ts";
import { type WebhookRow, WEBHOOKS } from "../../work/sensor/rows.ts";
import { type Delivery, deliveryIdOf, deliveryParts, isTaken } from "../../engine/notifications.ts";
import type { Probe, Reader, WorkspaceId } from "../../store/store.ts";
import type { Caller } from "../http/authenticate.ts";
import { liveSecrets, type SecretStore, makeSecret } from "../webhooks/signing.ts";
import { checkLegal } from "../../work/command.ts";
import { commandedEntity } from "../../work/definition/find-entity.ts";
import { WEBHOOK_RULES } from "../../work/definition/rules.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import { createdEntity, deletedEntity, updatedEntity, knownEntityRow } from "../entities.ts";
import { cursorOf, keyOfCursor, listRows } from "../http/read-within.ts";
import { sendNotification, webhookFault } from "../webhooks/sender.ts";

/** Deliveries of one webhook that are looked through, those due soonest first. */
const DELIVERIES_MAX = 5_000;

/** Webhooks with their definitions, and what each has still to tell. */
export async function webhookDocuments(
  webhooks: readonly WebhookRow[],
  reader: Reader,
  { ws, store, caller }: { ws: WorkspaceId; store: SecretStore; caller: Caller },
): Promise<WebhookDocument[]> {
  const now = await store.now();
  const hashes = [...new Set(webhooks.map(({ spec_hash }) => spec_hash))];
  const specs = await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  );
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  const documents: WebhookDocument[] = [];
  for (const row of webhooks) {
    const spec = specOf.get(row.spec_hash);
    if (spec?.kind !== "webhook") continue;
    const { kind: _kind, ...definition } = shownSpec(spec, caller);
    const id = row.webhook_id;
    const secrets = await liveSecrets(store, { ws, kind: "webhook", id }, now);
    let [deliveries_pending, deliveries_failed] = [0, 0];
    for await (const part of deliveryParts(reader, id, DELIVERIES_MAX)) {
      const failed = part.filter(({ delivery }) => delivery.failed_at !== null).length;
      deliveries_failed += failed;
      deliveries_pending += part.length - failed;
    }
    const has_secret = secrets.length > 0;
    documents.push({ ...definition, ...row, has_secret, deliveries_pending, deliveries_failed });
    // However little each has to tell, there may be many.
    await turnOfOthers();
  }
  return documents;
}

/**
 * A spec as a caller may see it. The address of a webhook is often a secret in itself, so of its path
 * those learn nothing who may not change it, and of people who get e-mail only where they get it.
 */
export function shownSpec<Shown extends Spec>(spec: Shown, { verbs }: Caller): Shown {
  if (spec.kind !== "webhook" || verbs.includes("write") || verbs.includes("admin")) return spec;
  const { url, email } = spec;
  return {
    ...spec,
    ...(url === undefined ? {} : { url: redactedUrl(url) }),
    ...(email === undefined ? {} : { email: { ...email, to: email.to.map(redactedAddress) } }),
  };
}

function redactedUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null) return "…";
  return url.pathname + url.search + url.hash === "/" ? url.origin : `${url.origin}/…`;
}

function redactedAddress(address: string): string {
  return `…${address.slice(address.lastIndexOf("@"))}`;
}

/** What a webhook has still to tell and what it could not, newest first. */
export async function deliveriesOf(webhookId: string, reader: Reader): Promise<DeliveryDocument[]> {
  const documents: DeliveryDocument[] = [];
  for await (const part of deliveryParts(reader, webhookId, DELIVERIES_MAX)) {
    for (const { probe, delivery } of part) documents.push(documentOf(probe, delivery));
  }
  return documents.toSorted((one, other) => other.pos - one.pos);
}

function documentOf({ subject, due_at }: Probe, known: Delivery): DeliveryDocument {
  const { accepted_by: _, ...delivery } = known;
  const isFailed = delivery.failed_at !== null;
  return {
    ...delivery,
    delivery_id: deliveryIdOf(subject, delivery.pos),
    webhook_id: subject,
    status: isFailed ? "failed" : "pending",
    next_attempt_at: isFailed ? null : due_at,
  };
}

/**
 * Makes a webhook and the secret it signs with, which a repeat of the request does not show. E-mail is
 * not signed and has none.
 */
async function createWebhook(call: Call<"createWebhook">): Promise<Reply> {
  const { client_request_id: _, ...spec } = call.body;
  const note = await noteOn(spec, call);
  const reply = await createdEntity(call, { kind: "webhook", ...spec }, note);
  const defined = reply.answer as DefinedWebhook;
  const signed = spec.email === undefined;
  if (reply.replayed === true || !signed) {
    return { ...reply, answer: { ...defined, secret: null, signed } };
  }
  const { secret } = await makeSecret(call.server.store, ownerOf(call, defined.webhook_id), 0);
  return { ...reply, answer: { ...defined, secret, signed } };
}

/** What somebody should know at once whose webhook is never told; empty for any other. */
async function noteOn(
  spec: Pick<WebhookSpec, "url" | "email">,
  { server }: Pick<Call<"createWebhook">, "server">,
) {
  const fault = await webhookFault(spec, server.outlets);
  return fault === null ? "" : ` It is never notified: ${fault.message}`;
}

function ownerOf({ engine }: Pick<Call<"getWebhook">, "engine">, id: string) {
  return { ws: engine.workspace.ws, kind: "webhook", id } as const;
}

function sourcesOf({
  engine,
  server,
  caller,
}: Pick<Call<"getWebhook">, "engine" | "server" | "caller">) {
  return { ws: engine.workspace.ws, store: server.store, caller };
}

function listWebhooks(call: Call<"listWebhooks">): Promise<Reply> {
  const { status = ["ACTIVE", "PAUSED"] } = call.query;
  const where = [{ cell: "state", is: "in", values: status }] as const;
  const list = { table: WEBHOOKS, where, along: ["name", "webhook_id"] as const };
  return listRows(call, list, (rows, reader) => webhookDocuments(rows, reader, sourcesOf(call)));
}

function getWebhook(call: Call<"getWebhook">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const row = await knownEntityRow(reader, "webhook", call.params.webhook_id);
    const [answer] = await webhookDocuments([row], reader, sourcesOf(call));
    const { pos } = await reader.head();
    return { answer, pos };
  });
}

async function createWebhookSecret(call: Call<"createWebhookSecret">): Promise<Reply> {
  const { engine, server, params, body } = call;
  const row = await engine.read((reader) => knownEntityRow(reader, "webhook", params.webhook_id));
  checkLegal(commandedEntity("webhook"), WEBHOOK_RULES.secret, row, row);
  const { webhook_id, name } = row;
  const [spec] = await engine.read((reader) => reader.load(SPECS, [[row.spec_hash]]));
  if (spec?.body.kind === "webhook" && spec.body.email !== undefined) {
    throw new PawlError(
      "STATE_ILLEGAL",
      `Webhook ${name} sends e-mail, which is not signed, so it needs no secret.`,
      { details: { webhook: name } },
    );
  }
  const made = await makeSecret(server.store, ownerOf(call, webhook_id), body.overlap_seconds);
  const message = `Webhook ${name} has a new secret. It is not shown again.`;
  return { answer: { message, webhook_id, name, ...made }, pos: null };
}

function listDeliveries(call: Call<"listDeliveries">): Promise<Reply> {
  const { limit, cursor, status } = call.query;
  const before = cursor === undefined ? null : Number(keyOfCursor(cursor, ["int"])[0]);
  const isMeant = (delivery: DeliveryDocument): boolean =>
    (before === null || delivery.pos < before) &&
    (status === undefined || status.includes(delivery.status));
  return readAt(call, async (reader) => {
    const { webhook_id } = await knownEntityRow(reader, "webhook", call.params.webhook_id);
    const found = (await deliveriesOf(webhook_id, reader)).filter(isMeant);
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    const next_cursor = last === undefined ? null : cursorOf([last.pos]);
    const { pos } = await reader.head();
    return { answer: { items, next_cursor, pos }, pos };
  });
}

async function testWebhook(call: Call<"testWebhook">): Promise<Reply> {
  const { engine, server, params, correlationId } = call;
  const { row, spec } = await engine.read((reader) => sendable(reader, params.webhook_id));
  const { webhook_id, name } = row;
  const now = await server.store.now();
  const id = `test_${crypto.randomUUID()}`;
  const data = { webhook_id, name, correlation_id: correlationId };
  const made = await sendNotification({
    spec,
    id,
    body: { type: TEST_TYPE, timestamp: now, data },
    link: null,
    secrets: await liveSecrets(server.store, ownerOf(call, webhook_id), now),
    outlets: server.outlets,
    now,
    signal: call.signal(),
  });
  const { status, error, durationMs: duration_ms, sent: body } = made;
  const delivered = isTaken(made);
  const message = delivered
    ? `Webhook ${name} was notified; the receiver answered ${status}.`
    : `Webhook ${name} could not be notified. ${error ?? ""}`;
  const result = { delivered, status, error, duration_ms, body };
  return { answer: { message, webhook_id, delivery_id: id, ...result }, pos: null };
}

async function sendable(
  reader: Reader,
  idOrName: string,
): Promise<{ row: WebhookRow; spec: WebhookSpec }> {
  const row = await knownEntityRow(reader, "webhook", idOrName);
  checkLegal(commandedEntity("webhook"), WEBHOOK_RULES.test, row, row);
  const [spec] = await reader.load(SPECS, [[row.spec_hash]]);
  assert(spec?.body.kind === "webhook", "a webhook has the spec of one");
  return { row, spec: spec.body };
}

/** What can be done with webhooks. */
export const WEBHOOK_HANDLERS = {
  createWebhook,
  listWebhooks,
  getWebhook,
  updateWebhook: async (call) => {
    const { expected_state_version: _, name: given, ...spec } = call.body;
    const respec = (name: string) => ({ kind: "webhook", name, ...spec }) as const;
    const note = await noteOn(spec, call);
    return updatedEntity(call, "webhook", call.params.webhook_id, respec, given, note);
  },
  deleteWebhook: (call) => deletedEntity(call, "webhook", call.params.webhook_id),
  createWebhookSecret,
  listDeliveries,
  testWebhook,
} satisfies Handlers;
