import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { z } from "zod";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { Engine } from "../../src/engine/engine.ts";
import { type MailSettings, machineEnvironment } from "../../src/engine/config.ts";
import { NotificationSender } from "../../src/server/webhooks/sender.ts";
import type { Store } from "../../src/store/store.ts";
import { DiscordMessage, SlackMessage, TeamsMessage } from "../chat-services.ts";
import { type Api, checkAnswer, publish, startApi, work } from "./api-server.ts";
import {
  type MailServer,
  startMailServer,
  startReceiver,
  type WebhookReceiver,
} from "./webhook-receiver.ts";

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
      ["POST", BASE, { ...good, format: "fax" }],
      ["POST", BASE, { ...good, template: "{{run}}" }],
      ["POST", BASE, { ...good, template: "{{run_id" }],
      ["POST", BASE, { ...good, template: "" }],
      ["POST", BASE, { ...good, template: "x".repeat(2_001) }],
      ["POST", BASE, { ...good, digest: "run" }],
      ["POST", BASE, { ...good, digest: "backfill" }],
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

describe("messages for people", () => {
  const FORMATS = [
    ["slack", SlackMessage],
    ["teams", TeamsMessage],
    ["discord", DiscordMessage],
  ] as const;

  /** Answers as a service does that takes only what it knows. */
  function answerAs(schema: z.ZodType): void {
    receiver.answer = ({ text }, response) => {
      const isFit = schema.safeParse(JSON.parse(text)).success;
      response.writeHead(isFit ? 200 : 400).end();
    };
  }

  test.each(FORMATS)("are as %s takes them, of what happened and in a test", async (format, of) => {
    answerAs(of);
    await create({ format });
    const tested = await client.call("testWebhook", at("alerts"));
    expect(tested).toMatchObject({ delivered: true, status: 200 });
    const run_id = await run("FAILED");
    await receiver.got(2);
    await api.notifications.settled();
    expect((await client.call("listDeliveries", at("alerts"))).items).toEqual([]);
    const [tried, told] = receiver.received;
    expect(JSON.parse(tried?.text ?? "")).toEqual(tested.body);
    // Discord's Markdown has marks escaped.
    const plain = told?.text.replaceAll("\\", "");
    for (const part of ["Run failed: report", run_id]) expect(plain).toContain(part);
    // A header more is nobody's trouble, and who checks it may.
    expect(told?.headers["webhook-signature"]).toMatch(/^v1,/);
  });

  test("have the text of a template, which a test shows with places for its values", async () => {
    const template = "{{asset_selection}} failed: {{error.message}}";
    await create({ format: "slack", template });
    const tested = await client.call("testWebhook", at("alerts"));
    expect(tested.body).toEqual({ text: "‹asset_selection› failed: ‹error.message›" });
    await run("FAILED");
    const [, told] = await receiver.got(2);
    expect(JSON.parse(told?.text ?? "")).toEqual({ text: "report failed: no" });
  });

  test("change with the definition, which says so, and what waits is kept in Pawl's own form", async () => {
    await create({ notifications: ["run.failed"] });
    receiver.answer = 500;
    const run_id = await run("FAILED");
    await receiver.got(1);
    await api.notifications.settled();
    const body = { url: receiver.url, notifications: ["run.failed" as const] };
    const changed = { ...body, format: "discord" as const, template: "{{run_id}}" };
    await client.call("updateWebhook", { ...at("alerts"), body: changed });
    const shown = await client.call("getWebhook", at("alerts"));
    expect(shown).toMatchObject({ format: "discord", template: "{{run_id}}" });
    const [waiting] = (await client.call("listDeliveries", at("alerts"))).items;
    expect(waiting?.body).toMatchObject({ type: "run.failed", data: { run_id } });
    answerAs(DiscordMessage);
    api.jump(10_000);
    await api.notifications.settled();
    expect(JSON.parse(receiver.received.at(-1)?.text ?? "")).toMatchObject({ content: run_id });
    await client.call("updateWebhook", { ...at("alerts"), body });
    expect(await client.call("getWebhook", at("alerts"))).not.toHaveProperty("format");
  });

  test("name the template's fault and what was probably meant", async () => {
    const wrong = create({ template: "{{error.mesage}}" });
    await expect(wrong).rejects.toMatchObject({
      code: "DEFINITION_INVALID",
      message: expect.stringContaining("(perhaps error.message is meant)") as string,
    });
  });
});

describe("a digest", () => {
  const DIGEST: Partial<Body> = {
    digest: "backfill",
    notifications: ["run.failed", "run.succeeded", "backfill.failed", "backfill.paused"],
  };

  function backfill(body: Partial<PartInput<"createBackfill", "body">> = {}) {
    const selector = { type: "range", start: "2025-01-01", end: "2025-01-05" } as const;
    const rest = { selector, chunk_size: 1, max_concurrent_runs: 10, ...body };
    return client.call("createBackfill", { body: { assets: ["sales/orders"], ...rest } });
  }

  test("is one message for a backfill, with what failed, and none for its runs", async () => {
    const other = await startReceiver();
    await api.close();
    const webhookHosts = [receiver.host, other.host];
    api = await startApi({ clockAt: CLOCK_AT, folder, webhookHosts });
    ({ client } = api);
    await create(DIGEST);
    await create({ name: "each", url: other.url, notifications: ["run.failed"] });
    const { backfill_id } = await backfill();
    await expect.poll(() => work(client, "FAILED")).toBe(5);
    await other.got(5);
    const [told] = await receiver.got(1);
    const days = ["01", "02", "03", "04", "05"].map((day) => `2025-01-${day}`);
    expect(told?.body).toMatchObject({
      type: "backfill.failed",
      data: {
        backfill_id,
        counts: { total: 5, failed: 5 },
        failures: days.map((partition_key) => ({
          asset_key: "sales/orders",
          partition_key,
          error: { class: "user", message: "no" },
        })),
      },
    });
    const run_id = await run("FAILED");
    await receiver.got(2);
    await api.notifications.settled();
    expect(receiver.received.map(({ body: { type } }) => type)).toEqual([
      "backfill.failed",
      "run.failed",
    ]);
    expect(receiver.received[1]?.body.data).toMatchObject({ run_id, backfill_id: null });
    expect(other.received).toHaveLength(6);
    await other.close();
  });

  test("tells of the failure limit, and of the end after that", async () => {
    await create({ ...DIGEST, format: "slack" });
    receiver.answer = 200;
    const limited = { failure_limit: { count: 2 }, max_concurrent_runs: 1 };
    const { backfill_id } = await backfill(limited);
    await expect.poll(() => work(client, "FAILED")).toBe(1);
    await expect.poll(() => work(client, "FAILED")).toBe(1);
    const [paused] = await receiver.got(1);
    const { text, blocks = [] } = SlackMessage.parse(JSON.parse(paused?.text ?? ""));
    expect(text).toBe("Backfill paused: sales/orders");
    const said = JSON.stringify(blocks);
    expect(said).toContain("failure limit");
    expect(said).toContain("2 failed of 5");
    expect(said).toContain("sales/orders 2025-01-01: no");
    expect(said).toContain("sales/orders 2025-01-02: no");
    await client.call("resumeBackfill", { params: { backfill_id }, body: {} });
    for (let left = 3; left > 0; left--) {
      await expect.poll(() => work(client, "SUCCEEDED")).toBe(1);
    }
    await receiver.got(2);
    await api.notifications.settled();
    const texts = receiver.received.map(({ text: sent }) => SlackMessage.parse(JSON.parse(sent)));
    expect(texts.map((message) => message.text)).toEqual([
      "Backfill paused: sales/orders",
      "Backfill failed: sales/orders",
    ]);
  });

  test("names ten partitions of many, each with its own error where one task had several", async () => {
    const asset_key = "bulk";
    const keys = Array.from({ length: 30 }, (_, place) => `k${10 + place}`);
    const partitions = { type: "static" as const, keys };
    const retry = { max_attempts: 1 };
    const bulk = { kind: "asset" as const, asset_key, partitions, batch: true, retry };
    await client.call("publishDefinitions", { body: { specs: [bulk] } });
    await create(DIGEST);
    await backfill({ assets: [asset_key], selector: { type: "all" }, chunk_size: 30 });
    const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: [asset_key] };
    const claimed = await client.call("claim", {
      body: { ...claim, code_version: null, wait_ms: 20_000 },
    });
    const results = claimed.groups.flatMap(({ run_pos, tasks }) =>
      tasks.map(({ task_key, attempt }) => {
        const exceptions = Array.from({ length: 12 }, (_, place) => ({
          index: place * 2,
          outcome: "FAILED" as const,
          error: { class: "user", message: `no ${place * 2}` },
        }));
        return { run_pos, task_key, attempt, outcome: "SUCCEEDED" as const, exceptions };
      }),
    );
    await client.call("report", {
      body: { worker_id: "w", code_version: null, results, released_leases: ["l"] },
    });
    const [told] = await receiver.got(1);
    const { failures, counts } = told?.body.data ?? {};
    expect(counts).toMatchObject({ total: 30, failed: 12, succeeded: 18 });
    expect(failures).toMatchObject(
      Array.from({ length: 10 }, (_, place) => ({
        asset_key,
        partition_key: keys[place * 2],
        error: { message: `no ${place * 2}` },
      })),
    );
  });
});

describe("e-mail", () => {
  const TO = ["ops@example.com", "me@example.org"];
  const LOGIN = { user: "pawl-user", pass: "s3cret-pass" };
  let mail: MailServer;

  beforeEach(async () => {
    mail = await startMailServer({ login: LOGIN });
    await openWith({
      host: "127.0.0.1",
      port: mail.port,
      tls: "none",
      login: { ...LOGIN },
      from: { name: "Pawl", address: "pawl@example.com" },
    });
  });

  afterEach(() => mail.close());

  async function openWith(settings: MailSettings | null): Promise<void> {
    await api.close();
    const sending = settings === null ? {} : { mail: settings };
    api = await startApi({ clockAt: CLOCK_AT, folder, webhookHosts: [], ...sending });
    ({ client } = api);
  }

  function write(changes: Partial<Body> = {}) {
    const notifications = ["run.failed" as const];
    const body: Body = { name: "ops", email: { to: TO }, notifications, ...changes };
    return client.call("createWebhook", { body });
  }

  test("is sent of what happened and in a test, with an id of the delivery, and has no secret", async () => {
    const made = await write();
    expect(made).toMatchObject({
      secret: null,
      signed: false,
      message: "Webhook ops was created.",
    });
    const tested = await client.call("testWebhook", at("ops"));
    expect(tested).toMatchObject({
      delivered: true,
      status: 250,
      body: { to: TO, subject: "Test of the webhook ops" },
    });
    const run_id = await run("FAILED");
    const [tried, told] = await mail.got(2);
    await api.notifications.settled();
    expect((await client.call("listDeliveries", at("ops"))).items).toEqual([]);
    expect(tried?.subject).toBe("Test of the webhook ops");
    expect(told).toMatchObject({
      envelope: { from: "pawl@example.com", to: TO },
      subject: "Run failed: report",
      user: LOGIN.user,
    });
    expect(told?.text).toContain(
      `Error: no\n\nPartitions: 1 failed\nTriggered by: manual\nRun: ${run_id}`,
    );
    expect(told?.headers.get("to")).toEqual([TO.join(", ")]);
    const [failed] = (await client.call("listEvents", { query: { type: "RunFinished" } })).items;
    expect(told?.headers.get("message-id")).toEqual([
      `<pawl.${made.webhook_id}.${failed?.pos}@example.com>`,
    ]);
    const secret = client.call("createWebhookSecret", { ...at("ops"), body: {} });
    await expect(secret).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
  });

  test("that is refused for now is sent again, with the same id and to those who have it not", async () => {
    await write();
    mail.refuse = (address) => (address === TO[0] ? 450 : null);
    await run("FAILED");
    await mail.got(1);
    await api.notifications.settled();
    const [waiting] = (await client.call("listDeliveries", at("ops"))).items;
    expect(waiting).toMatchObject({ status: "pending", attempts: 1, last_status: 450 });
    expect(waiting?.last_error).toContain("refused 1 of 2 recipients: 450 5.1.1 <…@example.com>");
    // The rest is told after a restart too.
    await openWith({
      host: "127.0.0.1",
      port: mail.port,
      tls: "none",
      login: { ...LOGIN },
      from: { name: "Pawl", address: "pawl@example.com" },
    });
    mail.refuse = () => null;
    api.jump(10_000);
    await api.notifications.settled();
    expect(mail.received.map(({ envelope }) => envelope.to)).toEqual([[TO[1]], [TO[0]]]);
    const ids = mail.received.map(({ headers }) => headers.get("message-id")?.[0]);
    expect(new Set(ids).size).toBe(1);
    expect((await client.call("listDeliveries", at("ops"))).items).toEqual([]);
  });

  test("that is refused for good is given up at once, and shown as failed", async () => {
    await write();
    mail.refuse = () => 550;
    await run("FAILED");
    await expect.poll(() => mail.asked.length).toBe(2);
    await api.notifications.settled();
    const { items } = await client.call("listDeliveries", at("ops"));
    expect(items).toMatchObject([{ status: "failed", attempts: 1, last_status: 550 }]);
    api.jump(DAY_MS);
    await api.notifications.settled();
    expect(mail.asked).toHaveLength(2);
    expect(await client.call("getWebhook", at("ops"))).toMatchObject({ deliveries_failed: 1 });
  });

  test("of a backfill is one message with a digest, with a template and a subject of its own", async () => {
    await write({
      digest: "backfill",
      notifications: ["run.failed", "backfill.failed"],
      email: { to: TO, subject: "{{backfill_id}}: {{counts.failed}} of {{counts.total}}" },
      template: "{{failures}}",
    });
    const selector = { type: "range", start: "2025-01-01", end: "2025-01-03" } as const;
    const body = { selector, chunk_size: 1, max_concurrent_runs: 10, assets: ["sales/orders"] };
    const { backfill_id } = await client.call("createBackfill", { body });
    await expect.poll(() => work(client, "FAILED")).toBe(3);
    await mail.got(1);
    await api.notifications.settled();
    expect(mail.received).toMatchObject([
      {
        subject: `${backfill_id}: 3 of 3`,
        text: ["01", "02", "03"].map((day) => `sales/orders 2025-01-${day}: no`).join("\n"),
      },
    ]);
  });

  test("has no header that an error message or a name would smuggle in", async () => {
    const asset_key = "evil";
    const retry = { max_attempts: 1 };
    const spec = { kind: "asset" as const, asset_key, partitions: null, retry };
    await client.call("publishDefinitions", { body: { specs: [spec] } });
    await write({ email: { to: TO, subject: "{{error.message}}" } });
    await client.call("requestRun", { body: { assets: [asset_key] } });
    const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: [asset_key] };
    const claimed = await client.call("claim", {
      body: { ...claim, code_version: null, wait_ms: 20_000 },
    });
    const message = "no\r\nBcc: evil@example.com\r\n\r\n<script>hello</script>";
    const results = claimed.groups.flatMap(({ run_pos, tasks }) =>
      tasks.map(({ task_key, attempt }) => {
        const error = { class: "user", message };
        return { run_pos, task_key, attempt, outcome: "FAILED" as const, final: true, error };
      }),
    );
    await client.call("report", {
      body: { worker_id: "w", code_version: null, results, released_leases: ["l"] },
    });
    const [told] = await mail.got(1);
    expect(told?.envelope.to).toEqual(TO);
    expect(told?.subject).toBe("no Bcc: evil@example.com <script>hello</script>");
    expect(told?.headers.has("bcc")).toBe(false);
    expect(told?.html).toContain("&lt;script&gt;");
    expect(told?.html).not.toContain("<script>");
  });

  test("I61: to what is no address, or in two ways at once, is refused with a sentence", async () => {
    const to = (...addresses: string[]) => ({ email: { to: addresses } });
    const bad: [string, Partial<Body>][] = [
      ["which is not an address", to("ops")],
      ["which is not an address", to("Ops <ops@example.com>")],
      ["which is not an address", to("a@example.com\r\nBcc: b@example.com")],
      ["which is not an address", to("a@example.com,b@example.com")],
      ["which is not an address", to(`${"a".repeat(65)}@example.com`)],
      ["which is not an address", to("größe@example.com")],
      ["twice", to("ops@example.com", "OPS@example.com")],
      ["must be one line", { email: { to: TO, subject: "a\nBcc: b@example.com" } }],
      ["(perhaps error.message is meant)", { email: { to: TO, subject: "{{error.mesage}}" } }],
      ["both a url and email", { url: receiver.url }],
      ["neither a url nor email", { email: undefined }],
      ["leave the format slack out", { format: "slack" }],
    ];
    for (const [sentence, changes] of bad) {
      await expect(write(changes), JSON.stringify(changes)).rejects.toMatchObject({
        code: "DEFINITION_INVALID",
        message: expect.stringContaining(sentence) as string,
      });
    }
    const many = to(...Array.from({ length: 51 }, (_, place) => `a${place}@example.com`));
    await expect(write(many)).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });

  test("without an SMTP server says so when it is made, in a test and with what waits", async () => {
    await openWith(null);
    const sentence = "Let the operator set smtp_url and email_from.";
    expect((await write()).message).toContain(sentence);
    const tested = await client.call("testWebhook", at("ops"));
    expect(tested).toMatchObject({ delivered: false, status: null });
    expect(tested.error).toContain(sentence);
    await run("FAILED");
    await expect
      .poll(async () => (await client.call("listDeliveries", at("ops"))).items)
      .toMatchObject([
        { status: "pending", attempts: 1, last_error: expect.stringContaining(sentence) as string },
      ]);
  });

  test("tells nobody the login, nor those who only read whom it is sent to", async () => {
    await write();
    mail.refuse = () => 450;
    await run("FAILED");
    await api.notifications.settled();
    const reader = await api.clientOf(0, ["read"]);
    const headers = { authorization: `Bearer ${reader.token}` };
    const paths = [
      `${BASE}/ops`,
      BASE,
      `${BASE}/ops/deliveries`,
      "/api/v1/orchestration/definitions",
      "/api/v1/orchestration/events",
    ];
    for (const path of paths) {
      const owned = await (await api.send("GET", path)).text();
      for (const hidden of [LOGIN.user, LOGIN.pass, `127.0.0.1:${mail.port}`]) {
        expect(owned, path).not.toContain(hidden);
      }
      const answer = await api.send("GET", path, { headers });
      expect(answer.status, path).toBe(200);
      const read = await answer.text();
      expect(read, path).not.toContain("ops@example.com");
      if (path !== `${BASE}/ops/deliveries`) expect(read, path).toContain("…@example.com");
    }
    expect(JSON.stringify(api.logged)).not.toContain(LOGIN.pass);
  });

  test("takes the place of an address, and gives it back", async () => {
    await write();
    const body = { url: receiver.url, notifications: ["run.failed" as const] };
    await client.call("updateWebhook", { ...at("ops"), body });
    const shown = await client.call("getWebhook", at("ops"));
    expect(shown).toMatchObject({ url: receiver.url, has_secret: false });
    expect(shown).not.toHaveProperty("email");
    const back = { email: { to: TO }, notifications: body.notifications };
    await client.call("updateWebhook", { ...at("ops"), body: back });
    expect(await client.call("getWebhook", at("ops"))).toMatchObject({ email: { to: TO } });
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
    const outlets = { allowedHosts: [receiver.host], mail: null };
    return new NotificationSender({ store, engine, outlets, warn });
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
    const { url = "", notifications } = shown;
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
