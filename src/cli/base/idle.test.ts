import { expect, test } from "vitest";
import { publish, startApi } from "../../../test/end-to-end/api-server.ts";
import { syncSpec } from "../../../test/sync-server.ts";
import { SyncSpec } from "../../work/sync/spec.ts";
import { SensorSpec } from "../../work/definition/spec.ts";
import { areHeadsIdle, areSensorsIdle, owedHeads, owedLooks } from "./idle.ts";

test("messages are waited for, unless their sensor has become one that looks by itself", async () => {
  const api = await startApi();
  const { client } = api;
  await publish(client);
  const target = { asset_selection: ["report"] };
  const body = { name: "uploads", mode: "push", target, enabled: false } as const;
  const { sensor_id } = await client.call("createSensor", { body });
  const path = `/api/v1/orchestration/sensors/${sensor_id}/messages`;
  await api.send("POST", path, { body: "1", headers: { "webhook-id": "m1" } });
  expect(await areSensorsIdle(client, new Map())).toBe(true);
  await client.call("updateSensor", {
    params: { sensor_id },
    body: { mode: "poll", watch: { type: "run_failures" }, target },
  });
  const sensor = await client.call("getSensor", { params: { sensor_id } });
  expect(sensor).toMatchObject({ mode: "poll", state: "ACTIVE", messages_pending: 1 });
  expect(await areSensorsIdle(client, new Map())).toBe(true);
  await api.close();
});

test("one look is owed to each head of an own sync that is due, whatever comes of it", async () => {
  const api = await startApi({ actsByItself: false });
  const { client } = api;
  const specs = [syncSpec(), syncSpec({ name: "t" })].map((spec) => SyncSpec.parse(spec));
  await client.call("publishDefinitions", { body: { specs } });
  const own = new Set(["sync:s"]);
  expect(await owedHeads(client, own)).toEqual(new Map());
  await client.call("tick");
  const owed = await owedHeads(client, own);
  expect(owed).toEqual(new Map([[JSON.stringify(["s", "node"]), null]]));
  expect(await areHeadsIdle(client, owed)).toBe(false);
  const claim = { worker_id: "w", syncs: ["s"], slots: 1, wait_ms: 0 };
  const { heads } = await client.call("claimHeads", { body: claim });
  expect(await areHeadsIdle(client, owed)).toBe(false);
  const outcome = { type: "failed", error: { class: "user", message: "no network" } } as const;
  const results = heads.map(({ probe_id, attempt, sync, source }) => {
    return { probe_id, attempt, sync, source, outcome };
  });
  await client.call("reportHeads", { body: { worker_id: "w", results } });
  expect(await areHeadsIdle(client, owed)).toBe(true);
  expect(await owedHeads(client, own)).toEqual(new Map());
  await api.close();
});

test("a look is owed to a sensor that is held by whoever was ended amid the last one", async () => {
  const api = await startApi({ clockAt: "2026-03-01T00:00:00.000Z", actsByItself: false });
  const { client } = api;
  await publish(client);
  const watch = { type: "files", folder: "inbox" };
  const target = { asset_selection: ["report"] };
  const sensor = { kind: "sensor", name: "inbox", mode: "poll", watch, target };
  const specs = [SensorSpec.parse({ ...sensor, min_interval_ms: 1_000 })];
  await client.call("publishDefinitions", { body: { specs } });
  const claim = async (worker_id: string) => {
    await client.call("tick");
    const body = { worker_id, sensors: [], slots: 1, wait_ms: 0 };
    return (await client.call("claimProbes", { body })).probes;
  };
  const results = (await claim("first")).map((probe) => {
    const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
    const outcome = { type: "evaluated" as const, cursor, run_requests: [] };
    return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
  });
  await client.call("reportProbes", { body: { worker_id: "first", results } });
  expect(results).toHaveLength(1);
  expect((await owedLooks(client)).size).toBe(0);
  api.jump(5_000);
  expect(await claim("ended")).toHaveLength(1);
  const owed = await owedLooks(client);
  expect(owed.size).toBe(1);
  expect(await areSensorsIdle(client, owed)).toBe(false);
  await api.close();
});
