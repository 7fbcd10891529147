import type { WebhookSpec } from "../core/automation-specs.ts";
import { type SpecRow, SPECS } from "../core/rows/definition-rows.ts";
import { type WebhookRow, WEBHOOKS } from "../core/rows/sensor-rows.ts";
import type { Reader } from "../store/store.ts";

/** Most webhooks that are told of anything. */
const WEBHOOKS_MAX = 1_000;

/** A webhook that acts, with its definition. */
export type ActiveWebhook = { row: WebhookRow; spec: WebhookSpec };

/** All webhooks that act. */
export async function activeWebhooks(reader: Reader): Promise<ActiveWebhook[]> {
  const rows = (await reader.find({
    table: WEBHOOKS,
    where: [{ cell: "state", is: "=", value: "ACTIVE" }],
    order: [{ cell: "webhook_id" }],
    limit: WEBHOOKS_MAX,
  })) as WebhookRow[];
  if (rows.length === 0) return [];
  return withSpecs(reader, rows);
}

/** One webhook, if it acts. */
export async function activeWebhook(reader: Reader, id: string): Promise<ActiveWebhook | null> {
  const [row] = (await reader.load(WEBHOOKS, [[id]])) as WebhookRow[];
  if (row?.state !== "ACTIVE") return null;
  return (await withSpecs(reader, [row]))[0] ?? null;
}

async function withSpecs(reader: Reader, rows: readonly WebhookRow[]): Promise<ActiveWebhook[]> {
  const keys = [...new Set(rows.map(({ spec_hash }) => spec_hash))].map((hash) => [hash]);
  const specs = (await reader.load(SPECS, keys)) as SpecRow[];
  const specOf = new Map(specs.map(({ spec_hash, body }) => [spec_hash, body]));
  return rows.flatMap((row) => {
    const spec = specOf.get(row.spec_hash);
    return spec?.kind === "webhook" ? [{ row, spec }] : [];
  });
}
