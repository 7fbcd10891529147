import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import { machineEnvironment } from "../../src/engine/config.ts";
import { type App, createApp } from "../../src/server/http/app.ts";
import { NotificationSender } from "../../src/server/webhooks/sender.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import type { Store } from "../../src/store/store.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { publish, work } from "./api-server.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

/** One of several servers of a workspace, each with a connection of its own. */
type Server = {
  store: Store;
  engine: Engine;
  app: App;
  notifications: NotificationSender;
  client: Client;
};

let receiver: WebhookReceiver;
const servers: Server[] = [];

async function start(url: string): Promise<Server> {
  // The server of the tests may run without fsync.
  const store = await openPostgresStore({ url, unsafe: true });
  const environment = machineEnvironment(() => undefined);
  const engine = await Engine.open({
    store,
    tenantId: "default",
    workspaceId: "default",
    environment,
  });
  engine.start();
  const allowedHosts = [receiver.host];
  const warn = () => undefined;
  const outlets = { allowedHosts, mail: null };
  const notifications = new NotificationSender({ store, engine, outlets, warn });
  notifications.start();
  const app = createApp({
    engines: [engine],
    store,
    auth: { required: false },
    log: { error: () => undefined },
    version: "0.0.0",
    outlets,
    notifications: [notifications],
  });
  const fetch = (request: Request) => app.fetch(request);
  const client = createClient({ url: "http://127.0.0.1", fetch });
  return { store, engine, app, notifications, client };
}

beforeAll(async () => {
  receiver = await startReceiver();
  const url = await freshDatabaseUrl();
  servers.push(await start(url));
  servers.push(await start(url));
});

afterAll(async () => {
  for (const { app, notifications, engine, store } of servers) {
    app.stop();
    await notifications.stop();
    await engine.stop();
    await store.close();
  }
  await receiver.close();
});

function serverAt(index: number): Server {
  const server = servers[index % servers.length];
  if (server === undefined) throw new Error("There is no server.");
  return server;
}

describe("two servers on PostgreSQL", () => {
  test("I25: make one run of a message that both receive, five at a time", async () => {
    const { client } = serverAt(0);
    await publish(client);
    const target = { asset_selection: ["report"], config: "{payload}" };
    await client.call("createSensor", { body: { name: "uploads", mode: "push", target } });
    const deliver = async (index: number): Promise<number> => {
      const path = "/api/v1/orchestration/sensors/uploads/messages";
      const request = new Request(`http://127.0.0.1${path}`, {
        method: "POST",
        body: '{"n":1}',
        headers: { "webhook-id": "m1" },
      });
      return (await serverAt(index).app.fetch(request)).status;
    };
    const statuses: number[] = [];
    for (let round = 0; round < 4; round++) {
      const five = Array.from({ length: 5 }, (_, index) => deliver(round + index));
      statuses.push(...(await Promise.all(five)));
    }
    expect(statuses.filter((status) => status === 202)).toHaveLength(1);
    expect(statuses.filter((status) => status === 200)).toHaveLength(19);
    const runs = async () => (await serverAt(1).client.call("listRuns")).items.length;
    await expect.poll(runs).toBe(1);
    await work(serverAt(1).client, "SUCCEEDED");
    for (const { client: each } of servers) await each.call("tick");
    expect(await runs()).toBe(1);
  });

  test("tell a webhook of everything once, whichever of them recorded it", async () => {
    const { client } = serverAt(0);
    const body = { name: "alerts", url: receiver.url, notifications: ["run.failed" as const] };
    const { secret } = await client.call("createWebhook", { body });
    const ids: string[] = [];
    for (let index = 0; index < 10; index++) {
      const { client: each } = serverAt(index);
      const { run_id } = await each.call("requestRun", { body: { assets: ["report"] } });
      await expect.poll(() => work(serverAt(index + 1).client, "FAILED")).toBe(1);
      ids.push(run_id);
    }
    const got = await receiver.got(10);
    for (const { notifications } of servers) await notifications.settled();
    const told = receiver.received.map((each) => String(each.body.data["run_id"]));
    expect(told.toSorted()).toEqual(ids.toSorted());
    expect(got.every((each) => receiver.isSigned(each, [secret ?? ""], Date.now()))).toBe(true);
  });
});
