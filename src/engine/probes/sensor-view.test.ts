import { expect, test } from "vitest";
import { SensorServer } from "../../../test/sensor-server.ts";
import { pauseSensor, receiveMessages } from "../../work/sensor/commands.ts";

/** Many messages at once. */
function messages(count: number) {
  return Array.from({ length: count }, (_, n) => ({
    message_id: `m${n}`,
    source: "webhook" as const,
    type: null,
    attributes: {},
    payload: n,
    published_at: null,
    payload_digest: "0".repeat(64),
  }));
}

test("the lag of messages is seen, also behind many that wait for a sensor that is paused", async () => {
  const server = await SensorServer.start();
  await server.publish(
    { asset_key: "a" },
    { kind: "sensor", name: "paused", mode: "push" },
    { kind: "sensor", name: "hook", mode: "push" },
  );
  await server.submit(pauseSensor({ sensor: "paused" }));
  await server.submit(receiveMessages({ sensor: "paused", messages: messages(150) }));
  await server.receive("hook", "m1");
  await server.pass(60_000);
  const status = await server.engine.sensorStatus();
  expect(status).toMatchObject({ message_lag_ms: 60_000, messages_pending: 151 });
  await server.close();
});
