import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import type { PushedMessages } from "../../src/work/sensor/api.ts";
import { newWebhookSecret, signWebhook } from "../../src/server/webhooks/signing.ts";
import { type Api, type ApiOptions, checkAnswer, publish, startApi } from "./api-server.ts";

const BASE = "/api/v1/orchestration/sensors";
const CLOCK_AT = "2026-03-01T09:30:00.000Z";
const NOW_SECONDS = Date.parse(CLOCK_AT) / 1_000;

const opened: Api[] = [];

async function open(options: ApiOptions = {}): Promise<Api> {
  const api = await startApi({ clockAt: CLOCK_AT, ...options });
  opened.push(api);
  return api;
}

afterEach(async () => {
  for (const api of opened.splice(0)) await api.close();
});

const UPLOADS: PartInput<"createSensor", "body"> = {
  name: "uploads",
  mode: "push",
  target: { asset_selection: ["report"], config: "{payload}" },
};

/** A server with a push sensor, and its secret where it has one. */
async function withSensor(options: ApiOptions & { secret?: boolean } = {}) {
  const api = await open(options);
  const client =
    options.tokensRequired === true ? await api.clientOf(0, ["read", "write"]) : api.client;
  await publish(client);
  const { sensor_id } = await client.call("createSensor", { body: UPLOADS });
  const made = options.secret === true ? await newSecret(client, sensor_id) : null;
  return { api, client, sensor_id, secret: made?.secret ?? "" };
}

function newSecret(client: Client, sensor_id: string, overlap_seconds?: number) {
  const body = overlap_seconds === undefined ? {} : { overlap_seconds };
  return client.call("createSensorSecret", { params: { sensor_id }, body });
}

type Sent = { status: number; body: PushedMessages & { code: string; detail: string } };

async function push(
  api: Api,
  sensor: string,
  body: string,
  headers: Record<string, string> = {},
  query = "",
): Promise<Sent> {
  const path = `${BASE}/${sensor}/messages`;
  const answer = await api.send("POST", path + query, { body, headers });
  const { status } = answer;
  if (status !== 200) await checkAnswer("POST", path, answer.clone());
  return { status, body: (await answer.json()) as Sent["body"] };
}

function signed(
  secret: string,
  id: string,
  body: string,
  timestampSeconds = NOW_SECONDS,
): Record<string, string> {
  const bytes = new TextEncoder().encode(body);
  return {
    "webhook-id": id,
    "webhook-timestamp": `${timestampSeconds}`,
    "webhook-signature": signWebhook({ id, timestampSeconds, body: bytes, secret }),
  };
}

function pubsub(messageId: string, data: unknown, attempt = 1): string {
  return JSON.stringify({
    message: {
      data: Buffer.from(JSON.stringify(data)).toString("base64"),
      attributes: { kind: "upload" },
      messageId,
      publishTime: "2026-03-01T09:29:00Z",
    },
    subscription: "projects/p/subscriptions/s",
    deliveryAttempt: attempt,
  });
}

describe("a message", () => {
  test("I25: is received once, answered once it is durable, and becomes one run", async () => {
    const { api, client, sensor_id } = await withSensor();
    const first = await push(api, "uploads", '{"n":1}', { "webhook-id": "m1" });
    expect(first).toMatchObject({
      status: 202,
      body: { sensor_id, received: 1, duplicates: 0, message_ids: ["m1"] },
    });
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    expect(pos).toBeGreaterThanOrEqual(first.body.accepted_pos);
    const again = await push(api, sensor_id, '{ "n": 1 }', { "webhook-id": "m1" });
    expect(again).toMatchObject({
      status: 200,
      body: { received: 0, duplicates: 1, accepted_event_id: null },
    });
    const other = await push(api, "uploads", '{"n":2}', { "webhook-id": "m1" });
    expect(other).toMatchObject({ status: 422, body: { code: "IDEMPOTENCY_KEY_REUSED" } });
    await client.call("tick");
    const { items } = await client.call("listRuns");
    expect(items).toMatchObject([{ config: { n: 1 } }]);
  });

  test("I25: delivered twenty times, five at once and after a restart, is one run", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pawl-push-"));
    try {
      const { api, secret, sensor_id } = await withSensor({ folder, secret: true });
      const deliver = async (to: Api, count: number): Promise<Sent[]> => {
        const sent: Sent[] = [];
        for (let round = 0; round < count; round += 5) {
          const five = Array.from({ length: 5 }, (_, index) => {
            const body = pubsub("msg-7", { n: 7 }, round + index);
            return push(to, sensor_id, body, {}, `?key=${encodeURIComponent(secret)}`);
          });
          sent.push(...(await Promise.all(five)));
        }
        return sent;
      };
      const before = await deliver(api, 10);
      expect(before.filter(({ status }) => status === 202)).toHaveLength(1);
      expect(before.filter(({ status }) => status === 200)).toHaveLength(9);
      await opened.pop()?.close();
      const second = await open({ folder });
      const after = await deliver(second, 10);
      expect(after.every(({ status }) => status === 200)).toBe(true);
      await second.client.call("tick");
      const params = { sensor_id };
      expect((await second.client.call("listRuns")).items).toHaveLength(1);
      expect((await second.client.call("listMessages", { params })).items).toHaveLength(1);
      await opened.pop()?.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("I25: is not acknowledged before it is in the ledger", async () => {
    const { api, client } = await withSensor();
    const { ws } = api.engines[0].workspace;
    const held = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const holding = api.store.transact(ws, () => {
      held.resolve();
      return released.promise;
    });
    await held.promise;
    let isAnswered = false;
    const pushed = push(api, "uploads", "{}", { "webhook-id": "m1" }).then((answer) => {
      isAnswered = true;
      return answer;
    });
    // Others are answered in the meantime: the server has read the message and waits for the ledger.
    for (let index = 0; index < 20; index++) await client.call("listRuns");
    expect(isAnswered).toBe(false);
    released.resolve();
    await holding;
    expect((await pushed).status).toBe(202);
  });

  test("is kept for a sensor that is paused, and evaluated when it acts again", async () => {
    const { api, client } = await withSensor();
    const params = { sensor_id: "uploads" };
    await client.call("pauseSensor", { params });
    expect((await push(api, "uploads", "{}", { "webhook-id": "m1" })).status).toBe(202);
    await client.call("tick");
    expect(await client.call("getSensor", { params })).toMatchObject({ messages_pending: 1 });
    expect((await client.call("listRuns")).items).toEqual([]);
    await client.call("resumeSensor", { params });
    await client.call("tick");
    expect((await client.call("listRuns")).items).toHaveLength(1);
  });

  test("comes as a push of Pub/Sub, or as CloudEvents: binary, structured and in batches", async () => {
    const { api, client } = await withSensor();
    expect((await push(api, "uploads", pubsub("p1", { a: 1 }))).status).toBe(202);
    const context = { specversion: "1.0", source: "/shop", type: "order.made" };
    const binary = await push(api, "uploads", '{"b":2}', {
      "ce-specversion": "1.0",
      "ce-id": "e1",
      "ce-source": "/shop",
      "ce-type": "order.made",
      "ce-region": "eu",
    });
    expect(binary).toMatchObject({ status: 202 });
    const event = { ...context, id: "e2", data: { c: 3 } };
    const structured = await push(api, "uploads", JSON.stringify(event), {
      "content-type": "application/cloudevents+json",
    });
    expect(structured).toMatchObject({ status: 202 });
    const batch = [event, { ...context, id: "e3", data: 4 }, { ...context, id: "e4", data: 5 }];
    const many = await push(api, "uploads", JSON.stringify(batch), {
      "content-type": "application/cloudevents-batch+json",
    });
    expect(many).toMatchObject({ status: 202, body: { received: 2, duplicates: 1 } });
    const { items } = await client.call("listEvents", {
      query: { types: "SensorMessageReceived" },
    });
    const correlations = items.slice(-2).map(({ correlation_id }) => correlation_id);
    expect(new Set(correlations)).toEqual(new Set([many.body.correlation_id]));
    expect(items[1]?.data).toMatchObject({ attributes: { region: "eu" }, source: "cloudevents" });
  });

  test("I61: that cannot be taken is refused with a sentence", async () => {
    const { api, client } = await withSensor();
    const files = { type: "files", folder: "/data" } as const;
    const body = { ...UPLOADS, name: "files", mode: "poll" as const, watch: files };
    await client.call("createSensor", { body });
    const id = { "webhook-id": "m1" };
    const json = { ...id, "content-type": "application/json" };
    const large = JSON.stringify({ text: "x".repeat(300_000) });
    const cases: [string, string, Record<string, string>, number, string][] = [
      ["uploads", "{}", {}, 400, "The message has no id"],
      ["uploads", "{", json, 400, "The body is not JSON"],
      ["uploads", "{}", { "webhook-id": "x".repeat(201) }, 400, "at most 200 characters"],
      ["uploads", large, id, 413, "300011 characters long"],
      ["uploads", "x".repeat(1_100_000), id, 413, "at most 1048576"],
      ["files", "{}", id, 400, "takes no messages"],
      ["none", "{}", id, 404, 'There is no sensor "none"'],
      ["uploads", '{"message":{}}', {}, 400, "messageId"],
    ];
    for (const [sensor, text, headers, status, sentence] of cases) {
      const answer = await push(api, sensor, text, headers);
      expect(answer.status, sentence).toBe(status);
      expect(answer.body.detail).toContain(sentence);
    }
    const unknown = await push(api, "uploads", "{}", id, "?token=1");
    expect(unknown).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
    const foreign = await push(api, "uploads", "{}", { ...id, "sec-fetch-site": "cross-site" });
    expect(foreign.status).toBe(403);
    expect(api.logged).toEqual([]);
  });

  test("I64: may come in parts without saying how long it is, but not be too long", async () => {
    const { api } = await withSensor();
    const send = (parts: readonly string[]): Promise<string> =>
      new Promise((resolve, reject) => {
        const { hostname, port } = new URL(api.url);
        const socket = connect(Number(port), hostname);
        let answer = "";
        socket.on("data", (part) => (answer += part.toString()));
        socket.on("close", () => resolve(answer.split("\r\n")[0] ?? ""));
        socket.on("error", reject);
        const head = [
          `POST ${BASE}/uploads/messages HTTP/1.1`,
          `Host: ${hostname}:${port}`,
          "Webhook-Id: parts",
          "Connection: close",
          "Transfer-Encoding: chunked",
        ];
        socket.write(`${head.join("\r\n")}\r\n\r\n`);
        for (const part of parts) socket.write(`${part.length.toString(16)}\r\n${part}\r\n`);
        socket.write("0\r\n\r\n");
      });
    expect(await send(['{"n"', ":1}"])).toContain("202");
    const big = "x".repeat(600_000);
    expect(await send([big, big])).toContain("413");
  });
});

test("I64: whoever pushes slowly, without having proved anything yet, keeps nobody out", async () => {
  const { api, client } = await withSensor({ limits: { strangerBodies: 1 } });
  const { hostname, port } = new URL(api.url);
  const socket = connect(Number(port), hostname);
  const head = [`POST ${BASE}/uploads/messages HTTP/1.1`, `Host: ${hostname}:${port}`];
  socket.write(`${[...head, "Webhook-Id: slow", "Content-Length: 2"].join("\r\n")}\r\n\r\n{`);
  const answered = new Promise((resolve) => socket.once("data", resolve));
  const message = (id: string) => push(api, "uploads", "{}", { "webhook-id": id });
  let sent = 0;
  let answer = "";
  void answered.then((text) => (answer = String(text)));
  await expect
    .poll(async () => {
      expect((await message(`quick-${sent++}`)).status).toBe(202);
      return answer;
    })
    .toContain("503");
  expect(answer).toContain("this one has been for longest");
  expect((await client.call("listSensors", {})).items).toHaveLength(1);
  socket.destroy();
});

describe("a secret", () => {
  test("lets in what is signed with it, and nothing else", async () => {
    const { api, client, secret, sensor_id } = await withSensor({ secret: true });
    expect(secret).toMatch(/^whsec_/);
    const shown = await client.call("getSensor", { params: { sensor_id } });
    expect(shown).toMatchObject({ has_secret: true });
    expect(JSON.stringify(shown)).not.toContain(secret);
    const body = '{"n":1}';
    expect((await push(api, "uploads", body, signed(secret, "m1", body))).status).toBe(202);
    const bad: Record<string, string>[] = [
      { "webhook-id": "m2" },
      signed(newWebhookSecret(), "m2", body),
      signed(secret, "m2", '{"n":2}'),
      { ...signed(secret, "m2", body), "webhook-id": "m3" },
      signed(secret, "m2", body, NOW_SECONDS - 301),
      signed(secret, "m2", body, NOW_SECONDS + 301),
      { ...signed(secret, "m2", body), "webhook-timestamp": "soon" },
      { "webhook-id": "m2", "webhook-signature": "v1,AAAA" },
    ];
    for (const headers of bad) {
      const refused = await push(api, "uploads", body, headers);
      expect(refused).toMatchObject({ status: 401, body: { code: "UNAUTHORIZED" } });
      expect(refused.body.detail).toContain("must be signed with its secret");
      expect(refused.body.detail).not.toContain(secret);
    }
    const params = { sensor_id };
    expect((await client.call("listMessages", { params })).items).toHaveLength(1);
  });

  test("I25: signs the id, so a replay with other headers is the same message", async () => {
    const { api, secret } = await withSensor({ secret: true });
    const headers = signed(secret, "m1", "{}");
    expect((await push(api, "uploads", "{}", headers)).status).toBe(202);
    expect((await push(api, "uploads", "{}", headers)).status).toBe(200);
    const disguised = {
      ...headers,
      "ce-specversion": "1.0",
      "ce-id": "new",
      "ce-source": "/x",
      "ce-type": "t",
    };
    expect((await push(api, "uploads", "{}", disguised)).status).toBe(200);
    api.jump(301_000);
    expect((await push(api, "uploads", "{}", headers)).status).toBe(401);
  });

  test("may stand in the URL for senders that cannot sign", async () => {
    const { api, secret } = await withSensor({ secret: true });
    const google = { authorization: "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln" };
    const key = `?key=${encodeURIComponent(secret)}`;
    expect((await push(api, "uploads", pubsub("p1", 1), google, key)).status).toBe(202);
    // Somebody who pastes the secret as it is gets its plus signs turned into spaces.
    const pasted = `?key=${secret}`;
    expect((await push(api, "uploads", pubsub("p2", 1), {}, pasted)).status).toBe(202);
    const wrong = await push(api, "uploads", pubsub("p3", 1), google, "?key=whsec_no");
    expect(wrong).toMatchObject({ status: 401 });
    expect(wrong.body.detail).toContain("The key in the URL is not");
    expect((await push(api, "uploads", pubsub("p3", 1), google)).status).toBe(401);
  });

  test("takes over from another: both are good for a while, or the old one ends at once", async () => {
    const { api, client, secret: first, sensor_id } = await withSensor({ secret: true });
    const send = async (secret: string, id: string) => {
      const seconds = Math.floor(Date.parse(await api.store.now()) / 1_000);
      return (await push(api, "uploads", "{}", signed(secret, id, "{}", seconds))).status;
    };
    const second = await newSecret(client, sensor_id, 3_600);
    expect(second.previous_expires_at).toBe("2026-03-01T10:30:00.000Z");
    expect(await send(first, "a")).toBe(202);
    expect(await send(second.secret, "b")).toBe(202);
    api.jump(3_600_000);
    expect(await send(first, "c")).toBe(401);
    expect(await send(second.secret, "c")).toBe(202);
    const third = await newSecret(client, sensor_id, 0);
    expect(await send(second.secret, "d")).toBe(401);
    expect(await send(third.secret, "d")).toBe(202);
    const fourth = await newSecret(client, sensor_id);
    expect(fourth.previous_expires_at).toBe("2026-03-02T10:30:00.000Z");
    const ledger = JSON.stringify((await client.call("listEvents", { query: {} })).items);
    for (const { secret } of [second, third, fourth]) expect(ledger).not.toContain(secret);
  });
});

describe("tokens", () => {
  test("let in those who may push or write, and nobody else where they are required", async () => {
    const { api, client, sensor_id } = await withSensor({ tokensRequired: true });
    const bearer = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` });
    const pusher = await api.clientOf(0, ["push"], "shop");
    const writer = await api.clientOf(0, ["write"]);
    const reader = await api.clientOf(0, ["read", "work", "admin"]);
    const first = await push(api, "uploads", "{}", { ...bearer(pusher), "webhook-id": "m1" });
    expect(first.status).toBe(202);
    const { items } = await client.call("listEvents", {
      query: { types: "SensorMessageReceived" },
    });
    expect(items[0]?.actor).toEqual({ principal: "shop", token_id: pusher.tokenId });
    const written = await push(api, sensor_id, "{}", { ...bearer(writer), "webhook-id": "m2" });
    expect(written.status).toBe(202);
    const refused = await push(api, "uploads", "{}", { ...bearer(reader), "webhook-id": "m3" });
    expect(refused).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    await expect(pusher.call("listRuns")).rejects.toMatchObject({ code: "FORBIDDEN" });
    const unknown = await push(api, "none", "{}", { ...bearer(pusher), "webhook-id": "m3" });
    expect(unknown.status).toBe(404);
    const none = await push(api, "uploads", "{}", { "webhook-id": "m3" });
    expect(none.status).toBe(401);
    const bad = await push(api, "uploads", "{}", { authorization: "Bearer pawl_x" });
    expect(bad.status).toBe(401);
  });

  test("I66: without one, a sensor that is not there is answered like one with a secret", async () => {
    const { api, client, sensor_id, secret } = await withSensor({
      workspaces: ["ours", "theirs"],
      tokensRequired: true,
      secret: true,
    });
    const forms: [Record<string, string>, string][] = [
      [{ "webhook-id": "m" }, ""],
      [{ "webhook-id": "m" }, "?key=whsec_no"],
      [signed(newWebhookSecret(), "m", "{}"), ""],
      [signed(newWebhookSecret(), "m", "{}", NOW_SECONDS - 1_000), ""],
    ];
    for (const [headers, query] of forms) {
      const there = await push(api, sensor_id, "{}", headers, query);
      const gone = await push(api, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{}", headers, query);
      expect(there.status).toBe(401);
      expect(gone.status).toBe(401);
      expect(gone.body.detail).toBe(there.body.detail);
    }
    expect((await push(api, sensor_id, "{}", signed(secret, "m", "{}"))).status).toBe(202);
    const other = await api.clientOf(1, ["push", "read"]);
    const headers = { authorization: `Bearer ${other.token}`, "webhook-id": "m" };
    expect((await push(api, sensor_id, "{}", headers)).status).toBe(404);
    expect((await client.call("listRuns")).items.length).toBeLessThanOrEqual(1);
  });

  test("I66: nobody without one reaches a sensor without a secret of another workspace", async () => {
    const api = await open({ workspaces: ["ours", "theirs"] });
    const theirs = await api.clientOf(1, ["read", "write"]);
    await publish(theirs);
    const { sensor_id } = await theirs.call("createSensor", { body: UPLOADS });
    expect((await push(api, sensor_id, "{}", { "webhook-id": "m" })).status).toBe(404);
    const { secret } = await newSecret(theirs, sensor_id);
    expect((await push(api, sensor_id, "{}", signed(secret, "m", "{}"))).status).toBe(202);
  });

  test("I66: no name in one workspace stands before the id of a sensor in another", async () => {
    const api = await open({ workspaces: ["ours", "theirs"], tokensRequired: true });
    const ours = await api.clientOf(0, ["read", "write"]);
    const theirs = await api.clientOf(1, ["read", "write"]);
    for (const client of [ours, theirs]) await publish(client);
    const { sensor_id } = await theirs.call("createSensor", { body: UPLOADS });
    const { secret } = await newSecret(theirs, sensor_id);
    const namesake = await ours.call("createSensor", { body: { ...UPLOADS, name: sensor_id } });
    expect((await push(api, sensor_id, "{}", signed(secret, "m", "{}"))).status).toBe(202);
    const { secret: own } = await newSecret(ours, namesake.sensor_id);
    expect((await push(api, namesake.sensor_id, "{}", signed(own, "m", "{}"))).status).toBe(202);
  });

  test("I66: are not needed to find the workspace of a sensor's id", async () => {
    const api = await open({ workspaces: ["ours", "theirs"], tokensRequired: true });
    const theirs = await api.clientOf(1, ["read", "write"]);
    await publish(theirs);
    const { sensor_id } = await theirs.call("createSensor", { body: UPLOADS });
    const { secret } = await newSecret(theirs, sensor_id);
    expect((await push(api, sensor_id, "{}", signed(secret, "m", "{}"))).status).toBe(202);
    const params = { sensor_id };
    const { items } = await theirs.call("listMessages", { params });
    const [message] = items;
    const digest = createHash("sha256")
      .update('{"attributes":{},"payload":{},"type":null}')
      .digest("hex");
    expect(message).toMatchObject({ message_id: "m", payload_digest: digest });
  });
});
