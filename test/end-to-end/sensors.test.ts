import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EventData } from "../../src/work/events.ts";
import { type ForkedWorker, forkWorker } from "../../src/worker/fork-worker.ts";
import { type Api, startApi } from "./api-server.ts";

const CONFIG = `
import { asset, daily, definePawl, materializationsOf, newFiles, sensor } from "pawl";

const days = daily({ start: "2025-01-01", end: "2025-02-01" });
const files = asset("files", { partitions: days, materialize: () => undefined });
const copies = asset("copies", { partitions: days, materialize: () => undefined });
const counts = asset("counts", { materialize: ({ config }) => ({ metadata: { n: config.n } }) });
const orders = asset("orders", { materialize: () => undefined });

export const project = definePawl({
  assets: [files, copies, counts, orders],
  sensors: [
    sensor("inbox", {
      watch: newFiles({ folder: process.env.INBOX, pattern: "*.csv", settleMs: 0 }),
      target: { assets: files, partition: "{stem}", config: { path: "{path}" } },
      minIntervalMs: 100,
    }),
    sensor("follow", {
      watch: materializationsOf(files),
      evaluate({ items, request }) {
        const partitions = items.map(({ partition_key }) => partition_key);
        request({ assets: copies, partitions });
      },
      minIntervalMs: 100,
    }),
    sensor("counter", {
      evaluate({ cursor, request }) {
        const n = Number(cursor ?? 0) + 1;
        if (n > 3) return;
        request({ assets: counts, config: { n } });
        return { cursor: String(n) };
      },
      minIntervalMs: 100,
    }),
    sensor("pushed", {
      push: true,
      evaluate({ message, request }) {
        if (message.payload.skip) return;
        request({ assets: orders, config: message.payload, labels: { from: message.message_id } });
      },
    }),
    sensor("broken", {
      evaluate() {
        throw new Error("The source is gone.");
      },
      minIntervalMs: 60_000,
    }),
  ],
});
`;

let api: Api;
let worker: ForkedWorker;
const folder = mkdtempSync(join(tmpdir(), "pawl-sensors-"));
const inbox = join(folder, "inbox");
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

beforeAll(async () => {
  mkdirSync(inbox);
  const configPath = join(folder, "pawl.config.ts");
  writeFileSync(configPath, CONFIG);
  api = await startApi();
  worker = await forkWorker({ configPath, logger: quiet, env: { ...process.env, INBOX: inbox } });
  const specs = [...worker.loaded.specs];
  await api.client.call("publishDefinitions", { body: { specs, origin: "code" } });
  worker.connect({ url: api.url });
});

afterAll(async () => {
  await worker.stop();
  await api.close();
  rmSync(folder, { recursive: true, force: true });
});

type Evaluated = EventData<"SensorEvaluated">;

async function sensorId(name: string): Promise<string> {
  return (await api.client.call("getSensor", { params: { sensor_id: name } })).sensor_id;
}

/** What a sensor asked for, as soon as it has asked for so many runs. */
async function requestsOf(name: string, count: number): Promise<Evaluated["run_requests"]> {
  const id = await sensorId(name);
  const requests: Evaluated["run_requests"] = [];
  for await (const { data } of api.client.follow({ types: ["SensorEvaluated"] })) {
    const { sensor_id, run_requests } = data;
    if (sensor_id === id) requests.push(...run_requests);
    if (requests.length >= count) break;
  }
  return requests;
}

/** Resolves when the runs have ended, with their outcomes. */
async function outcomesOf(runIds: readonly (string | null)[]): Promise<string[]> {
  const left = new Set(runIds);
  const outcomes: string[] = [];
  for await (const { data } of api.client.follow({ types: ["RunFinished"] })) {
    const { run_id, outcome } = data;
    if (left.delete(run_id)) outcomes.push(outcome);
    if (left.size === 0) break;
  }
  return outcomes;
}

/** Puts a file there at once, as those who feed an inbox should. */
function drop(name: string): void {
  writeFileSync(join(folder, name), "1");
  renameSync(join(folder, name), join(inbox, name));
}

describe("sensors of a project, on a real server and a worker in a process of its own", () => {
  test("ask for a run of each file as it comes, and for what follows from it", async () => {
    drop("2025-01-05.csv");
    const [first] = await requestsOf("inbox", 1);
    expect(first).toMatchObject({
      asset_selection: ["files"],
      partition_selection: ["2025-01-05"],
      outcome: "created",
    });

    drop("2025-01-03.csv");
    drop("notes.txt");
    const requests = await requestsOf("inbox", 2);
    expect(requests.map(({ partition_selection }) => partition_selection)).toEqual([
      ["2025-01-05"],
      ["2025-01-03"],
    ]);
    expect(await outcomesOf(requests.map(({ run_id }) => run_id))).toEqual([
      "SUCCEEDED",
      "SUCCEEDED",
    ]);

    const copied = new Set<string>();
    for (let count = 1; copied.size < 2; count++) {
      for (const { partition_selection } of await requestsOf("follow", count)) {
        for (const key of partition_selection ?? []) copied.add(key);
      }
    }
    expect(copied).toEqual(new Set(["2025-01-03", "2025-01-05"]));
  });

  test("move their cursor with the runs they ask for, and rest when there is nothing", async () => {
    const requests = await requestsOf("counter", 3);
    expect(await outcomesOf(requests.map(({ run_id }) => run_id))).toHaveLength(3);

    const params = { sensor_id: "counter" };
    const evaluated = await api.client.call("evaluateSensor", {
      params,
      body: { request_id: "by hand" },
    });
    const { items } = await api.client.call("listEvals", { params, query: {} });

    expect(evaluated).toMatchObject({ verdict: "unchanged", cursor_after: "3", run_requests: [] });
    expect(items.map(({ cursor_before, cursor_after }) => [cursor_before, cursor_after])).toEqual([
      ["2", "3"],
      ["1", "2"],
      [null, "1"],
    ]);
  });

  test("evaluate each message that is pushed once", async () => {
    const push = (id: string, body: object): Promise<Response> =>
      api.send("POST", "/api/v1/orchestration/sensors/pushed/messages", {
        body,
        headers: { "webhook-id": id },
      });

    expect((await push("m1", { order: 1 })).status).toBe(202);
    await push("m2", { skip: true });
    await push("m1", { order: 1 });
    await push("m3", { order: 3 });
    const requests = await requestsOf("pushed", 2);

    const id = await sensorId("pushed");
    expect(requests.map(({ run_key }) => run_key).toSorted()).toEqual(
      ["m1", "m3"].map((message) => `sensor:${id}:msg:${message}`),
    );
    expect(await outcomesOf(requests.map(({ run_id }) => run_id))).toHaveLength(2);
  });

  test("show why they fail", async () => {
    const params = { sensor_id: "broken" };
    for await (const { data } of api.client.follow({ types: ["SensorEvaluated"] })) {
      if (data.sensor_id === (await sensorId("broken"))) break;
    }

    expect(await api.client.call("getSensor", { params })).toMatchObject({
      state: "ERROR",
      error: { class: "user", message: "The source is gone." },
    });
  });
});
