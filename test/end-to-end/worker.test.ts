import { afterEach, describe, expect, test } from "vitest";
import { PawlError } from "../../src/kernel/errors.ts";
import type { Materialize } from "../../src/define/automation-context.ts";
import { endless, stopWorkers, tasks, work } from "./started-worker.ts";
import { unreachable, WorkServer } from "./work-server.ts";

afterEach(stopWorkers);

describe("a worker", () => {
  test("runs every task once, reports it once and releases every lease", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(1_000) });
    let runs = 0;
    const { stop } = work(server, async () => void runs++);
    await server.until(() => server.results.length === 1_000);
    await stop();

    expect(runs).toBe(1_000);
    expect(server.results.every(({ answer }) => answer === "recorded")).toBe(true);
    expect(server.results.every(({ outcome }) => outcome === "SUCCEEDED")).toBe(true);
    const granted = new Set(server.claims.map(({ lease_id }) => lease_id));
    expect([...server.released].every((id) => granted.has(id))).toBe(true);
    expect(server.released.size).toBeGreaterThan(0);
    expect(server.heartbeats).toEqual([]);
    expect(server.reports.length).toBeLessThan(500);
  });

  test("runs no more tasks at once than it may", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(200) });
    let running = 0;
    let most = 0;
    work(
      server,
      async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 1));
        running--;
      },
      {},
      { concurrency: 3 },
    );
    await server.until(() => server.results.length === 200);

    expect(most).toBe(3);
  });

  test("gets the same tasks when the answer to a claim was lost", async () => {
    const server = new WorkServer();
    let lost = 2;
    server.after = (message) => {
      if (message === "claim" && lost-- > 0) unreachable();
    };
    server.add({ asset_key: "orders", tasks: tasks(5) });
    work(server, async () => undefined);
    await server.until(() => server.results.length === 5);

    expect(server.results.every(({ attempt }) => attempt === 1)).toBe(true);
    expect(new Set(server.claims.slice(0, 3).map(({ lease_id }) => lease_id)).size).toBe(1);
  });

  test("repeats a report whose answer was lost", async () => {
    const server = new WorkServer();
    let lost = 1;
    server.after = (message) => {
      if (message === "report" && lost-- > 0) unreachable();
    };
    server.add({ asset_key: "orders", tasks: tasks(1) });
    work(server, async () => undefined);
    await server.until(() => server.results.length === 2);

    expect(server.results.map(({ answer }) => answer)).toEqual(["recorded", "lost"]);
  });

  test("keeps tasks running and reports them when the server comes back in time", async () => {
    const server = new WorkServer({ ttlMs: 30_000 });
    let isAway = false;
    server.before = () => {
      if (isAway) unreachable();
    };
    let finish: () => void = () => undefined;
    let wasAborted = false;
    server.add({ asset_key: "orders", tasks: tasks(1) });
    work(server, async ({ signal }) => {
      isAway = true;
      setTimeout(() => (isAway = false), 500);
      setTimeout(() => finish(), 200);
      await new Promise<void>((resolve) => (finish = resolve));
      wasAborted = signal.aborted;
    });
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED", answer: "recorded" });
    expect(wasAborted).toBe(false);
  });

  test("I42: stops itself at two thirds of a lease that cannot be renewed, and drops the result", async () => {
    const server = new WorkServer({ ttlMs: 6_000 });
    let isAway = false;
    let startedAt = 0;
    server.before = () => {
      if (isAway) unreachable();
    };
    server.add({ asset_key: "orders", tasks: tasks(1) });
    const aborted = new Promise<{ reason: unknown; ms: number }>((resolve) => {
      work(server, ({ signal, attempt }) => {
        if (attempt > 1) return;
        isAway = true;
        startedAt = performance.now();
        return new Promise((end) => {
          signal.addEventListener("abort", () => {
            resolve({ reason: signal.reason, ms: performance.now() - startedAt });
            end();
          });
        });
      });
    });
    const { reason, ms } = await aborted;
    expect(reason).toMatchObject({ code: "LEASE_LOST" });
    expect(ms).toBeGreaterThan(3_900);
    expect(ms).toBeLessThan(6_000);

    isAway = false;
    setTimeout(() => server.expireLeases(), 3_000);
    await server.until(() => server.results.length > 0);
    expect(server.results).toMatchObject([{ attempt: 2, outcome: "SUCCEEDED" }]);
  });

  test("I37: does not release a lease with a task that it gave up without the server", async () => {
    const server = new WorkServer({ ttlMs: 6_000 });
    let isAway = false;
    let calls = 0;
    server.before = () => {
      if (isAway) unreachable();
    };
    server.add({ asset_key: "orders", tasks: tasks(1) });
    const aborted = new Promise<void>((resolve) => {
      work(server, ({ signal }) => {
        if (++calls > 1) return;
        isAway = true;
        return new Promise((end) => {
          signal.addEventListener("abort", () => {
            resolve();
            end();
          });
        });
      });
    });
    await aborted;
    isAway = false;
    server.add({ asset_key: "orders", tasks: tasks(1) });
    await server.until(() => server.released.size > 0);

    // The server takes the first task to be running: only the end of its lease sets it free.
    const [first] = server.claims;
    expect(server.released).not.toContain(first?.lease_id);
  });

  test("renews the lease of a long task and passes its progress on", async () => {
    const server = new WorkServer({ ttlMs: 4_500 });
    server.add({ asset_key: "orders", tasks: tasks(1) });
    work(server, async (context) => {
      context.progress(0.5, 1);
      context.progress(1.2, 2, "half way");
      await server.until(() => server.heartbeats.length >= 4);
    });
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED", answer: "recorded" });
    const progress = { done: 1, total: 2, note: "half way" };
    expect(server.heartbeats.at(-1)?.tasks[0]).toMatchObject({ progress });
  });

  test("aborts a cancelled task and reports it as cancelled", async () => {
    const server = new WorkServer({ ttlMs: 6_000 });
    server.add({ asset_key: "orders", tasks: tasks(1) });
    work(server, (context) => {
      server.cancelAll();
      return endless(context);
    });
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({
      outcome: "CANCELLED",
      error: { class: "cancelled" },
    });
  });

  test("ends a task that takes too long, and abandons one that does not listen", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(2), timeout_ms: 50 });
    let count = 0;
    const deaf: Materialize = () => new Promise(() => undefined);
    const either: Materialize = (context) => (count++ === 0 ? endless(context) : deaf(context));
    work(server, either, {}, { abandonMs: 50 });
    await server.until(() => server.results.length === 2);

    const message = "The task took longer than its timeout of 50 ms.";
    const timeout = { outcome: "FAILED", error: { class: "timeout", message } };
    expect(server.results).toMatchObject([timeout, timeout]);
  });

  test("ends a task that stalls, not one that gets on", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(1), stall_after_ms: 200 });
    let steps = 0;
    work(server, async (context) => {
      for (; steps < 5; steps++) {
        context.progress(steps, 5);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      await endless(context);
    });
    await server.until(() => server.results.length === 1);

    expect(steps).toBe(5);
    expect(server.results[0]).toMatchObject({
      error: { class: "stalled", message: "The task showed no progress for 200 ms." },
    });
  });

  test("lets tasks finish when it is stopped, and gives back what does not", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(2) });
    let started = 0;
    let finishFirst: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      const { stop } = work(
        server,
        (context) => {
          started++;
          if (started === 1) return new Promise<void>((end) => (finishFirst = end));
          queueMicrotask(() => {
            void stop().then(resolve);
            finishFirst();
          });
          return endless(context);
        },
        {},
        { stopGraceMs: 100 },
      );
    });
    await both;

    expect(server.results).toMatchObject([
      { task_key: 0, outcome: "SUCCEEDED" },
      { task_key: 1, outcome: "FAILED", released: true, retry_after_ms: 0 },
    ]);
    expect(server.released.size).toBe(1);
  });

  test("I65: gives back what a claim got whose answer it did not wait for", async () => {
    const server = new WorkServer();
    server.add({ asset_key: "orders", tasks: tasks(2) });
    let runs = 0;
    const stopped = new Promise<void>((resolve) => {
      const { stop } = work(server, () => void runs++);
      server.after = (message) => {
        if (message !== "claim" || server.claims.length > 1) return;
        void stop().then(resolve);
        unreachable();
      };
    });
    await stopped;

    expect(runs).toBe(0);
    expect(server.results).toMatchObject([
      { task_key: 0, outcome: "FAILED", released: true, retry_after_ms: 0 },
      { task_key: 1, outcome: "FAILED", released: true, retry_after_ms: 0 },
    ]);
    expect(server.released.size).toBe(1);
  });

  test("ends with the reason when the server does not want it", async () => {
    const server = new WorkServer();
    server.before = () => {
      throw new PawlError("UNAUTHORIZED", "The token is not valid.");
    };
    const { ended } = work(server, () => undefined);

    await expect(ended).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  });
});
