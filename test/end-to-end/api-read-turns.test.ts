import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, publish, startApi, type TokenClient } from "./api-server.ts";

const BASE = "/api/v1/orchestration";

describe.each(["SQLite", "PostgreSQL"])("reads over HTTP on %s", (kind) => {
  let api: Api;
  let reader: TokenClient;
  /** Under which names the store was read since `asked` was emptied. */
  let asked: (string | null | undefined)[] = [];

  beforeEach(async () => {
    const database = kind === "SQLite" ? {} : { databaseUrl: await freshDatabaseUrl() };
    api = await startApi({ ...database, actsByItself: false });
    await publish(api.client);
    reader = await api.clientOf(0, ["read"]);
    const { store } = api;
    const read = store.read.bind(store);
    store.read = (ws, body, asker) => {
      asked.push(asker);
      return read(ws, body, asker);
    };
  });

  afterEach(() => api.close());

  test("I109: wait their turn under the name of their token, whatever they are about", async () => {
    const body = { assets: ["report"] };
    const { run_id } = await api.client.call("requestRun", { body });
    const headers = { authorization: `Bearer ${reader.token}` };
    const own = `${api.engines[0].workspace.ws} ${reader.tokenId}`;
    const paths = [
      `${BASE}/runs/${run_id}/logs`,
      `${BASE}/runs`,
      `${BASE}/runs?min_pos=1`,
      `${BASE}/backfills`,
      `${BASE}/events`,
      `${BASE}/assets/report/partitions`,
      `${BASE}/overview`,
      "/metrics",
    ];
    for (const path of paths) {
      asked = [];
      const response = await api.send("GET", path, { headers });
      await response.text();
      expect(response.status, path).toBe(200);
      expect(new Set(asked), path).toEqual(new Set([own]));
    }
  });

  test("I109: of a stream wait their turn long after its beginning", async () => {
    const headers = { authorization: `Bearer ${reader.token}` };
    const response = await api.send("GET", `${BASE}/events?follow=true`, { headers });
    asked = [];
    await api.client.call("tick");
    await api.client.call("addPartitionKeys", {
      params: { asset_key: "tenants" },
      body: { keys: ["acme"] },
    });
    await expect.poll(() => asked).toContain(`${api.engines[0].workspace.ws} ${reader.tokenId}`);
    await response.body?.cancel();
  });

  test("I109: of workers wait for nobody", async () => {
    const worker = await api.clientOf(0, ["work"]);
    asked = [];
    await worker.call("heartbeat", { body: { worker_id: "w", leases: [], tasks: [] } });
    const claim = { worker_id: "w", lease_id: crypto.randomUUID(), slots: 1, wait_ms: 0 };
    await worker.call("claim", { body: { ...claim, code_version: null, assets: ["report"] } });
    expect(asked.filter((asker) => typeof asker === "string")).toEqual([]);
  });
});
