import { afterEach, beforeEach, expect, test, describe } from "vitest";
import { found, SensorServer } from "../../test/sensor-server.ts";
import { PawlError } from "../kernel/errors.ts";
import {
  NotificationFollower,
  afterAttempt,
  type Delivery,
  deliveryOf,
  isTaken,
} from "./notifications.ts";
import { addMs, msBetween } from "../kernel/instant.ts";

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

test("I76: what very many webhooks are told of is written part by part, and the place moves on between", async () => {
  const names = Array.from({ length: 250 }, (_, n) => `alerts-${n}`);
  const url = "https://example.org/";
  const notifications = ["sensor.error"];
  await server.publish(
    ...names.map((name) => ({ kind: "webhook", name, url, notifications, enabled: true })),
  );
  const unaware = new NotificationFollower(server.store, server.engine);
  await unaware.step();
  for (let time = 0; time < 60; time++) await trouble();
  const { store } = server;
  const add = store.addProbes.bind(store);
  const settle = store.settleProbes.bind(store);
  const written: number[] = [];
  const places: unknown[] = [];
  store.addProbes = (ws, probes) => {
    written.push(probes.length);
    return add(ws, probes);
  };
  store.settleProbes = (ws, ends) => {
    places.push(...ends.map(({ value }) => value));
    return settle(ws, ends);
  };
  expect(await unaware.step()).toBe("done");
  expect(Math.max(...written)).toBeLessThanOrEqual(500);
  expect(written.reduce((sum, count) => sum + count, 0)).toBe(60 * names.length);
  expect(places.length).toBeGreaterThan(1);
  expect(await unaware.step()).toBe("done");
  expect(written.reduce((sum, count) => sum + count, 0)).toBe(60 * names.length);
});

const NOW = "2026-03-01T09:30:00.000Z";
const DAY_MS = 86_400_000;

const FRESH: Delivery = {
  pos: 7,
  type: "run.failed",
  body: { type: "run.failed", timestamp: NOW, data: {} },
  created_at: NOW,
  attempts: 0,
  last_attempt_at: null,
  last_status: null,
  last_error: null,
  accepted_by: [],
  failed_at: null,
};

const REFUSED = { status: 500, error: "no", isFinal: false };

describe("afterAttempt", () => {
  test("tries twelve times, ever less often, and then gives up for a week", () => {
    const delays: number[] = [];
    let delivery = FRESH;
    let now = NOW;
    while (delivery.failed_at === null) {
      const { value, due_at } = afterAttempt(delivery, REFUSED, now, 0.5);
      delays.push(msBetween(now, due_at) / 1_000);
      delivery = value;
      now = due_at;
    }
    const hours = [1, 2, 4, 8, 16, 24].map((hour) => hour * 3_600);
    expect(delays).toEqual([5, 30, 120, 600, 1_800, ...hours, 7 * 86_400]);
    expect(delivery).toMatchObject({ attempts: 12, last_status: 500, last_error: "no" });
  });

  test("spreads attempts by a fifth to either side", () => {
    const after = (random: number) =>
      msBetween(NOW, afterAttempt(FRESH, REFUSED, NOW, random).due_at);
    expect(after(0)).toBe(4_000);
    expect(after(1)).toBe(6_000);
  });

  test("gives up what would be told more than three days late", () => {
    const late = addMs(NOW, 3 * DAY_MS - 1_000);
    expect(afterAttempt(FRESH, REFUSED, late, 0.5).value.failed_at).toBe(late);
    const justInTime = addMs(NOW, 3 * DAY_MS - 6_000);
    expect(afterAttempt(FRESH, REFUSED, justInTime, 0.5).value.failed_at).toBeNull();
  });

  test("gives up at once where nobody is there any more", () => {
    const gone = { status: 410, error: "gone", isFinal: true };
    const { value } = afterAttempt(FRESH, gone, NOW, 0.5);
    expect(value).toMatchObject({ attempts: 1, failed_at: NOW, last_status: 410 });
  });
});

test("afterAttempt remembers which recipients of an e-mail have it", () => {
  const acceptedBy = ["a@example.com"];
  const { value } = afterAttempt(FRESH, { ...REFUSED, acceptedBy }, NOW, 0.5);
  expect(value.accepted_by).toEqual(acceptedBy);
});

describe("a delivery", () => {
  test("is taken with any 2xx, and with nothing else", () => {
    const statuses = [200, 204, 299, 199, 301, 404, 500];
    const taken = statuses.filter((status) => isTaken({ status }));
    expect(taken).toEqual([200, 204, 299]);
    expect(isTaken({ status: null })).toBe(false);
  });

  test("is told from other values of probes", () => {
    expect(deliveryOf(FRESH)).toEqual(FRESH);
    // One that an older version kept.
    const { accepted_by: _, ...older } = FRESH;
    expect(deliveryOf(older)).toEqual(FRESH);
    expect(deliveryOf({ pos: 7 })).toBeNull();
    expect(deliveryOf(null)).toBeNull();
  });
});
