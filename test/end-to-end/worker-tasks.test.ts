import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { PawlError } from "../../src/kernel/errors.ts";
import { asset } from "../../src/define/asset.ts";
import { definePawl } from "../../src/define/define-pawl.ts";
import { daily, staticPartitions } from "../../src/define/partitions.ts";
import { doNotRetry, retryAfter, skip } from "../../src/define/errors.ts";
import { connectWorker, type WorkerConnection } from "../../src/client/worker-connection.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { startApi } from "./api-server.ts";
import { stopWorkers, tasks, work } from "./started-worker.ts";
import { unreachable, WorkServer } from "./work-server.ts";

afterEach(stopWorkers);

describe("a task", () => {
  test("says how each kind of failure is to be treated", async () => {
    const server = new WorkServer();
    const failures: unknown[] = [
      new Error("x".repeat(5_000)),
      doNotRetry("No use."),
      retryAfter(1_234, "Busy."),
      skip("Nothing there."),
      Object.assign(new Error("reset"), { code: "ECONNRESET" }),
      "just text",
    ];
    server.add({ asset_key: "orders", tasks: tasks(failures.length) });
    let count = 0;
    work(server, () => {
      throw failures[count++];
    });
    await server.until(() => server.results.length === failures.length);

    const [long, ...others] = server.results;
    expect(long?.error?.class).toBe("user");
    expect(long?.error?.message.length).toBe(2_000);
    expect(others).toMatchObject([
      { outcome: "FAILED", error: { class: "user", message: "No use." }, final: true },
      { outcome: "FAILED", error: { class: "transient" }, retry_after_ms: 1_234 },
      { outcome: "SKIPPED", error: { message: "Nothing there." } },
      { outcome: "FAILED", error: { class: "transient", message: "reset" } },
      { outcome: "FAILED", error: { class: "user", message: "just text" } },
    ]);
  });

  test("fails a task of an asset that its code does not have", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "unknown/asset", tasks: tasks(1) });
    work(server, () => undefined);
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "FAILED", error: { class: "input" } });
    expect(server.results[0]?.error?.message).toContain("does not define the asset unknown/asset");
  });

  test("tells the function its partitions, values, window and config", async () => {
    const server = new WorkServer();
    const partitions = daily({ start: "2025-03-29", timeZone: "Europe/Berlin" });
    server.add({
      asset_key: "orders",
      batch: true,
      config: { full: true },
      tasks: [["2025-03-30", "2025-03-29"]],
    });
    let seen: object = {};
    work(
      server,
      ({ asset: name, partition, partitions: all, values, window, config, attempt }) => {
        seen = { name, partition, all, values, window, config, attempt };
      },
      { partitions, batch: true },
    );
    await server.until(() => server.results.length === 1);

    expect(seen).toEqual({
      name: "orders",
      partition: "2025-03-30",
      all: ["2025-03-30", "2025-03-29"],
      values: { partition: "2025-03-30" },
      // The day on which the clocks go forward has 23 hours.
      window: { start: "2025-03-28T23:00:00.000Z", end: "2025-03-30T22:00:00.000Z" },
      config: { full: true },
      attempt: 1,
    });
  });

  test("fails a partition that its code does not know", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: [["2025-13-01"]] });
    work(server, () => undefined, { partitions: daily({ start: "2025-01-01" }) });
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "FAILED", error: { class: "input" } });
  });

  test("reports the partitions of a batch that ended otherwise, by their place", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", batch: true, tasks: [["a", "b", "c", "d"]] });
    work(server, (context) => {
      context.partitionSkipped("d", "Empty.");
      context.partitionFailed("b", new Error("Broken."));
    });
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      exceptions: [
        { index: 1, outcome: "FAILED", error: { message: "Broken." } },
        { index: 3, outcome: "SKIPPED", error: { message: "Empty." } },
      ],
    });
  });

  test("keeps checkpoints for the next attempt, and refuses those of an old one", async () => {
    const server = new WorkServer({ ttlMs: 60_000 });
    server.add({ asset_key: "orders", tasks: tasks(1) });
    const seen: unknown[] = [];
    const refusals: unknown[] = [];
    work(server, async (context) => {
      seen.push(context.lastCheckpoint);
      if (context.attempt > 1) return;
      const value = { offset: 1 };
      const kept = context.checkpoint(value);
      value.offset = 2;
      await kept;
      await context.checkpoint({ offset: 10 });
      // The lease is taken away behind the task's back.
      await server.report({
        worker_id: "operator",
        code_version: null,
        results: [{ run_pos: 1, task_key: 0, attempt: 1, outcome: "FAILED", released: true }],
        released_leases: [],
      });
      await context.checkpoint({ offset: 11 }).catch((error: unknown) => refusals.push(error));
      refusals.push(context.signal.aborted);
    });
    await server.until(() => server.results.some(({ attempt }) => attempt === 2));

    expect(seen).toEqual([null, { offset: 10 }]);
    expect(refusals).toMatchObject([{ code: "LEASE_LOST" }, true]);
    expect(server.results.map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test("delivers log lines before the end of their task", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(1) });
    work(server, (context) => {
      for (let line = 0; line < 1_000; line++) context.log(`line ${line}`, { line });
      context.log("odd", { big: 1n } as never);
    });
    await server.until(() => server.results.length === 1);

    expect(server.lines.length).toBe(1_001);
    expect(server.lines[999]).toMatchObject({ message: "line 999", fields: { line: 999 } });
    expect(server.lines[1_000]).toMatchObject({ message: "odd" });
  });

  test("is reported while another one logs without end", async () => {
    const server = new WorkServer();
    // So that there is always a line that waits.
    server.after = (message) => (message === "log" ? sleep(5) : undefined);
    server.add({ asset_key: "orders", tasks: [["talks"], ["ends"]] });
    let wasReported = false;
    work(
      server,
      async (context) => {
        if (context.partition === "ends") return;
        for (let round = 0; round < 5_000 && !wasReported; round++) {
          for (let line = 0; line < 100; line++) context.log("and another");
          await sleep(1);
          wasReported = server.results.length > 0;
        }
      },
      { partitions: staticPartitions(["talks", "ends"]) },
    );
    await server.until(() => server.results.length === 2);

    expect(wasReported).toBe(true);
    expect(server.results).toMatchObject([{ task_key: 1 }, { task_key: 0 }]);
  });

  test("loses no line to another one that logs more than can be sent, which is told of its own", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: [["talks"], ["fails"]] });
    work(
      server,
      (context) => {
        const { partition } = context;
        const lines = partition === "talks" ? 50_000 : 3;
        for (let line = 0; line < lines; line++) context.log(`${partition} ${line}`);
      },
      { partitions: staticPartitions(["talks", "fails"]) },
    );
    await server.until(() => server.results.length === 2);

    const saidBy = (task: number) =>
      server.lines.filter(({ task_key }) => task_key === task).map(({ message }) => message);
    expect(saidBy(1)).toEqual(["fails 0", "fails 1", "fails 2"]);
    const talk = saidBy(0);
    const kept = talk.length - 1;
    expect(kept).toBeGreaterThan(1_000);
    expect(talk.at(-1)).toBe(
      `${50_000 - kept} lines were dropped here: more came than could be sent.`,
    );
  });

  test("replaces a result that the server finds invalid, and delivers all others", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(8) });
    const report = server.report.bind(server);
    server.report = (request) => {
      if (request.results.some(({ metadata }) => metadata !== undefined)) {
        return Promise.reject(new PawlError("INPUT_INVALID", "No metadata today."));
      }
      return report(request);
    };
    let count = 0;
    work(server, () => (count++ === 5 ? { metadata: { rows: 1 } } : undefined));
    await server.until(() => server.results.length === 8);

    const failed = server.results.filter(({ outcome }) => outcome === "FAILED");
    expect(failed).toMatchObject([{ task_key: 5, error: { class: "input" } }]);
  });
});

describe("a claim that goes with a report", () => {
  // So long that nothing is held ahead.
  const TASK_MS = 120;
  const COUNT = 8;
  const numbers = Array.from({ length: COUNT }, (_, at) => `n${at}`);

  /** Runs tasks on a real server, and answers what reports asked for and what became of the tasks. */
  async function run(loses: (report: number) => boolean, { stopsAt = 0, losesAfterMs = 0 } = {}) {
    const slow = asset("work", {
      partitions: staticPartitions(numbers),
      materialize: () => sleep(TASK_MS),
    });
    const project = definePawl({ assets: [slow] });
    const api = await startApi();
    const { client } = api;
    const body = { specs: [...project.specs], origin: "code" as const };
    await client.call("publishDefinitions", { body });
    const real = connectWorker({ url: api.url });
    let claims = 0;
    let beats = 0;
    const along: number[] = [];
    const controller = new AbortController();
    const connection: WorkerConnection = {
      ...real,
      address: null,
      heartbeat: (request) => {
        beats++;
        return real.heartbeat(request);
      },
      claim: (request, signal) => {
        if (request.assets.includes("work")) claims++;
        return real.claim(request, signal);
      },
      report: async (request) => {
        const answer = await real.report(request);
        const groups = answer.claimed?.groups ?? [];
        along.push(groups.reduce((sum, { tasks: got }) => sum + got.length, 0));
        if (along.length === stopsAt) controller.abort();
        if (!loses(along.length)) return answer;
        await sleep(losesAfterMs);
        throw new PawlError("SERVER_UNREACHABLE", "The answer is lost.");
      },
    };
    const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
    const { signal } = controller;
    const named = { workerId: "worker", codeVersion: null, logger: quiet, signal };
    const ended = runWorker({ connection, project, ...named, concurrency: 1 });
    const { run_id } = await client.call("requestRun", {
      body: { assets: ["work"], partition_keys: numbers },
    });
    if (stopsAt === 0) {
      await expect
        .poll(async () => (await client.call("getRun", { params: { run_id } })).state)
        .toBe("SUCCEEDED");
      controller.abort();
    }
    await ended;
    const query = { limit: 100 };
    const { items } = await client.call("listTasks", { params: { run_id }, query });
    real.close();
    await api.close();
    const got = along.reduce((sum, count) => sum + count, 0);
    const attempts = items.map(({ attempt }) => attempt);
    return { claims, beats, got, attempts, states: items.map(({ state }) => state) };
  }

  test("brings the next task, so that only the first is claimed by itself", async () => {
    const { claims, beats, got, attempts } = await run(() => false);
    expect(attempts).toEqual(numbers.map(() => 1));
    expect(got).toBe(COUNT - 1);
    expect(beats).toBe(0);
    // The last one waits for what may come.
    expect(claims).toBeLessThanOrEqual(2);
  });

  test("I37: loses no task when its answer is lost", async () => {
    const { got, attempts } = await run((report) => report % 3 === 0);
    expect(attempts).toEqual(numbers.map(() => 1));
    expect(got).toBeGreaterThan(0);
  });

  test("I42: renews at once what it hears of late", async () => {
    // More than a sixth of a lease.
    const { beats, attempts } = await run((report) => report === 3, { losesAfterMs: 2_600 });
    expect(attempts).toEqual(numbers.map(() => 1));
    expect(beats).toBeGreaterThan(0);
  });

  test.each([0, 3])("I65: gives back what it got when the worker stops meanwhile", async (lost) => {
    const { got, states } = await run((report) => report === lost, { stopsAt: 3 });
    expect(got).toBe(3);
    expect(states.filter((state) => state === "SUCCEEDED")).toHaveLength(3);
    expect(states).not.toContain("RUNNING");
  });
});

test("I64: the error and its stack stand at the end of a log that reached its limit", async () => {
  const flood = asset("flood", {
    retry: { maxAttempts: 1 },
    materialize: (context) => {
      // More than a worker keeps waiting, and far more than the run's log has room for.
      for (let line = 0; line < 12_000; line++) context.log(`line ${line}`);
      throw new Error("out of stock");
    },
  });
  const project = definePawl({ assets: [flood] });
  const api = await startApi({ saidLimits: { logBytesRunMax: 65_536 } });
  const { client } = api;
  await client.call("publishDefinitions", { body: { specs: [...project.specs], origin: "code" } });
  const connection = connectWorker({ url: api.url });
  const controller = new AbortController();
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const ended = runWorker({
    connection,
    project,
    workerId: "worker",
    codeVersion: null,
    logger: quiet,
    signal: controller.signal,
  });
  const { run_id } = await client.call("requestRun", { body: { assets: ["flood"] } });
  for await (const _event of client.follow({})) {
    const { state } = await client.call("getRun", { params: { run_id } });
    if (state === "FAILED") break;
  }
  const params = { run_id, task_key: 0 };
  const { last_line } = await client.call("listTaskLogs", { params });
  const query = { after: last_line - 2 };
  const { items } = await client.call("listTaskLogs", { params, query });
  expect(items).toMatchObject([
    { message: "… lines were dropped here: the run's log reached 64 KiB." },
    { message: "out of stock", fields: { stack: expect.stringContaining("Error: out of stock") } },
  ]);
  controller.abort();
  await ended;
  connection.close();
  await api.close();
});

describe("what is upstream of a task", () => {
  const made = {
    status: "MATERIALIZED" as const,
    last_materialization_at: "2025-01-02T00:00:00.000Z",
    last_materialization_run_id: "run_7",
    last_materialization_code_version: "v1",
    metadata: { rows: 3 },
  };

  /** A server that has so many partitions upstream, a hundred on a page, and what it was asked for. */
  function serverWith(total: number) {
    const server = new WorkServer();
    const asked: object[] = [];
    server.upstreamOf = (request) => {
      asked.push(request);
      const from = Number(request.cursor ?? 0);
      const end = Math.min(total, from + 100);
      const items = Array.from({ length: end - from }, (_, at) => {
        return { partition_key: `k${from + at}`, ...made };
      });
      return { items, total, next_cursor: end < total ? String(end) : null, pos: 1 };
    };
    server.add({ asset_key: "orders", tasks: [["2025-01-02"]] });
    return { server, asked };
  }

  test("I91: is asked for by the fence of its attempt, page by page, and only when it is looked at", async () => {
    const { server, asked } = serverWith(150);
    const seen: unknown[] = [];
    work(server, async ({ upstream, eachUpstream }) => {
      const nothing = eachUpstream("files");
      seen.push(asked.length, typeof nothing);
      const list = await upstream("files", { partition: "2025-01-02" });
      seen.push(list.length, list[0]);
      for await (const { partition } of eachUpstream("files")) if (partition === "k3") break;
    });
    await server.until(() => server.results.length === 1);

    expect(seen).toEqual([
      0,
      "object",
      150,
      {
        asset: "files",
        partition: "k0",
        status: "MATERIALIZED",
        materializedAt: "2025-01-02T00:00:00.000Z",
        runId: "run_7",
        codeVersion: "v1",
        metadata: { rows: 3 },
      },
    ]);
    const ask = { run_pos: 1, task_key: 0, attempt: 1, asset_key: "files" };
    expect(asked).toEqual([
      { ...ask, partition_key: "2025-01-02" },
      { ...ask, partition_key: "2025-01-02", cursor: "100" },
      ask,
    ]);
  });

  test("is asked for again while the server is away", async () => {
    const { server } = serverWith(1);
    let refusals = 0;
    server.before = (message) => {
      if (message !== "upstream" || refusals === 2) return;
      refusals++;
      unreachable();
    };
    work(server, async ({ upstream }) => ({
      metadata: { count: (await upstream("files")).length },
    }));
    await server.until(() => server.results.length === 1);
    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED", metadata: { count: 1 } });
    expect(refusals).toBe(2);
  });

  test("I64: is no list of more than 10,000 partitions, and says how to go through them", async () => {
    const { server, asked } = serverWith(10_001);
    work(server, async ({ upstream }) => void (await upstream("files")));
    await server.until(() => server.results.length === 1);
    expect(server.results[0]).toMatchObject({
      outcome: "FAILED",
      error: { message: expect.stringContaining('context.eachUpstream("files")') },
    });
    expect(asked).toHaveLength(1);
  });

  test("I35: ends an attempt that has lost its task", async () => {
    const { server } = serverWith(1);
    const causes: unknown[] = [];
    work(server, async ({ upstream, signal }) => {
      server.tryAgain();
      server.upstreamOf = () => {
        throw new PawlError("LEASE_LOST", "gone");
      };
      await upstream("files").catch((error: unknown) => causes.push(error, signal.aborted));
      server.upstreamOf = () => ({ items: [], total: 0, next_cursor: null, pos: 0 });
    });
    await server.until(() => causes.length > 0);
    expect(causes).toEqual([expect.objectContaining({ code: "LEASE_LOST" }), true]);
  });

  test("is refused without an asset", async () => {
    const { server } = serverWith(1);
    const wrong: { asset: string } = JSON.parse("{}");
    work(server, async ({ upstream }) => void (await upstream(wrong.asset)));
    await server.until(() => server.results.length === 1);
    expect(server.results[0]).toMatchObject({
      error: { message: expect.stringContaining("as it was defined, not undefined") },
    });
  });
});
