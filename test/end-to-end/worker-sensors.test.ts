import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Json } from "../../src/kernel/canonical.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { ProbeResult, SensorMessage } from "../../src/work/probe-protocol.ts";
import {
  materializationsOf,
  newFiles,
  newObjects,
  newRows,
  sensor,
  type SensorOptions,
} from "../../src/define/sensor.ts";
import { skip } from "../../src/define/errors.ts";
import { stopWorkers, tasks, work, workWithSensors } from "./started-worker.ts";
import { unreachable, WorkServer } from "./work-server.ts";

type Outcome = ProbeResult["outcome"];

afterEach(stopWorkers);
const folder = mkdtempSync(join(tmpdir(), "pawl-sensors-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const target = {
  asset_selection: ["orders"],
  partition_key: "{stem}",
  run_key: null,
  config: null,
};
const request = (more: object = {}) => ({
  asset_selection: ["orders"],
  partition_keys: null,
  run_key: null,
  config: null,
  labels: {},
  ...more,
});
const message = (payload: Json): SensorMessage => ({
  message_id: "m1",
  source: "webhook",
  type: null,
  attributes: {},
  payload,
  published_at: null,
});

/** What a worker makes of one evaluation. */
async function outcomeOf<Item>(
  options: SensorOptions<Item>,
  probe: Parameters<WorkServer["addProbes"]>[0] | object = {},
): Promise<Outcome | undefined> {
  const server = new WorkServer();
  const { stop } = workWithSensors(server, [sensor("s", options)], { abandonMs: 20 });
  server.addProbes({ name: "s", ...probe });
  await server.until(() => server.evaluations.length === 1);
  await stop();
  return server.evaluations[0]?.outcome;
}

describe("a sensor's function", () => {
  test("asks for runs and says where the next evaluation starts", async () => {
    const outcome = await outcomeOf(
      {
        evaluate({ sensor: name, cursor, request: ask, setCursor }) {
          ask({ assets: "orders" });
          ask({
            assets: ["orders"],
            partitions: ["a", "b"],
            runKey: `${name}:${cursor}`,
            config: { full: true },
            labels: { team: "sales" },
          });
          setCursor("8");
        },
      },
      { cursor: "7" },
    );

    expect(outcome).toEqual({
      type: "evaluated",
      cursor: "8",
      run_requests: [
        request(),
        request({
          partition_keys: ["a", "b"],
          run_key: "s:7",
          config: { full: true },
          labels: { team: "sales" },
        }),
      ],
    });
  });

  test("may return the cursor, move it to the start, or leave it", async () => {
    const evaluated = (cursor: string | null) => ({ type: "evaluated", cursor, run_requests: [] });
    const at7 = { cursor: "7" };

    expect(await outcomeOf({ evaluate: async () => ({ cursor: "9" }) }, at7)).toEqual(
      evaluated("9"),
    );
    expect(await outcomeOf({ evaluate: () => ({ cursor: null }) }, at7)).toEqual(evaluated(null));
    expect(await outcomeOf({ evaluate: () => undefined }, at7)).toEqual(evaluated("7"));
  });

  test("that skips asks for nothing, and is given the same again next time", async () => {
    const outcome = await outcomeOf(
      {
        evaluate({ request: ask, setCursor }) {
          ask({ assets: "orders" });
          setCursor("8");
          throw skip("The source is closed today.");
        },
      },
      { cursor: "7" },
    );

    expect(outcome).toEqual({ type: "evaluated", cursor: "7", run_requests: [] });
  });

  test("gets the message that was pushed, and has no cursor then", async () => {
    const pushed = { kind: "message", message: message({ day: "2025-01-01" }) };
    const probe = { ...pushed, expected_state_version: null };
    const outcome = await outcomeOf(
      {
        push: true,
        evaluate: ({ message: received, request: ask }) => {
          const { day } = (received as SensorMessage).payload as { day: string };
          ask({ assets: "orders", partition: day });
        },
      },
      probe,
    );
    const moved = await outcomeOf({ push: true, evaluate: () => ({ cursor: "1" }) }, probe);

    expect(outcome).toMatchObject({
      cursor: null,
      run_requests: [request({ partition_keys: ["2025-01-01"] })],
    });
    expect(moved).toMatchObject({ error: { message: expect.stringContaining("has no cursor") } });
  });

  test.each<[string, SensorOptions["evaluate"], RegExp]>([
    [
      "throws",
      () => {
        throw new TypeError("no such file");
      },
      /^user: TypeError: no such file/,
    ],
    [
      "cannot reach what it needs",
      () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" })),
      /^transient: refused/,
    ],
    ["asks for nothing", ({ request: ask }) => ask({ assets: [] }), /^user: request\(\) is not/],
    [
      "misspells an option",
      ({ request: ask }) => ask({ assets: "orders", run_key: "a" } as never),
      /Did you mean runKey\?/,
    ],
    [
      "asks for too much",
      ({ request: ask }) => {
        for (let at = 0; at <= 100; at++) ask({ assets: "orders" });
      },
      /more than 100 runs in one evaluation/,
    ],
    ["gives a cursor that is no text", () => ({ cursor: 5 as never }), /must be a text/],
    ["gives a cursor that is too long", () => ({ cursor: "x".repeat(100_001) }), /at most 100000/],
  ])("that %s fails with the reason", async (_name, evaluate, expected) => {
    const outcome = await outcomeOf({ evaluate: evaluate ?? (() => undefined) });

    expect(outcome?.type).toBe("failed");
    const { error } = outcome as Extract<Outcome, { type: "failed" }>;
    expect(`${error.class}: ${error.message}`).toMatch(expected);
  });

  test("that takes too long is told so, and given up when it does not hear", async () => {
    const expected = {
      type: "failed",
      error: { class: "timeout", message: expect.stringContaining("timeout of 5 ms") },
    };
    let reason: unknown;
    const heard = await outcomeOf(
      {
        evaluate: ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener("abort", () => {
              ({ reason } = signal);
              resolve();
            });
          }),
      },
      { timeout_ms: 5 },
    );
    const deaf = await outcomeOf(
      { evaluate: () => new Promise(() => undefined) },
      { timeout_ms: 5 },
    );

    expect(heard).toEqual(expected);
    expect(deaf).toEqual(expected);
    expect(reason).toMatchObject({ name: "TimeoutError" });
  });
});

describe("a watch", () => {
  test("is looked at on the worker, and its cursor moves by itself", async () => {
    writeFileSync(join(folder, "2025-01-01.csv"), "1");
    const watch = newFiles({ folder, pattern: "*.csv", settleMs: 0 });
    const outcome = await outcomeOf(
      {
        watch,
        evaluate: ({ items, request: ask }) => {
          for (const { stem } of items) ask({ assets: "orders", partition: stem });
        },
      },
      { watch: watch.spec },
    );
    const { cursor } = outcome as Extract<Outcome, { type: "evaluated" }>;
    let calls = 0;
    const again = await outcomeOf(
      { watch, evaluate: () => void calls++ },
      { watch: watch.spec, cursor },
    );

    expect(outcome).toMatchObject({
      run_requests: [request({ partition_keys: ["2025-01-01"] })],
    });
    expect(again).toEqual({ type: "evaluated", cursor, run_requests: [] });
    expect(calls).toBe(0);
  });

  test("with a target needs nothing of the project, which need not know the sensor", async () => {
    const server = new WorkServer();
    const environment = { SENSOR_ROWS: join(folder, "nowhere.db"), SENSOR_FOLDERS: folder };
    workWithSensors(server, [], { environment });
    const files = newFiles({ folder, pattern: "*.csv", settleMs: 0 }).spec;
    const rows = newRows({ databaseEnv: "SENSOR_ROWS", table: "a", watermark: "id" }).spec;
    server.addProbes(
      { name: "files", watch: files, target },
      { name: "rows", watch: rows, target },
      { name: "gone", watch: { ...files, folder: join(folder, "nope") } as never, target },
      {
        name: "pushed",
        kind: "message",
        message: message({ day: "monday" }),
        target: {
          ...target,
          partition_key: "{payload.day}",
        },
      },
      { name: "code" },
    );
    await server.until(() => server.evaluations.length === 5);

    const outcomes = new Map(
      server.evaluations.map(({ probe_id, outcome }) => [probe_id.slice(7), outcome]),
    );
    expect(server.probeClaims[0]?.sensors).toEqual([]);
    expect(outcomes.get("files")).toMatchObject({
      run_requests: [request({ partition_keys: ["2025-01-01"] })],
    });
    expect(outcomes.get("pushed")).toMatchObject({
      run_requests: [request({ partition_keys: ["monday"] })],
    });
    for (const [name, text] of [
      ["rows", "cannot be read"],
      ["gone", "There is no folder"],
      ["code", "has no function for the sensor code"],
    ] as const) {
      expect(outcomes.get(name)).toMatchObject({
        type: "failed",
        error: { message: expect.stringContaining(text) },
      });
    }
  });

  test("finds no more than may each ask for a run", async () => {
    const watch = newObjects({
      list: () => ["a", "b", "c"].map((key) => ({ key, size: 1, modifiedAt: 0 })),
    });
    const found: string[] = [];
    const outcome = await outcomeOf(
      { watch, evaluate: ({ items }) => void found.push(...items.map(({ key }) => key)) },
      { watch: watch.spec, max_run_requests: 2 },
    );

    expect(found).toEqual(["a", "b"]);
    expect(outcome).toMatchObject({ type: "evaluated" });
  });

  test("of the ledger takes what the server found there", async () => {
    const watch = materializationsOf("orders");
    const found = { items: [{ partition_key: "a" }], cursor: "after" };
    const outcome = await outcomeOf(
      {
        watch,
        evaluate: ({ items, request: ask }) => {
          for (const { partition_key } of items) {
            ask({ assets: "orders", partition: partition_key ?? "" });
          }
        },
      },
      { watch: watch.spec, found },
    );

    expect(outcome).toEqual({
      type: "evaluated",
      cursor: "after",
      run_requests: [request({ partition_keys: ["a"] })],
    });
  });
});

describe("a worker's sensors", () => {
  test("I37: have the lease of a look renewed for as long as it goes on", async () => {
    const server = new WorkServer({ ttlMs: 6_000 });
    const beats = () => server.heartbeats.filter(({ looks = [] }) => looks.length > 0);
    const slow = sensor("s", { evaluate: () => server.until(() => beats().length > 0) });
    const { stop } = workWithSensors(server, [slow]);
    server.addProbes({ name: "s" });
    await server.until(() => server.evaluations.length === 1);
    await stop();
    const look = { probe_id: "sensor:s", attempt: 1 };
    expect(server.evaluations).toMatchObject([{ ...look, outcome: { type: "evaluated" } }]);
    expect(beats()[0]?.looks).toEqual([look]);
  });

  test("are evaluated one after the other for each, and eight at once", async () => {
    const server = new WorkServer();
    let running = 0;
    let most = 0;
    const busy = new Set<string>();
    const names = Array.from({ length: 10 }, (_, at) => `s${at}`);
    const evaluate: SensorOptions["evaluate"] = async ({ sensor: name }) => {
      expect(busy.has(name)).toBe(false);
      busy.add(name);
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running--;
      busy.delete(name);
    };
    server.addProbes(
      ...names.flatMap((name) => [
        { name, probe_id: `${name}:1` },
        { name, probe_id: `${name}:2` },
        { name, probe_id: `${name}:3` },
      ]),
    );
    workWithSensors(
      server,
      names.map((name) => sensor(name, { evaluate })),
    );
    await server.until(() => server.evaluations.length === 30);

    expect(server.evaluations.every(({ outcome }) => outcome.type === "evaluated")).toBe(true);
    expect(new Set(server.evaluations.map(({ probe_id }) => probe_id)).size).toBe(30);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(8);
  });

  test("cost one waiting claim and nothing else while nothing is due", async () => {
    const server = new WorkServer();
    const { stop } = work(server, () => undefined);
    await server.until(() => server.claims.length === 1 && server.probeClaims.length === 1);
    server.add({ asset_key: "orders", tasks: tasks(50) });
    await server.until(() => server.results.length === 50);
    await stop();

    expect(server.probeClaims).toEqual([
      { worker_id: "worker", sensors: [], slots: 16, wait_ms: 20_000 },
    ]);
  });

  test("wait for a server that is away, and say again what it may not have heard", async () => {
    const server = new WorkServer();
    let lost = 2;
    server.after = (said) => {
      if (said === "probes/report" && lost-- > 0) unreachable();
    };
    let away = 2;
    server.before = (said) => {
      if (said === "probes/claim" && away-- > 0) unreachable();
    };
    server.addProbes({ name: "s" });
    workWithSensors(server, [sensor("s", { evaluate: () => undefined })]);
    await server.until(() => server.evaluations.length === 3);

    expect(new Set(server.evaluations.map(({ probe_id }) => probe_id)).size).toBe(1);
  });

  test("are reported as failed when the server refuses what came of them", async () => {
    const server = new WorkServer();
    let refusals = 1;
    server.before = (said) => {
      if (said === "probes/report" && refusals-- > 0) {
        throw new PawlError("INPUT_INVALID", "That is too much.");
      }
    };
    server.addProbes({ name: "s" });
    workWithSensors(server, [sensor("s", { evaluate: () => undefined })]);
    await server.until(() => server.evaluations.length === 1);

    expect(server.evaluations[0]?.outcome).toEqual({
      type: "failed",
      error: { class: "input", message: "The server refused the result: That is too much." },
    });
  });

  test("I65: may finish when the worker stops, and are given back when they do not", async () => {
    const server = new WorkServer();
    let abortedWith: unknown;
    const begun: string[] = [];
    const { stop } = workWithSensors(
      server,
      [
        sensor("short", {
          evaluate: ({ sensor: name }) => {
            begun.push(name);
            return new Promise((resolve) => setTimeout(resolve, 5));
          },
        }),
        sensor("long", {
          evaluate: ({ sensor: name, signal }) => {
            begun.push(name);
            return new Promise((resolve) => {
              signal.addEventListener("abort", () => {
                abortedWith = signal.reason;
                resolve();
              });
            });
          },
        }),
      ],
      { stopGraceMs: 50 },
    );
    server.addProbes({ name: "short" }, { name: "long" });
    await server.until(() => server.probeClaims.length === 2);
    await stop();

    expect(begun).toEqual(["short", "long"]);
    expect(server.evaluations).toMatchObject([
      { probe_id: "sensor:short", outcome: { type: "evaluated" } },
      { probe_id: "sensor:long", outcome: { type: "released" } },
    ]);
    expect(abortedWith).toMatchObject({ name: "AbortError" });
  });

  test("are left alone with a server that knows none, and end the worker with one that refuses it", async () => {
    const older = new WorkServer();
    older.before = (said) => {
      if (said === "probes/claim") throw new PawlError("ROUTE_NOT_FOUND", "There is no such path.");
    };
    older.add({ asset_key: "orders", tasks: tasks(3) });
    work(older, () => undefined);
    await older.until(() => older.results.length === 3);

    const strict = new WorkServer();
    strict.before = (said) => {
      if (said === "probes/claim") throw new PawlError("UNAUTHORIZED", "The token is revoked.");
    };
    const { ended } = work(strict, () => undefined);
    await expect(ended).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  });
});
