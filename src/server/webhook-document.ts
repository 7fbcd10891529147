import type { DeliveryDocument, WebhookDocument } from "../core/api/webhook-documents.ts";
import type { Spec } from "../core/published-spec.ts";
import { type SpecRow, SPECS } from "../core/rows/definition-rows.ts";
import type { WebhookRow } from "../core/rows/sensor-rows.ts";
import { deliveryIdOf, deliveryOf } from "../engine/delivery.ts";
import type { Probe, Reader, WorkspaceId } from "../store/store.ts";
import type { Caller } from "./authenticate.ts";
import { liveSecrets, type SecretStore } from "./signing-secrets.ts";

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
  const specs = (await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  )) as SpecRow[];
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  const documents: WebhookDocument[] = [];
  for (const row of webhooks) {
    const spec = specOf.get(row.spec_hash);
    if (spec?.kind !== "webhook") continue;
    const { kind: _kind, ...definition } = shownSpec(spec, caller);
    const id = row.webhook_id;
    const secrets = await liveSecrets(store, { ws, kind: "webhook", id }, now);
    const deliveries = await deliveriesOf(id, reader);
    const deliveries_failed = deliveries.filter(({ status }) => status === "failed").length;
    documents.push({
      ...definition,
      ...row,
      has_secret: secrets.length > 0,
      deliveries_pending: deliveries.length - deliveries_failed,
      deliveries_failed,
    });
  }
  return documents;
}

/**
 * A spec as a caller may see it. The address of a webhook is often a secret in itself, so of its path
 * those learn nothing who may not change it.
 */
export function shownSpec<Shown extends Spec>(spec: Shown, { verbs }: Caller): Shown {
  if (spec.kind !== "webhook" || verbs.includes("write") || verbs.includes("admin")) return spec;
  return { ...spec, url: redactedUrl(spec.url) };
}

function redactedUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null) return "…";
  return url.pathname + url.search + url.hash === "/" ? url.origin : `${url.origin}/…`;
}

/** What a webhook has still to tell and what it could not, newest first. */
export async function deliveriesOf(webhookId: string, reader: Reader): Promise<DeliveryDocument[]> {
  const probes = await reader.probesOf("notification", webhookId, DELIVERIES_MAX);
  return probes.flatMap(documentOf).toSorted((one, other) => other.pos - one.pos);
}

function documentOf({ subject, due_at, value }: Probe): DeliveryDocument[] {
  const delivery = deliveryOf(value);
  if (delivery === null) return [];
  const isFailed = delivery.failed_at !== null;
  return [
    {
      ...delivery,
      delivery_id: deliveryIdOf(subject, delivery.pos),
      webhook_id: subject,
      status: isFailed ? "failed" : "pending",
      next_attempt_at: isFailed ? null : due_at,
    },
  ];
}
