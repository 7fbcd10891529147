import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { asset } from "../../src/define/asset.ts";
import { staticPartitions } from "../../src/define/partitions.ts";
import type { Operation } from "../../src/work/operation.ts";
import { WORKER_OPERATIONS } from "../../src/work/worker-api.ts";
import { needPython } from "../python.ts";
import { readSource } from "../repo/source-files.ts";
import { type Api, type ApiOptions, startApi } from "./api-server.ts";
import { ROOT } from "./example-project.ts";
import { alike, blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";

// Python is needed, as test/python.ts says; these tests are never left out.
beforeAll(needPython);

const WORKER = join(ROOT, "examples", "python-worker", "worker.py");

describe("examples/python-worker/worker.py", () => {
  let folder: string;
  let api: Api;
  const workers: ChildProcess[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pawl-python-"));
  });
  afterEach(async () => {
    for (const worker of workers.splice(0)) await ended(worker, "SIGKILL");
    await api.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function ended(worker: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    if (worker.exitCode === null && worker.signalCode === null) {
      const gone = new Promise((resolve) => worker.once("exit", resolve));
      worker.kill(signal);
      await gone;
    }
    return worker.exitCode;
  }

  async function serve(options: ApiOptions = {}): Promise<void> {
    api = await startApi(options);
  }

  /** Starts a worker and resolves once it works; what it says is kept. */
  async function start(token?: string, ...args: string[]) {
    return startScript(WORKER, token, ...args);
  }

  async function startScript(script: string, token?: string, ...args: string[]) {
    const child = spawn("python3", [script, "--url", api.url, "--asset", "letters", ...args], {
      cwd: folder,
      env: { ...process.env, ...(token === undefined ? {} : { PAWL_TOKEN: token }) },
    });
    workers.push(child);
    let said = "";
    child.stdout.on("data", (part: Buffer) => (said += part.toString()));
    child.stderr.on("data", (part: Buffer) => (said += part.toString()));
    await expect.poll(() => said).toMatch(/working on letters|worker\.py:/);
    return { child, said: () => said };
  }

  /** Asks for letters, and answers the id of the backfill. */
  async function ask(config: object, partition_keys = ["a", "b", "c"]): Promise<string> {
    const { backfill_id } = await api.client.call("createBackfill", {
      body: {
        assets: ["letters"],
        selector: { type: "explicit", partition_keys },
        config: { folder, ...config },
      },
    });
    return backfill_id;
  }

  /** Has work stand still in the middle. */
  const hold = () => writeFileSync(join(folder, "hold"), "");
  const letGo = () => rmSync(join(folder, "hold"));

  const backfillOf = (backfill_id: string) =>
    api.client.call("getBackfill", { params: { backfill_id } });

  /** The one run there is. */
  async function theRun() {
    const { items } = await api.client.call("listRuns");
    return items[0];
  }

  /** The task of the one run with one partition. */
  async function theTask() {
    const run = await theRun();
    if (run === undefined) return null;
    const { items } = await api.client.call("listTasks", { params: { run_id: run.run_id } });
    return items[0] ?? null;
  }

  test("makes the partitions of an asset that it publishes", async () => {
    await serve();
    await start(undefined, "--publish");
    const backfill = await ask({ steps: 2 });

    await expect.poll(async () => (await backfillOf(backfill)).state).toBe("SUCCEEDED");
    expect(readFileSync(join(folder, "b"), "utf8")).toBe("b 1\nb 2\n");
    const params = { asset_key: "letters" };
    const { items } = await api.client.call("listAssetPartitions", { params });
    expect(items.map(({ partition_key, status }) => [partition_key, status])).toEqual(
      ["a", "b", "c"].map((key) => [key, "MATERIALIZED"]),
    );
  });

  test("goes on at the checkpoint of a worker that was killed, and says how far it is", async () => {
    await serve();
    const first = await start(undefined, "--publish");
    hold();
    const backfill = await ask({ steps: 4 }, ["a"]);
    // Its lease is renewed every 5 s, and progress goes with that.
    await expect.poll(async () => (await theTask())?.progress).toMatchObject({ done: 1, total: 4 });
    await ended(first.child, "SIGKILL");
    letGo();
    await start();

    await expect.poll(async () => (await backfillOf(backfill)).state).toBe("SUCCEEDED");
    expect(readFileSync(join(folder, "a"), "utf8")).toBe("a 1\na 2\na 3\na 4\n");
    const run = await theRun();
    const params = { run_id: run?.run_id ?? "", task_key: 0 };
    const { items } = await api.client.call("listTaskLogs", { params });
    expect(items[0]).toMatchObject({
      attempt: 2,
      message: "going on after an earlier attempt",
      fields: { steps_done: 1 },
    });
  });

  test("stops what was cancelled", async () => {
    await serve();
    const worker = await start(undefined, "--publish");
    hold();
    const backfill = await ask({}, ["a"]);
    await expect.poll(async () => (await theTask())?.state).toBe("RUNNING");
    await api.client.call("cancelBackfill", {
      params: { backfill_id: backfill },
      body: { now: true },
    });

    await expect.poll(() => worker.said()).toContain("letters a CANCELLED recorded");
    expect(existsSync(join(folder, "a"))).toBe(false);
  });

  test.each([
    ["takes too long", "timeout", { timeoutMs: 1_000 }],
    ["shows no progress", "stalled", { stallAfterMs: 1_000 }],
  ])("fails what %s", async (_what, why, limits) => {
    await serve();
    const { spec } = asset("letters", {
      partitions: staticPartitions(["a"]),
      retry: { maxAttempts: 1 },
      ...limits,
      materialize: () => undefined,
    });
    await api.client.call("publishDefinitions", { body: { specs: [spec] } });
    await start();
    hold();
    const backfill = await ask({}, ["a"]);

    await expect.poll(async () => (await backfillOf(backfill)).state).toBe("FAILED");
    expect((await backfillOf(backfill)).first_error).toMatchObject({ class: why });
  });

  test("gives back what it has when it is told to stop", async () => {
    await serve();
    const worker = await start(undefined, "--publish");
    hold();
    await ask({}, ["a"]);
    await expect.poll(async () => (await theTask())?.state).toBe("RUNNING");

    expect(await ended(worker.child, "SIGTERM")).toBe(0);
    expect(worker.said()).toContain("letters a FAILED recorded");
    // Which is no failure of the task: the next attempt need not wait.
    await start();
    await expect.poll(async () => (await theTask())?.attempt).toBe(2);
    letGo();
    await expect.poll(async () => (await theTask())?.state).toBe("SUCCEEDED");
  });

  test("fails what cannot be reported as it is, and works on", async () => {
    await serve();
    const { spec } = asset("letters", {
      partitions: staticPartitions(["a", "b", "c", "d"]),
      retry: { maxAttempts: 1 },
      materialize: () => undefined,
    });
    await api.client.call("publishDefinitions", { body: { specs: [spec] } });
    const own = join(folder, "own.py");
    writeFileSync(
      own,
      `import sys
sys.path.insert(0, ${JSON.stringify(dirname(WORKER))})
sys.dont_write_bytecode = True
import worker
MADE = {"a": {"text": "x" * 20_000}, "b": {"a", "set"}, "c": {"share": float("nan")}, "d": {"rows": 1}}
def make(task):
    task.log("a line that is no JSON", what={"a", "set"})
    return MADE[task.partition]
worker.make = make
worker.main()
`,
    );
    const worker = await startScript(own);
    const backfill = await ask({}, ["a", "b", "c", "d"]);

    await expect.poll(async () => (await backfillOf(backfill)).state).toBe("FAILED");
    const params = { asset_key: "letters" };
    const { items } = await api.client.call("listAssetPartitions", { params });
    expect(items.map((each) => [each.status, each.last_attempt_error?.class])).toEqual([
      ["FAILED", "input"],
      ["FAILED", "user"],
      ["FAILED", "user"],
      ["MATERIALIZED", undefined],
    ]);
    expect(items[0]?.last_attempt_error?.message).toContain("16000");
    expect(items[1]?.last_attempt_error?.message).toContain("set is not JSON serializable");
    expect(worker.child.exitCode).toBeNull();
  });

  test("works with a token that may work, and ends with a sentence without one", async () => {
    await serve({ tokensRequired: true });
    const refused = await start();
    await expect.poll(() => refused.child.exitCode).toBe(1);
    expect(refused.said()).toMatch(/worker\.py: .*\(UNAUTHORIZED\)\n$/);
    const { token } = await api.clientOf(0, ["work", "write"]);
    const worker = await start(token, "--publish");
    expect(worker.said()).toContain("working on letters");
  });
});

describe("docs/worker-protocol.md", () => {
  const page = readSource("docs/worker-protocol.md");
  const shown = page.matchAll(/^`(\w+)`, (request|answer):\n\n```json\n(.*?)^```$/gms);
  const examples = [...shown].map(([, name = "", side = "", text = ""]) => ({ name, side, text }));

  test("shows messages as the protocol has them, and no others", () => {
    expect(page.match(/^```json$/gm)).toHaveLength(examples.length);
    const operations: Readonly<Record<string, Operation>> = WORKER_OPERATIONS;
    for (const { name, side, text } of examples) {
      const schema = side === "request" ? operations[name]?.body : operations[name]?.answer;
      expect(schema, `${name}, ${side}`).toBeDefined();
      const parsed = schema?.safeParse(JSON.parse(text));
      expect(parsed?.error?.issues ?? [], `${name}, ${side}`).toEqual([]);
      expect(parsed?.data, `${name}, ${side}`).toEqual(JSON.parse(text));
    }
    expect(new Set(examples.map(({ name }) => name))).toEqual(
      new Set(["claim", "heartbeat", "checkpoint", "log", "upstream", "report"]),
    );
  });
});

describe("examples/python-worker/README.md", () => {
  const RUN_MS_MAX = 120_000;
  const blocks = blocksOf(readSource("examples/python-worker/README.md"));
  let clone: string;
  let printed: string[] = [];

  function freePort(): Promise<number> {
    return new Promise((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const address = server.address();
        server.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0));
      });
    });
  }

  beforeAll(async () => {
    const bin = dirname(inject("pawlCommand"));
    clone = cloneLike("python-worker", bin);
    const port = String(await freePort());
    const placed = blocks.map(({ commands, output }) => ({
      commands: commands.replaceAll("7290", port),
      output,
    }));
    const folder = join(clone, "examples", "python-worker");
    // A file, and no function of the shell: what is started in the background has to hear signals.
    const script = `#!/bin/sh\nexec "${process.execPath}" "${inject("pawlCommand")}" "$@"\n`;
    mkdirSync(join(folder, "tools"));
    writeFileSync(join(folder, "tools", "pawl"), script, { mode: 0o755 });
    const path = { commands: 'export PATH="$PWD/tools:$PATH"\n', output: null };
    printed = await runBlocks(folder, [path, ...placed], RUN_MS_MAX);
  }, RUN_MS_MAX + 30_000);
  afterAll(() => rmSync(clone, { recursive: true, force: true }));

  test("has commands that all work, in the order they stand there", () => {
    expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
    expect(printed, printed.join("")).toHaveLength(blocks.length + 2);
  });

  test("shows what the commands print", () => {
    for (const [index, { output }] of blocks.entries()) {
      const actual = new Set((printed[index + 1] ?? "").split("\n").map(alike));
      const missing = (output ?? "")
        .split("\n")
        .filter((line) => line !== "" && !actual.has(alike(line)));
      expect(missing, printed[index + 1]).toEqual([]);
    }
  });
});
