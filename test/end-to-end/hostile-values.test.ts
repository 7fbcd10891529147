import { afterEach, describe, expect, test } from "vitest";
import { connectWorker } from "../../src/client/worker-connection.ts";
import { HeadReportRequest, ProbeResult } from "../../src/work/probe-protocol.ts";
import { ReportedResult } from "../../src/work/run/protocol.ts";
import type { ClaimedSegment } from "../../src/work/sync/segment-protocol.ts";
import { asset } from "../../src/define/asset.ts";
import { definePawl } from "../../src/define/define-pawl.ts";
import { staticPartitions } from "../../src/define/partitions.ts";
import { sensor } from "../../src/define/sensor.ts";
import type { SyncOptions } from "../../src/define/sync.ts";
import type { Materialize, TaskContext } from "../../src/define/automation-context.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { startApi } from "./api-server.ts";
import {
  explosiveProxy,
  HOSTILE_RETURNS,
  HOSTILE_THROWS,
  revoked,
  thenable,
} from "./hostile-values.ts";
import { stopWorkers, tasks, work, workOnSync, workWithSensors } from "./started-worker.ts";
import { WorkServer } from "./work-server.ts";

// Goal: whatever user code throws or returns, its attempt ends with an error of plain text, and no
// other work of the worker suffers. Method: every kind of function gets every value of one list.

afterEach(stopWorkers);

const boom = (): never => {
  throw new Error("boom of a getter");
};

/** What goes over the wire for a value; throws where it is not what the protocol allows. */
const wired = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;

/** The results of tasks that ran one after the other, in the order of the functions. */
async function resultsOf(functions: readonly Materialize[], batch = false) {
  const server = new WorkServer();
  for (const _each of functions) {
    server.add({ asset_key: "orders", batch, tasks: batch ? [["a", "b"]] : tasks(1) });
  }
  let count = 0;
  work(server, (context) => functions[count++]?.(context));
  await server.until(() => server.results.length === functions.length);
  const results = server.results.toSorted((one, other) => one.run_pos - other.run_pos);
  return {
    server,
    results: results.map(({ answer: _answer, ...result }) => ReportedResult.parse(wired(result))),
  };
}

function expectReadable(message: string | undefined, says: RegExp, name: string): void {
  expect(message, name).toMatch(says);
  expect(message?.length, name).toBeLessThanOrEqual(2_000);
  expect(message?.isWellFormed(), name).toBe(true);
}

describe("a task", () => {
  test("I79: ends readably whatever it throws", async () => {
    const { results } = await resultsOf(
      HOSTILE_THROWS.map(({ thrown }) => () => {
        throw thrown();
      }),
    );

    for (const [at, { name, says }] of HOSTILE_THROWS.entries()) {
      expect(results[at]?.outcome, name).toBe("FAILED");
      expectReadable(results[at]?.error?.message, says, name);
    }
  });

  test("I79: ends readably whatever its promise is rejected with", async () => {
    const { results } = await resultsOf(
      HOSTILE_THROWS.map(
        ({ thrown }) =>
          () =>
            Promise.reject(thrown()),
      ),
    );

    for (const [at, { name, says }] of HOSTILE_THROWS.entries()) {
      expectReadable(results[at]?.error?.message, says, name);
    }
  });

  test("I79: ends readably whatever it returns", async () => {
    const { results } = await resultsOf(
      HOSTILE_RETURNS.map(
        ({ returned }) =>
          () =>
            returned() as undefined,
      ),
    );

    for (const [at, { name, says }] of HOSTILE_RETURNS.entries()) {
      expect(results[at]?.outcome, name).toBe("FAILED");
      expectReadable(results[at]?.error?.message, says, name);
    }
  });

  test("I79: succeeds without metadata that cannot be kept, and says so", async () => {
    const ring: Record<string, unknown> = {};
    ring["self"] = ring;
    const odd: unknown[] = [
      { rows: 1n },
      ring,
      { run: boom },
      { at: Symbol("x") },
      { n: Number.NaN },
    ];
    const { results, server } = await resultsOf(
      odd.map((metadata) => () => ({ metadata }) as never),
    );

    expect(results.map(({ outcome, metadata }) => [outcome, metadata])).toEqual(
      odd.map(() => ["SUCCEEDED", undefined]),
    );
    const said = server.lines.filter(({ message }) =>
      message.startsWith("The metadata is not kept"),
    );
    expect(said.length).toBe(odd.length);
  });

  test("I79: keeps the facts that can be kept beside those that cannot, and says which", async () => {
    const metadata = { rows: 5, big: 1n, at: new Date(0) };
    const { results, server } = await resultsOf([() => ({ metadata })]);
    expect(results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      metadata: { rows: 5, at: "1970-01-01T00:00:00.000Z" },
    });
    const said = server.lines.filter(({ message }) => message.startsWith("A fact of the metadata"));
    expect(said).toMatchObject([
      {
        message: 'A fact of the metadata is not kept: "big": a bigint cannot be written as JSON.',
        fields: { level: "warn" },
      },
    ]);
  });

  test("I79: keeps metadata as it was when the function returned", async () => {
    const metadata = { at: new Date(0), rows: [1], more: undefined };
    const { results } = await resultsOf([
      () => {
        queueMicrotask(() => Object.defineProperty(metadata, "rows", { get: boom }));
        return { metadata };
      },
    ]);

    expect(results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      metadata: { at: "1970-01-01T00:00:00.000Z", rows: [1] },
    });
  });

  test("I79: ends readably whatever it says while it runs", async () => {
    const odd: unknown[] = [
      Symbol("x"),
      1n,
      null,
      explosiveProxy({}),
      revoked({}),
      { toJSON: boom, toString: boom },
      { slice: () => ({ toWellFormed: () => boom }) },
      boom,
      "x".repeat(30_000_000),
    ];
    const says: ((context: TaskContext, value: never) => unknown)[] = [
      (context, value) => context.log(value),
      (context, value) => context.log("fields", value),
      (context, value) => context.log("fields", { value }),
      (context, value) => context.progress(value, value),
      (context, value) => context.progress(1, 2, value),
      (context, value) => context.checkpoint(value),
      (context, value) => context.partitionFailed("a", value),
      (context, value) => context.partitionSkipped("a", value),
      (context, value) => context.partitionFailed(value, new Error("x")),
    ];
    const functions = says.flatMap((say) =>
      odd.map((value) => async (context: TaskContext) => {
        await say(context, value as never);
      }),
    );
    const { results, server } = await resultsOf(functions, true);

    expect(results.length).toBe(functions.length);
    for (const { outcome, error, exceptions = [] } of results) {
      if (outcome !== "SUCCEEDED") expectReadable(error?.message, /./, "said");
      for (const each of exceptions) expectReadable(each.error?.message, /./, "exception");
    }
    for (const { message } of server.lines) expect(message.length).toBeLessThanOrEqual(10_000);
  });

  test("I79: ends on a real server with the words of what was thrown or returned", async () => {
    const functions: [string, Materialize, RegExp][] = [
      ...HOSTILE_THROWS.map(({ name, thrown, says }): [string, Materialize, RegExp] => [
        name,
        () => {
          throw thrown();
        },
        says,
      ]),
      ...HOSTILE_RETURNS.map(({ name, returned, says }): [string, Materialize, RegExp] => [
        name,
        () => returned() as undefined,
        says,
      ]),
    ];
    const byName = new Map(functions.map(([name, materialize]) => [name, materialize]));
    const odd = asset("odd", {
      partitions: staticPartitions([...byName.keys()]),
      retry: { maxAttempts: 1 },
      materialize: (context) => byName.get(context.partition)?.(context),
    });
    const project = definePawl({ assets: [odd] });
    const api = await startApi();
    const controller = new AbortController();
    const connection = connectWorker({ url: api.url });
    const { client } = api;
    await client.call("publishDefinitions", {
      body: { specs: [...project.specs], origin: "code" },
    });
    const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
    const ended = runWorker({
      connection,
      project,
      workerId: "worker",
      codeVersion: null,
      logger: quiet,
      signal: controller.signal,
    });
    const { run_id } = await client.call("requestRun", {
      body: { assets: ["odd"], partition_keys: [...byName.keys()] },
    });
    for await (const _event of client.follow({})) {
      const { state } = await client.call("getRun", { params: { run_id } });
      if (state === "FAILED" || state === "SUCCEEDED") break;
    }
    const query = { limit: 200 };
    const { items } = await client.call("listTasks", { params: { run_id }, query });
    controller.abort();
    await ended;
    connection.close();
    await api.close();

    const messages = new Map(items.map((task) => [task.partition_keys?.[0], task]));
    for (const [name, , says] of functions) {
      expect(messages.get(name)?.state, name).toBe("FAILED");
      expectReadable(messages.get(name)?.error?.message, says, name);
    }
  });
});

const SEGMENT: ClaimedSegment = {
  sync_id: "sync_1",
  sync: "blocks",
  target: { chain: "main" },
  source: "main",
  segment_index: 0,
  generation: 0,
  purpose: "fetch",
  from_block: 5,
  to_block: 5,
  last_processed_block: null,
  undo: false,
  is_live: false,
  splittable: false,
  was_quarantined: false,
  quarantine_after: 2,
  request_size: null,
  requests_per_second: null,
};

/** What came of segments of one block each: the one at 0, the one at 1 and so on. */
async function segmentsWith(count: number, functions: Partial<SyncOptions>) {
  const server = new WorkServer();
  for (let block = 0; block < count; block++) {
    const segment = { ...SEGMENT, segment_index: block, from_block: block, to_block: block };
    server.add({ asset_key: "sync:blocks", tasks: tasks(1), segment });
  }
  workOnSync(server, functions);
  await server.until(() => server.results.length === count);
  const results = server.results.toSorted((one, other) => one.run_pos - other.run_pos);
  return results.map(({ answer: _answer, ...result }) => ReportedResult.parse(wired(result)));
}

describe("a sync", () => {
  type Code = (block: number) => never;
  const parts: [string, (code: Code) => Partial<SyncOptions>][] = [
    ["fetch", (code) => ({ fetch: async ({ from }) => code(from) })],
    ["hash", (code) => ({ hash: async (block) => code(block) })],
    ["verify", (code) => ({ verify: async ({ from }) => code(from) })],
  ];

  test.each(parts)("I79: ends a segment readably whatever %s throws", async (_part, options) => {
    const fail = (block: number): never => {
      throw HOSTILE_THROWS[block]?.thrown();
    };
    const results = await segmentsWith(HOSTILE_THROWS.length, options(fail));

    for (const [at, { name, says }] of HOSTILE_THROWS.entries()) {
      expect(results[at]?.outcome, name).toBe("FAILED");
      expectReadable(results[at]?.error?.message, says, name);
    }
  });

  test.each(parts)("I79: ends a segment readably whatever %s answers", async (_part, options) => {
    const odd = [explosiveProxy({}), revoked({}), 1n, Symbol("x"), { rows: Symbol("x") }];
    const results = await segmentsWith(
      odd.length,
      options((block) => odd[block] as never),
    );

    for (const { outcome, error } of results) {
      if (outcome !== "SUCCEEDED") expectReadable(error?.message, /./, "answered");
    }
  });

  test("I79: ends a look at a head readably whatever head throws or answers", async () => {
    const bad = [
      explosiveProxy({}),
      revoked({}),
      Symbol("x"),
      { toString: boom },
      thenable({}, boom),
    ];
    const heads = [
      ...HOSTILE_THROWS.map(({ thrown }) => (): never => {
        throw thrown();
      }),
      ...bad.map((value) => () => value as never),
    ];
    const server = new WorkServer();
    for (const at of heads.keys()) {
      server.addHeads({
        probe_id: `head:blocks:${at}`,
        attempt: 7,
        sync: "blocks",
        source: `${at}`,
        target: { chain: "main" },
        finality: 10,
        timeout_ms: 60_000,
        anchors: [],
      });
    }
    workOnSync(server, { head: async ({ source }) => heads[Number(source)]?.() as never });
    await server.until(() => server.looks.length === heads.length);

    const { results } = HeadReportRequest.parse(wired({ worker_id: "w", results: server.looks }));
    for (const { outcome, source } of results) {
      expect(outcome.type).toBe("failed");
      const says = HOSTILE_THROWS[Number(source)]?.says ?? /./;
      if (outcome.type === "failed") expectReadable(outcome.error.message, says, source);
    }
  });
});

describe("a sensor", () => {
  test("I79: ends an evaluation readably whatever it throws, polled or pushed to", async () => {
    const message = {
      message_id: "m1",
      source: "webhook" as const,
      type: null,
      attributes: {},
      payload: null,
      published_at: null,
    };
    const server = new WorkServer();
    const sensors = HOSTILE_THROWS.flatMap(({ thrown }, at) => {
      const evaluate = (): never => {
        throw thrown();
      };
      return [sensor(`poll_${at}`, { evaluate }), sensor(`push_${at}`, { evaluate, push: true })];
    });
    workWithSensors(server, sensors);
    for (const at of HOSTILE_THROWS.keys()) {
      server.addProbes(
        { name: `poll_${at}` },
        { name: `push_${at}`, kind: "message", expected_state_version: null, message },
      );
    }
    await server.until(() => server.evaluations.length === sensors.length);

    for (const [at, { name, says }] of HOSTILE_THROWS.entries()) {
      for (const way of ["poll", "push"]) {
        const found = server.evaluations.find(({ probe_id }) => probe_id === `sensor:${way}_${at}`);
        const { outcome } = ProbeResult.parse(wired(found));
        expect(outcome.type, name).toBe("failed");
        if (outcome.type === "failed") expectReadable(outcome.error.message, says, name);
      }
    }
  });

  test("I79: ends an evaluation readably whatever it returns or asks for", async () => {
    const odd: unknown[] = [
      explosiveProxy({}),
      revoked({}),
      1n,
      Symbol("x"),
      { toJSON: boom, toString: boom },
    ];
    const server = new WorkServer();
    const sensors = odd.flatMap((value, at) => [
      sensor(`returns_${at}`, { evaluate: () => value as never }),
      sensor(`cursor_${at}`, { evaluate: () => ({ cursor: value }) as never }),
      sensor(`getter_${at}`, {
        evaluate: () => Object.defineProperty({}, "cursor", { get: boom }),
      }),
      sensor(`sets_${at}`, { evaluate: ({ setCursor }) => setCursor(value as never) }),
      sensor(`asks_${at}`, { evaluate: ({ request }) => request(value as never) }),
      sensor(`config_${at}`, {
        evaluate: ({ request }) => request({ assets: "orders", config: value as never }),
      }),
      sensor(`logs_${at}`, {
        evaluate({ log }) {
          log(value as never);
          log("fields", value as never);
          log("fields", { value } as never);
        },
      }),
    ]);
    workWithSensors(server, sensors);
    server.addProbes(...sensors.map(({ name }) => ({ name })));
    await server.until(() => server.evaluations.length === sensors.length);

    for (const evaluation of server.evaluations) {
      const { outcome, probe_id } = ProbeResult.parse(wired(evaluation));
      if (outcome.type === "failed") expectReadable(outcome.error.message, /./, probe_id);
      if (probe_id.startsWith("sensor:logs")) expect(outcome.type, probe_id).toBe("evaluated");
    }
  });

  test("I79: asks with what a configuration was when it asked, whatever becomes of it", async () => {
    const server = new WorkServer();
    const throwing = (): unknown => {
      let reads = 0;
      return Object.defineProperty({}, "rows", {
        enumerable: true,
        get: () => (reads++ === 0 ? 1 : boom()),
      });
    };
    const sensors = [
      sensor("throws_later", {
        evaluate: ({ request }) => request({ assets: "orders", config: throwing() as never }),
      }),
      sensor("changes", {
        evaluate({ request }) {
          const config = { rows: 0 };
          for (config.rows = 1; config.rows <= 3; config.rows++) {
            request({ assets: "orders", runKey: `k${config.rows}`, config });
          }
        },
      }),
    ];
    workWithSensors(server, sensors);
    server.addProbes(...sensors.map(({ name }) => ({ name })));
    await server.until(() => server.evaluations.length === sensors.length);

    const configs = server.evaluations.flatMap((evaluation) => {
      const { outcome } = ProbeResult.parse(wired(evaluation));
      return outcome.type === "evaluated" ? outcome.run_requests.map(({ config }) => config) : [];
    });
    const rows = configs.map((config) => (config as { rows: number }).rows);
    expect(rows.toSorted((a, b) => a - b)).toEqual([1, 1, 2, 3]);
  });
});
