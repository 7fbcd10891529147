import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ForkedWorker, forkWorker } from "../../src/worker/fork-worker.ts";
import { WorkServer } from "./work-server.ts";

let folder: string;
let http: Server | null = null;
let worker: ForkedWorker | null = null;
const errors: string[] = [];
const logger = {
  info: () => undefined,
  warn: () => undefined,
  error: (_fields: object, message: string) => void errors.push(message),
};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-worker-"));
  errors.length = 0;
});

afterEach(async () => {
  await worker?.stop();
  worker = null;
  http?.closeAllConnections();
  http?.close();
  rmSync(folder, { recursive: true, force: true });
});

function configure(materialize: string): string {
  const file = join(folder, "pawl.config.ts");
  writeFileSync(
    file,
    `import { asset, definePawl } from "pawl";
    export default definePawl({ assets: [asset("orders", { materialize: ${materialize} })] });`,
  );
  return file;
}

async function serve(options: { ttlMs?: number }): Promise<{ server: WorkServer; url: string }> {
  const server = new WorkServer(options);
  const listening = await server.listen();
  http = listening.server;
  return { server, url: listening.url };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("a worker process", () => {
  test("gives its specs and works when it is told where the server is", async () => {
    const { server, url } = await serve({});
    worker = await forkWorker({ configPath: configure("async () => {}"), logger });
    expect(worker.loaded.specs).toMatchObject([{ asset_key: "orders" }]);

    server.add({ asset_key: "orders", tasks: Array.from({ length: 100 }, () => []) });
    worker.connect({ url });
    await server.until(() => server.results.length === 100);
    expect(server.results.every(({ outcome }) => outcome === "SUCCEEDED")).toBe(true);
  });

  test("keeps the lease of a function that blocks it for longer than the lease lives", async () => {
    const { server, url } = await serve({ ttlMs: 4_500 });
    // From its first moment: what renews the lease has to be there before the task is.
    const block = "() => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 12_000); }";
    worker = await forkWorker({ configPath: configure(block), logger });
    server.add({ asset_key: "orders", tasks: [[]] });
    worker.connect({ url });
    const sweep = setInterval(() => server.expireLeases(), 100);
    await server.until(() => server.results.length === 1);
    clearInterval(sweep);

    // A lease that was not renewed in time would have been swept, and this would be "lost".
    expect(server.results).toMatchObject([
      { outcome: "SUCCEEDED", answer: "recorded", attempt: 1 },
    ]);
    expect(server.heartbeats.length).toBeGreaterThan(2);
  });

  test("I78: is started again after a crash, which is said at once with the exit code", async () => {
    const { server, url } = await serve({});
    const crash = "({ attempt }) => { if (attempt === 1) process.exit(9); }";
    worker = await forkWorker({ configPath: configure(crash), logger });
    server.add({ asset_key: "orders", tasks: [[]] });
    worker.connect({ url });
    await server.until(() => server.results.length === 1);
    server.tryAgain();
    await server.until(() => server.results.length === 2);

    expect(server.results).toMatchObject([
      { outcome: "FAILED", attempt: 1, error: { class: "crash" } },
      { outcome: "SUCCEEDED", attempt: 2 },
    ]);
    expect(server.results[0]?.error?.message).toContain("exit code 9");
    expect(errors[0]).toContain("exit code 9");
  });

  test("I78: says what became of a crashed worker before it lets go", async () => {
    const { server, url } = await serve({});
    const configPath = configure("() => process.exit(9)");
    const stopped = Promise.withResolvers<void>();
    const stopping = { ...logger, error: () => stopped.resolve(forked.stop()) };
    const forked = await forkWorker({ configPath, logger: stopping });
    server.add({ asset_key: "orders", tasks: [[]] });
    forked.connect({ url });
    await stopped.promise;
    expect(server.results).toMatchObject([{ outcome: "FAILED", error: { class: "crash" } }]);
  });

  test("goes on with the old code when a restart fails, and with the new when it works", async () => {
    const { server, url } = await serve({});
    worker = await forkWorker({
      configPath: configure("() => ({ metadata: { version: 1 } })"),
      logger,
    });
    worker.connect({ url });
    writeFileSync(join(folder, "pawl.config.ts"), "export const nothing = 1;\n");
    await expect(worker.restart()).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    server.add({ asset_key: "orders", tasks: [[]] });
    await server.until(() => server.results.length === 1);

    configure("() => ({ metadata: { version: 2 } })");
    await worker.restart();
    server.add({ asset_key: "orders", tasks: [[]] });
    await server.until(() => server.results.length === 2);
    const versions = server.results.map(({ metadata }) => metadata);
    expect(versions).toEqual([{ version: 1 }, { version: 2 }]);
  });

  test("does not outlive the process that started it, nor falls over a forgotten promise", async () => {
    const { server, url } = await serve({});
    const forget = "() => { void Promise.reject(new Error('forgotten')); }";
    const source = new URL("../../src/worker/fork-worker.ts", import.meta.url).href;
    const script = `
      import { forkWorker } from ${JSON.stringify(source)};
      const logger = { info() {}, warn() {}, error() {} };
      const worker = await forkWorker({ configPath: process.argv[1], logger });
      worker.connect({ url: process.argv[2] });`;
    const args = ["--input-type=module", "-e", script, configure(forget), url];
    const parent = spawn(process.execPath, args, { stdio: "ignore" });
    server.add({ asset_key: "orders", tasks: [[]] });
    await server.until(() => server.results.length === 1);
    server.add({ asset_key: "orders", tasks: [[]] });
    await server.until(() => server.results.length === 2);
    const pid = Number(server.claims[0]?.worker_id.split(":")[1]);
    expect(() => process.kill(pid, 0)).not.toThrow();

    parent.kill("SIGKILL");
    await expect.poll(() => isRunning(pid)).toBe(false);
  });

  test("gives its task back when it is asked to stop", async () => {
    const { server, url } = await serve({});
    const endless = `({ signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    })`;
    worker = await forkWorker({ configPath: configure(endless), logger, stopGraceMs: 100 });
    server.add({ asset_key: "orders", tasks: [[]] });
    worker.connect({ url });
    await server.until(() => server.claims.length === 1);
    await worker.stop();

    expect(server.results).toMatchObject([{ outcome: "FAILED", released: true }]);
    expect(errors).toEqual([]);
  });

  test.each(["is gone", "does not answer"])(
    "I65: stops within its bound as well when the server %s",
    async (how) => {
      const { server, url } = await serve({});
      const begun = join(folder, "begun");
      const spin = `() => {
        process.getBuiltinModule("node:fs").writeFileSync(${JSON.stringify(begun)}, "");
        for (const until = Date.now() + 60_000; Date.now() < until; );
      }`;
      worker = await forkWorker({
        configPath: configure(spin),
        logger,
        stopGraceMs: 10,
        stopMs: 300,
      });
      server.add({ asset_key: "orders", tasks: [[]] });
      worker.connect({ url });
      await expect.poll(() => existsSync(begun)).toBe(true);
      if (how === "is gone") http?.close();
      else http?.removeAllListeners("request").on("request", () => undefined);
      http?.closeAllConnections();
      const startedAt = performance.now();
      await worker.stop();
      // Its bound, a second or two to say so, and what a busy machine needs; ten seconds more were spent on that.
      expect(performance.now() - startedAt).toBeLessThan(6_000);
    },
    30_000,
  );
});
