import { afterEach, beforeEach, expect, test } from "vitest";
import { found, SensorServer } from "../../test/sensor-server.ts";
import { PawlError } from "../core/errors.ts";
import { NotificationFollower } from "./notifications.ts";

let server: SensorServer;
let follower: NotificationFollower;

beforeEach(async () => {
  server = await SensorServer.start();
  await server.publish({ asset_key: "a" }, { kind: "sensor", name: "look", mode: "poll" });
  follower = new NotificationFollower(server.store, server.engine);
  server.engine.onCommit((events) => void follower.committed(events));
  await follower.step();
});

afterEach(async () => {
  await server.close();
});

/** Publishes a webhook. */
async function webhook(name: string, notification: string, enabled = true): Promise<void> {
  const url = "https://example.org/";
  await server.publish({ kind: "webhook", name, url, notifications: [notification], enabled });
}

let failures = 0;

/** Something to tell of happens: a look fails, and the next one does not. */
async function trouble(): Promise<void> {
  failures += 1;
  const error = { class: "user", message: `failure ${failures}` };
  await server.pass(600_000);
  await server.report(await server.claimOne("look"), { type: "failed", error });
  await server.pass(600_000);
  await server.report(await server.claimOne("look"), found(null));
}

/** What waits to be told. */
async function told(): Promise<string[]> {
  const probes = await server.store.read(1, (reader) => reader.probesOf("notification", null, 99));
  return probes.flatMap(({ value }) => {
    const { type } = value as { type?: string };
    return type === undefined ? [] : [type];
  });
}

test("a webhook that wants more from now on is not told what happened before", async () => {
  await webhook("alerts", "run.failed");
  await follower.step();
  await trouble();
  await follower.step();
  await webhook("alerts", "sensor.error");
  await follower.step();
  expect(await told()).toEqual([]);
  await trouble();
  await follower.step();
  expect(await told()).toEqual(["sensor.error"]);
});

test("what happens during a pause is not told later, also while another webhook acts", async () => {
  await webhook("other", "run.failed");
  await webhook("alerts", "sensor.error");
  await webhook("alerts", "sensor.error", false);
  await follower.step();
  await trouble();
  await follower.step();
  await webhook("alerts", "sensor.error");
  await follower.step();
  expect(await told()).toEqual([]);
});

test("what was passed over before another server's webhook was known is told", async () => {
  await webhook("other", "run.failed");
  await follower.step();
  const unaware = new NotificationFollower(server.store, server.engine);
  await unaware.step();
  await webhook("alerts", "sensor.error");
  await trouble();
  expect(await unaware.step()).toBe("done");
  expect(await told()).toEqual([]);
  unaware.refresh();
  await unaware.step();
  expect(await told()).toEqual(["sensor.error"]);
});

test("the first webhook is told of everything, also when the store was away at first", async () => {
  const { store } = server;
  const add = store.addProbes.bind(store);
  await webhook("alerts", "sensor.error");
  store.addProbes = () => Promise.reject(new PawlError("STORE_UNAVAILABLE", "It is away."));
  await expect(follower.step()).rejects.toThrow("It is away.");
  store.addProbes = add;
  await trouble();
  await follower.step();
  expect(await told()).toEqual(["sensor.error"]);
});

test("the first webhook is told of everything, also when it came amid a look for webhooks", async () => {
  const { store } = server;
  const read = store.read.bind(store);
  await server.publish({ asset_key: "b" });
  store.read = async (...given) => {
    store.read = read;
    const result = await read(...given);
    await webhook("alerts", "sensor.error");
    return result;
  };
  await follower.step();
  await trouble();
  await follower.step();
  expect(await told()).toEqual(["sensor.error"]);
});
