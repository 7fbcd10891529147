import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { Engine } from "../../src/engine/engine.ts";
import { machineEnvironment } from "../../src/engine/config.ts";
import { NotificationSender } from "../../src/server/webhooks/sender.ts";
import type { Store } from "../../src/store/store.ts";
import { type Api, checkAnswer, publish, startApi, work } from "./api-server.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

const BASE = "/api/v1/orchestration/webhooks";
const CLOCK_AT = "2026-03-01T09:30:00.000Z";
const DAY_MS = 86_400_000;

let folder: string;
let api: Api;
let client: Client;
let receiver: WebhookReceiver;

async function open(): Promise<void> {
  api = await startApi({ clockAt: CLOCK_AT, folder, webhookHosts: [receiver.host] });
  ({ client } = api);
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-webhooks-"));
  receiver = await startReceiver();
  await open();
  await publish(client);
});

afterEach(async () => {
  await receiver.close();
  await api.close();
  rmSync(folder, { recursive: true });
});

type Body = PartInput<"createWebhook", "body">;

function create(changes: Partial<Body> = {}) {
  const body: Body = {
    name: "alerts",
    url: receiver.url,
    notifications: ["run.failed", "run.succeeded"],
    ...changes,
  };
  return client.call("createWebhook", { body });
}

function at(webhook_id: string) {
  return { params: { webhook_id } };
}

async function run(outcome: "SUCCEEDED" | "FAILED", assets = ["report"]): Promise<string> {
  const { run_id } = await client.call("requestRun", { body: { assets } });
  await work(client, outcome);
  return run_id;
}

async function nowMs(): Promise<number> {
  return Date.parse(await api.store.now());
}

describe("a webhook", () => {
  test("is made with a secret that is shown once, and shown by id and name", async () => {
    const made = await create({ client_request_id: "once" });
    expect(made).toMatchObject({ name: "alerts", state: "ACTIVE", state_version: 1 });
    expect(made.secret).toMatch(/^whsec_/);
    const again = await create({ client_request_id: "once" });
    expect(again).toEqual({ ...made, secret: null });
    const shown = await client.call("getWebhook", at("alerts"));
    expect(shown).toEqual(await client.call("getWebhook", at(made.webhook_id)));
    expect(shown).toMatchObject({
      url: receiver.url,
      assets: [],
      has_secret: true,
      deliveries_pending: 0,
      deliveries_failed: 0,
    });
    expect(JSON.stringify(shown)).not.toContain(made.secret);
    const ledger = await client.call("listEvents", { query: {} });
    expect(JSON.stringify(ledger)).not.toContain(made.secret);
  });

  test("I62: is replaced, listed and deleted", async () => {
    const { webhook_id } = await create();
    await create({ name: "other" });
    const body = {
      url: `${receiver.url}/2`,
      notifications: ["backfill.failed" as const],
      expected_state_version: 1,
    };
    const changed = await client.call("updateWebhook", { ...at("alerts"), body });
    expect(changed).toMatchObject({ state_version: 2, webhook_id });
    const stale = client.call("updateWebhook", { ...at("alerts"), body });
    await expect(stale).rejects.toMatchObject({ code: "STATE_VERSION_MISMATCH" });
    const { items } = await client.call("listWebhooks", { query: { limit: 1 } });
    expect(items).toMatchObject([{ name: "alerts", notifications: ["backfill.failed"] }]);
    await client.call("deleteWebhook", at("alerts"));
    expect(await client.call("getWebhook", at(webhook_id))).toMatchObject({ state: "DELETED" });
    expect((await client.call("listWebhooks")).items.map(({ name }) => name)).toEqual(["other"]);
    const tested = client.call("testWebhook", at(webhook_id));
    await expect(tested).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
  });

  test("is tested at once, signed, and says what the receiver answered", async () => {
    const { secret, webhook_id } = await create();
    const tested = await client.call("testWebhook", at("alerts"));
    expect(tested).toMatchObject({ delivered: true, status: 204, error: null, webhook_id });
    const [got] = receiver.received;
    expect(got?.headers["webhook-id"]).toBe(tested.delivery_id);
    expect(got?.body).toMatchObject({ type: "webhook.test", data: { webhook_id } });
    expect(got !== undefined && receiver.isSigned(got, [secret ?? ""], await nowMs())).toBe(true);
    receiver.answer = 500;
    expect(await client.call("testWebhook", at("alerts"))).toMatchObject({
      delivered: false,
      status: 500,
      error: "The receiver answered 500.",
    });
  });

  test("reaches nothing of our own network unless the operator allows it", async () => {
    const closed = await startApi();
    try {
      await publish(closed.client);
      const body = { name: "in", notifications: ["run.failed" as const] };
      const urls = [
        receiver.url,
        "http://localhost:1/",
        "http://169.254.169.254/latest",
        "http://[::1]:1/",
      ];
      for (const [index, url] of urls.entries()) {
        const name = `in${index}`;
        const made = await closed.client.call("createWebhook", { body: { ...body, name, url } });
        expect(made.message).toContain("an address that is not public");
        const tested = await closed.client.call("testWebhook", at(name));
        expect(tested).toMatchObject({ delivered: false, status: null });
        expect(tested.error).toContain("an address that is not public");
      }
      expect(receiver.received).toEqual([]);
    } finally {
      await closed.close();
    }
  });

  test("I61: that is wrong is refused with a sentence", async () => {
    await create();
    const good = { name: "x", url: receiver.url, notifications: ["run.failed"] };
    const bad: [string, string, unknown][] = [
      ["POST", BASE, { ...good, url: "ftp://x" }],
      ["POST", BASE, { ...good, url: "http://user:secret@host/" }],
      ["POST", BASE, { ...good, notifications: [] }],
      ["POST", BASE, { ...good, notifications: ["run.exploded"] }],
      ["POST", BASE, { ...good, assets: ["none"] }],
      ["POST", BASE, { ...good, name: "alerts" }],
      ["POST", BASE, { ...good, secret: "mine" }],
      ["GET", `${BASE}/none`, undefined],
      ["GET", `${BASE}/none/deliveries`, undefined],
      ["GET", `${BASE}/alerts/deliveries?status=fine`, undefined],
      ["GET", `${BASE}/alerts/deliveries?cursor=nonsense`, undefined],
      ["POST", `${BASE}/none/test`, {}],
      ["POST", `${BASE}/none/secret`, {}],
      ["POST", `${BASE}/alerts/secret`, { overlap_seconds: "soon" }],
      ["DELETE", `${BASE}/none`, undefined],
    ];
    for (const [method, path, body] of bad) {
      const headers = { "idempotency-key": JSON.stringify(body ?? 0) };
      const answer = await api.send(method, path, { body, headers });
      expect(answer.status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
      expect(answer.status, `${method} ${path}`).toBeLessThan(500);
      await checkAnswer(method, path.split("?")[0] ?? "", answer);
    }
    expect(api.logged).toEqual([]);
  });
});

describe("notifications", () => {
  test("tell what happened, signed, to those who want to know", async () => {
    const { secret } = await create({ notifications: ["run.failed"] });
    const run_id = await run("FAILED");
    await run("SUCCEEDED");
    const [got] = await receiver.got(1);
    expect(got?.body).toMatchObject({
      type: "run.failed",
      data: {
        run_id,
        outcome: "FAILED",
        counts: { failed: 1, succeeded: 0 },
        error: { class: "user", message: "no" },
        asset_selection: ["report"],
        trigger_source_ref: { type: "manual" },
      },
    });
    expect(got?.headers).toMatchObject({ "content-type": "application/json" });
    expect(got !== undefined && receiver.isSigned(got, [secret ?? ""], await nowMs())).toBe(true);
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(1);
    expect((await client.call("listDeliveries", at("alerts"))).items).toEqual([]);
  });

  test("are signed with both secrets while one takes over from the other", async () => {
    const { secret } = await create();
    const second = await client.call("createWebhookSecret", {
      ...at("alerts"),
      body: { overlap_seconds: 60 },
    });
    await run("FAILED");
    const [first] = await receiver.got(1);
    const signs = async (index: number, key: string) => {
      const got = receiver.received[index];
      return got !== undefined && receiver.isSigned(got, [key], await nowMs());
    };
    expect(first?.headers["webhook-signature"]?.toString().split(" ")).toHaveLength(2);
    expect(await signs(0, secret ?? "")).toBe(true);
    expect(await signs(0, second.secret)).toBe(true);
    api.jump(61_000);
    await run("FAILED");
    await receiver.got(2);
    expect(await signs(1, secret ?? "")).toBe(false);
    expect(await signs(1, second.secret)).toBe(true);
  });

  test("of backfills, schedules and sensors come under their names, only of the assets wanted", async () => {
    const all = [
      "backfill.failed",
      "backfill.paused",
      "backfill.succeeded",
      "schedule.failed",
      "schedule.skipped",
      "sensor.error",
      "sensor.recovered",
    ] as const;
    await create({ notifications: [...all] });
    const other = await startReceiver();
    await create({ name: "tenants", notifications: [...all], assets: ["tenants"], url: other.url });
    const { backfill_id } = await client.call("createBackfill", {
      body: {
        assets: ["sales/orders"],
        selector: { type: "range", start: "2025-01-01", end: "2025-01-02" },
        failure_limit: { count: 1 },
        chunk_size: 1,
        max_concurrent_runs: 1,
      },
    });
    await expect.poll(() => work(client, "FAILED")).toBe(1);
    const [paused] = await receiver.got(1);
    expect(paused?.body).toMatchObject({
      type: "backfill.paused",
      data: { backfill_id, outcome: "PAUSED", counts: { failed: 1, total: 2 } },
    });
    const target = { asset_selection: ["report"], config: "{payload.x}" };
    const body = { name: "uploads", mode: "push" as const, target };
    await client.call("createSensor", { body });
    for (const [id, payload] of [
      ["m1", {}],
      ["m2", { x: 1 }],
    ] as const) {
      await api.send("POST", "/api/v1/orchestration/sensors/uploads/messages", {
        body: payload,
        headers: { "webhook-id": id },
      });
      await client.call("tick");
    }
    await client.call("createSchedule", {
      body: { name: "hourly", cron: "0 * * * *", asset_selection: ["report"], overlap: "skip" },
    });
    api.jump(3_600_000);
    await client.call("tick");
    api.jump(3_600_000);
    await client.call("tick");
    const got = await receiver.got(4);
    expect(got.slice(1).map(({ body: { type, data } }) => [type, data["name"]])).toEqual([
      ["sensor.error", "uploads"],
      ["sensor.recovered", "uploads"],
      ["schedule.skipped", "hourly"],
    ]);
    expect(got[3]?.body.data).toMatchObject({ reason: "overlap", count: 1 });
    await api.notifications.settled();
    expect(other.received).toEqual([]);
    await other.close();
  });

  test("are tried again with the same id until the receiver takes them, ever less often", async () => {
    const { webhook_id } = await create();
    receiver.answer = 500;
    await run("FAILED");
    await receiver.got(1);
    await api.notifications.settled();
    const [waiting] = (await client.call("listDeliveries", at("alerts"))).items;
    expect(waiting).toMatchObject({
      webhook_id,
      type: "run.failed",
      status: "pending",
      attempts: 1,
      last_status: 500,
      last_error: "The receiver answered 500.",
    });
    api.jump(3_000);
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(1);
    api.jump(4_000);
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(2);
    receiver.answer = (_got, response) => response.destroy();
    api.jump(40_000);
    await api.notifications.settled();
    const [cut] = (await client.call("listDeliveries", at(webhook_id))).items;
    expect(cut).toMatchObject({ attempts: 3, last_status: null });
    expect(cut?.last_error).toContain("could not be delivered");
    const text = await (await api.send("GET", "/metrics")).text();
    expect(text).toMatch(/pawl_webhook_deliveries_total\{outcome="retried"\} 3/);
    expect(text).toMatch(/pawl_webhook_deliveries_waiting\{status="pending"\} 1/);
    expect(text).toMatch(/pawl_webhook_oldest_pending_seconds 47/);
    receiver.answer = 200;
    api.jump(200_000);
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(4);
    const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids)).toEqual(new Set([waiting?.delivery_id]));
    expect(new Set(receiver.received.map((got) => got.text)).size).toBe(1);
    const stamps = receiver.received.map(({ headers }) => headers["webhook-timestamp"]);
    expect(new Set(stamps).size).toBe(4);
    expect((await client.call("listDeliveries", at("alerts"))).items).toEqual([]);
  });

  test("are given up after twelve tries, shown for a week, and then forgotten", async () => {
    await create();
    receiver.answer = 503;
    await run("FAILED");
    await receiver.got(1);
    for (let attempt = 2; attempt <= 12; attempt++) {
      await api.notifications.settled();
      const [delivery] = (await client.call("listDeliveries", at("alerts"))).items;
      api.jump(Date.parse(delivery?.next_attempt_at ?? "") - (await nowMs()));
    }
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(12);
    const query = { status: "failed" };
    const [failed] = (await client.call("listDeliveries", { ...at("alerts"), query })).items;
    expect(failed).toMatchObject({ attempts: 12, status: "failed", next_attempt_at: null });
    expect(await client.call("getWebhook", at("alerts"))).toMatchObject({
      deliveries_pending: 0,
      deliveries_failed: 1,
    });
    api.jump(6 * DAY_MS);
    await api.notifications.settled();
    expect((await client.call("listDeliveries", at("alerts"))).items).toHaveLength(1);
    api.jump(2 * DAY_MS);
    await api.notifications.settled();
    expect((await client.call("listDeliveries", at("alerts"))).items).toEqual([]);
    expect(receiver.received).toHaveLength(12);
  });

  test("end at once where the receiver says that nobody is there any more", async () => {
    await create();
    receiver.answer = 410;
    await run("FAILED");
    await receiver.got(1);
    await api.notifications.settled();
    const { items } = await client.call("listDeliveries", at("alerts"));
    expect(items).toMatchObject([{ status: "failed", attempts: 1, last_status: 410 }]);
  });

  test("are not held up by a receiver that does not answer, and four go to one at once", async () => {
    const slow = await startReceiver();
    slow.answer = "hang";
    await api.close();
    const webhookHosts = [receiver.host, slow.host];
    api = await startApi({ clockAt: CLOCK_AT, folder, webhookHosts });
    ({ client } = api);
    await create({ name: "slow", url: slow.url });
    await create();
    await client.call("createBackfill", {
      body: {
        assets: ["sales/orders"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 10,
      },
    });
    await expect.poll(() => work(client, "SUCCEEDED")).toBe(10);
    await receiver.got(10);
    await slow.got(4);
    expect(slow.received).toHaveLength(4);
    expect(slow.mostAtOnce()).toBe(4);
    expect(receiver.mostAtOnce()).toBeLessThanOrEqual(4);
    await slow.close();
  });
});

describe("several servers", () => {
  /** Another server of the same workspace that tells webhooks. */
  async function second(store: Store): Promise<NotificationSender> {
    const environment = machineEnvironment(() => undefined);
    const engine = await Engine.open({
      store,
      tenantId: "default",
      workspaceId: "default",
      environment,
    });
    const warn = () => undefined;
    return new NotificationSender({ store, engine, allowedHosts: [receiver.host], warn });
  }

  test("share the work: everything is told once", async () => {
    await create();
    const other = await second(api.store);
    other.start();
    const ids: string[] = [];
    for (let index = 0; index < 20; index++) ids.push(await run("FAILED"));
    await receiver.got(20);
    await other.settled();
    await api.notifications.settled();
    const told = receiver.received.map(({ body }) => body.data["run_id"] as string);
    expect(told.toSorted()).toEqual(ids.toSorted());
    await other.stop();
    await other.engine.stop();
  });

  test("tell nothing twice that one had only begun to note", async () => {
    await create();
    await api.notifications.settled();
    await api.notifications.stop();
    // The first dies after the deliveries are kept and before its place in the ledger is.
    let isDead = false;
    const dying = new Proxy(api.store, {
      get(target, name) {
        if (name === "settleProbes" && !isDead) {
          return () => {
            isDead = true;
            return Promise.reject(new Error("it died"));
          };
        }
        const value = Reflect.get(target, name) as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const run_id = await run("FAILED");
    const first = await second(dying);
    first.start();
    await expect.poll(() => isDead).toBe(true);
    await first.stop();
    api.jump(31_000);
    const other = await second(api.store);
    other.start();
    await receiver.got(1);
    await other.settled();
    api.jump(31_000);
    await other.settled();
    expect(receiver.received.map(({ body }) => body.data["run_id"])).toEqual([run_id]);
    for (const { engine } of [first, other]) await engine.stop();
    await other.stop();
  });
});

describe("across a restart", () => {
  test("what was told is not told again, and what waits is told", async () => {
    await create();
    await run("FAILED");
    await receiver.got(1);
    await api.notifications.settled();
    receiver.answer = 500;
    await run("SUCCEEDED");
    await receiver.got(2);
    await api.close();
    receiver.answer = 200;
    await open();
    api.jump(60_000);
    await api.notifications.settled();
    const types = receiver.received.map(({ body }) => body.type);
    expect(types).toEqual(["run.failed", "run.succeeded", "run.succeeded"]);
    await api.close();
    await open();
    api.jump(120_000);
    await api.notifications.settled();
    expect(receiver.received).toHaveLength(3);
  });

  test("what happened while nobody told is told, but nothing of before or of a pause", async () => {
    await run("FAILED");
    await create();
    await api.notifications.settled();
    await api.notifications.stop();
    const run_id = await run("FAILED");
    await api.close();
    await open();
    await api.notifications.settled();
    expect(receiver.received.map(({ body }) => body.data["run_id"])).toEqual([run_id]);
    const { webhook_id: _, ...shown } = await client.call("getWebhook", at("alerts"));
    const { url, notifications } = shown;
    const put = (enabled: boolean) =>
      client.call("updateWebhook", { ...at("alerts"), body: { url, notifications, enabled } });
    await put(false);
    await api.notifications.settled();
    await run("FAILED");
    await put(true);
    const last = await run("SUCCEEDED");
    await receiver.got(2);
    await api.notifications.settled();
    expect(receiver.received.map(({ body }) => body.data["run_id"])).toEqual([run_id, last]);
  });

  test("I71: nothing is read or kept where there is no webhook", async () => {
    await run("FAILED");
    await api.notifications.settled();
    const { ws } = api.engines[0].workspace;
    const probes = () => api.store.read(ws, (reader) => reader.probesOf("notification", null, 10));
    expect(await probes()).toEqual([]);
    await create();
    await run("FAILED");
    await receiver.got(1);
    await api.notifications.settled();
    expect(await probes()).toHaveLength(1);
    receiver.answer = 500;
    await run("FAILED");
    await receiver.got(2);
    await client.call("deleteWebhook", at("alerts"));
    await api.notifications.settled();
    expect(await probes()).toEqual([]);
  });
});
