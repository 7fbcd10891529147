import { expect, test } from "vitest";
import { publish, startApi } from "../../test/end-to-end/api-server.ts";
import { areSensorsIdle } from "./owed-looks.ts";

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
