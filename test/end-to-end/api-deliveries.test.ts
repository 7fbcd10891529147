import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { NewProbe } from "../../src/store/store.ts";
import { type Api, publish, startApi } from "./api-server.ts";

/** As many of each as a receiver that is away for a day may come to. */
const COUNT = 600;
const CREATED_AT = "2026-03-01T09:30:00.000Z";
const LATER = "2999-01-01T00:00:00.000Z";

let api: Api;
let client: Client;
/** How many deliveries each look brought. */
let looks: number[];

beforeEach(async () => {
  api = await startApi({ actsByItself: false });
  ({ client } = api);
  await publish(client);
  looks = [];
  const { store } = api;
  const read = store.read.bind(store);
  store.read = (ws, body) =>
    read(ws, (reader) => {
      const probesOf = reader.probesOf.bind(reader);
      reader.probesOf = async (...asked) => {
        const probes = await probesOf(...asked);
        if (asked[0] === "notification") looks.push(probes.length);
        return probes;
      };
      return body(reader);
    });
});

afterEach(() => api.close());

function delivery(webhookId: string, pos: number, failed_at: string | null): NewProbe {
  const type = "run.failed";
  const body = { type, timestamp: CREATED_AT, data: { text: "x".repeat(1_000) } };
  const tried = { last_attempt_at: CREATED_AT, last_status: 500, last_error: "no", attempts: 3 };
  const value = { pos, type, body, created_at: CREATED_AT, failed_at, accepted_by: [], ...tried };
  const probe_id = `notification:${webhookId}:${pos}`;
  return { probe_id, kind: "notification", subject: webhookId, due_at: LATER, value };
}

describe("what very many webhooks have still to tell", () => {
  test("I64: is counted and listed part by part, and once for all metrics", async () => {
    const { webhook_id } = await client.call("createWebhook", {
      body: { name: "alerts", url: "https://example.org/", notifications: ["run.failed"] },
    });
    const probes = Array.from({ length: 2 * COUNT }, (_, n) =>
      delivery(webhook_id, n + 1, n % 2 === 0 ? null : CREATED_AT),
    );
    await api.store.addProbes(api.engines[0].workspace.ws, probes);
    const counted = { deliveries_pending: COUNT, deliveries_failed: COUNT };
    const { items } = await client.call("listWebhooks", { query: {} });
    expect(items).toMatchObject([counted]);
    const listed = await client.call("listDeliveries", {
      params: { webhook_id },
      query: { status: "failed", limit: 2 },
    });
    expect(listed.items.map(({ pos }) => pos)).toEqual([2 * COUNT, 2 * COUNT - 2]);
    expect(Math.max(...looks)).toBeLessThanOrEqual(500);

    looks = [];
    const metrics = await (await api.send("GET", "/metrics")).text();
    expect(metrics).toMatch(/pawl_webhook_deliveries_waiting\{[^}]*status="pending"[^}]*\} 600/);
    expect(metrics).toMatch(/pawl_webhook_deliveries_waiting\{[^}]*status="failed"[^}]*\} 600/);
    expect(metrics).toMatch(/pawl_webhook_oldest_pending_seconds(\{[^}]*\})? [1-9]/);
    expect(Math.max(...looks)).toBeLessThanOrEqual(500);
    expect(looks.reduce((sum, count) => sum + count, 0)).toBe(2 * COUNT);
  });
});
