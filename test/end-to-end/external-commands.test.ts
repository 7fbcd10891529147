import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AssetOptions } from "../../src/define/asset.ts";
import type { Materialize } from "../../src/define/automation-context.ts";
import { daily, multi, staticPartitions } from "../../src/define/partitions.ts";
import { dbt, python, shell } from "../../src/external/shell.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { type ForkedWorker, forkWorker } from "../../src/worker/fork-worker.ts";
import { needPython } from "../python.ts";
import { stopWorkers, work } from "./started-worker.ts";
import { type Work, WorkServer } from "./work-server.ts";

// A real worker and real processes; the other side of the worker protocol is in memory, so that tests
// see every line and can let an attempt be made again.

let folder: string;
let worker: ForkedWorker | null = null;
let http: Server | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-external-"));
});

afterEach(async () => {
  await stopWorkers();
  await worker?.stop();
  worker = null;
  http?.closeAllConnections();
  http?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A server with one task, and a worker that has made the first attempt at it. */
async function attempted(
  materialize: Materialize,
  more: Partial<AssetOptions> = {},
  added: Partial<Work> = {},
): Promise<WorkServer> {
  const server = new WorkServer({ ttlMs: 60_000 });
  server.add({ asset_key: "orders", tasks: [[]], ...added });
  work(server, materialize, more);
  await server.until(() => server.results.length === 1);
  return server;
}

function messageOf(server: WorkServer): string {
  return server.results[0]?.error?.message ?? "";
}

/** A file of the test's folder, once it is there and has something in it. */
async function written(name: string): Promise<string> {
  const file = join(folder, name);
  await expect.poll(() => existsSync(file) && readFileSync(file, "utf8")).toBeTruthy();
  return readFileSync(file, "utf8").trim();
}

/** Whether a process runs; one that has ended and was not asked how by its parent does not. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

function refusal(define: () => unknown): string {
  try {
    define();
  } catch (error) {
    if (error instanceof PawlError && error.code === "DEFINITION_INVALID") return error.message;
    throw error;
  }
  throw new Error("it was defined");
}

describe("shell", () => {
  test("tells a command what its task is about", async () => {
    const script = `
      printf '%s|' "$PAWL_ASSET" "$PAWL_RUN_ID" "$PAWL_ATTEMPT" "$PAWL_PARTITION" "$PAWL_PARTITIONS" \\
        "$PAWL_VALUES" "$PAWL_VALUE_DAY" "$PAWL_VALUE_REGION" "$PAWL_WINDOW_START" \\
        "$PAWL_WINDOW_END" "$PAWL_CONFIG" "\${PAWL_CHECKPOINT-none}" "$MORE" "\${HOME-gone}" "$PWD" > told.txt
      cat "$PAWL_CONTEXT" > context.json`;
    const key = "day=2025-01-02,region=us%2C%20west";
    const server = await attempted(
      shell(script, { cwd: folder, env: { MORE: "of mine", HOME: undefined } }),
      {
        partitions: multi({
          day: daily({ start: "2025-01-01" }),
          region: staticPartitions(["eu", "us, west"]),
        }),
      },
      { tasks: [[key]], config: { full: true } },
    );

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
    const told = [
      ["orders", "run_1", "1", key, `["${key}"]`, '{"day":"2025-01-02","region":"us, west"}'],
      ["2025-01-02", "us, west", "2025-01-02T00:00:00.000Z", "2025-01-03T00:00:00.000Z"],
      ['{"full":true}', "none", "of mine", "gone", folder, ""],
    ];
    expect((await written("told.txt")).split("|")).toEqual(told.flat());
    expect(JSON.parse(await written("context.json"))).toEqual({
      asset: "orders",
      run_id: "run_1",
      attempt: 1,
      partition: key,
      partitions: [key],
      values: { day: "2025-01-02", region: "us, west" },
      window: { start: "2025-01-02T00:00:00.000Z", end: "2025-01-03T00:00:00.000Z" },
      config: { full: true },
      checkpoint: null,
    });
  });

  test("I91: tells a command of the upstream partitions that it wants to know of", async () => {
    const server = new WorkServer({ ttlMs: 60_000 });
    const asked: unknown[] = [];
    server.upstreamOf = ({ asset_key }) => {
      asked.push(asset_key);
      const item = {
        partition_key: "2025-01",
        status: "MATERIALIZED" as const,
        last_materialization_at: "2025-02-01T00:00:00.000Z",
        last_materialization_run_id: "run_7",
        last_materialization_code_version: null,
        metadata: { rows: 3 },
      };
      return { items: [item], total: 1, next_cursor: null, pos: 1 };
    };
    server.add({ asset_key: "orders", tasks: [[]] });
    const script = 'cat "$PAWL_CONTEXT" > context.json';
    work(server, shell(script, { cwd: folder, upstream: ["files"] }));
    await server.until(() => server.results.length === 1);

    expect(asked).toEqual(["files"]);
    expect(JSON.parse(await written("context.json"))).toMatchObject({
      upstream: {
        files: [
          {
            partition: "2025-01",
            status: "MATERIALIZED",
            materialized_at: "2025-02-01T00:00:00.000Z",
            run_id: "run_7",
            code_version: null,
            metadata: { rows: 3 },
          },
        ],
      },
    });
  });

  test("leaves out of the environment what is too long for it, and no file behind", async () => {
    const keys = Array.from({ length: 20_000 }, (_, index) => `k${index}`);
    const script = `
      echo "\${PAWL_PARTITIONS-left out} \${PAWL_PARTITION}" > told.txt
      echo "$PAWL_CONTEXT" > path.txt
      cp "$PAWL_CONTEXT" context.json`;
    const server = await attempted(
      shell(script, { cwd: folder }),
      { partitions: staticPartitions(keys), batch: true },
      { tasks: [keys], batch: true },
    );

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
    expect(await written("told.txt")).toBe("left out k0");
    expect(JSON.parse(await written("context.json"))).toMatchObject({ partitions: keys });
    expect(existsSync(await written("path.txt"))).toBe(false);
  });

  test("takes what lines of its output say, and logs all other lines", async () => {
    const server = await attempted(
      shell(`
        echo "loading"
        echo '::pawl {"progress":{"done":1,"total":2,"note":"half"}}'
        echo '::pawl {"metadata":{"rows":12}}'
        echo '::pawl {"metadata":{"bytes":340},"log":{"level":"error","message":"odd","fields":{"row":3}}}'
        printf '\\033[31mred\\033[0m\\n\\n'
        echo "careful" >&2`),
    );

    expect(server.results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      metadata: { rows: 12, bytes: 340 },
    });
    // The two streams are two pipes: each keeps its order.
    const lines = server.lines.map(({ message, fields }) => ({ message, fields }));
    expect(lines.filter(({ message }) => message !== "careful")).toEqual([
      { message: "loading", fields: { level: "info" } },
      { message: "odd", fields: { level: "error", row: 3 } },
      { message: "red", fields: { level: "info" } },
    ]);
    expect(lines).toContainEqual({ message: "careful", fields: { level: "warn" } });
  });

  test("shows progress while the command runs", async () => {
    const server = new WorkServer({ ttlMs: 15_000 });
    server.add({ asset_key: "orders", tasks: [[]] });
    const script = `
      echo '::pawl {"progress":{"done":3,"total":9}}'
      while [ ! -f go ]; do sleep 0.05; done`;
    work(server, shell(script, { cwd: folder }));
    const isShown = () =>
      server.heartbeats.some(({ tasks }) => tasks.some(({ progress }) => progress?.done === 3));
    await server.until(isShown);
    writeFileSync(join(folder, "go"), "");
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
  });

  test("keeps a checkpoint for the next attempt, also of a command that fails", async () => {
    const script = `
      echo "$PAWL_ATTEMPT \${PAWL_CHECKPOINT-none}" >> seen.txt
      echo '::pawl {"checkpoint":{"page":1}}'
      echo '::pawl {"checkpoint":{"page":'"$PAWL_ATTEMPT"'7}}'
      [ "$PAWL_ATTEMPT" = 2 ]`;
    const server = await attempted(shell(script, { cwd: folder }));
    server.tryAgain();
    await server.until(() => server.results.length === 2);

    expect(server.results.map(({ outcome }) => outcome)).toEqual(["FAILED", "SUCCEEDED"]);
    expect((await written("seen.txt")).split("\n")).toEqual(["1 none", '2 {"page":17}']);
    expect(server.checkpoints.at(-1)).toMatchObject({ value: { page: 27 } });
  });

  test("adds keys to dynamic partitions, where it succeeds", async () => {
    const line = (keys: string[]) =>
      `echo '::pawl ${JSON.stringify({ add_partitions: [{ definition: "files", keys }] })}'`;
    const server = await attempted(shell(`${line(["a", "b"])}\n${line(["b", "c"])}`));
    expect(server.results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      added_keys: [{ definition: "files", keys: ["a", "b", "c"] }],
    });
  });

  test("says of single partitions of a batch what became of them", async () => {
    const server = await attempted(
      shell(`
        echo '::pawl {"partition_failed":{"partition":"b","error":"Broken."}}'
        echo '::pawl {"partition_skipped":{"partition":"c","reason":"Empty."}}'`),
      { batch: true, partitions: staticPartitions(["a", "b", "c"]) },
      { batch: true, tasks: [["a", "b", "c"]] },
    );

    expect(server.results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      exceptions: [
        { index: 1, outcome: "FAILED", error: { message: "Broken." } },
        { index: 2, outcome: "SKIPPED", error: { message: "Empty." } },
      ],
    });
  });

  test.each<[string, string, object]>([
    [
      "with its exit code and the last lines of stderr",
      'echo fine; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $n" >&2; done; exit 3',
      {
        outcome: "FAILED",
        error: {
          class: "user",
          message: expect.stringMatching(
            /^The command ended with exit code 3\. The last lines of its stderr:\nline 3\n(?:.*\n)*line 12$/,
          ),
        },
      },
    ],
    [
      "with the last lines of stdout where stderr has none",
      "echo broken; exit 1",
      { error: { message: expect.stringContaining("its stdout:\nbroken") } },
    ],
    [
      "at the first command of a script that fails",
      'false\necho \'::pawl {"metadata":{"late":true}}\'',
      { outcome: "FAILED", error: { message: "The command ended with exit code 1." } },
    ],
    [
      "and says which signal it was",
      "kill -9 $$",
      { error: { message: "The command was ended by SIGKILL." } },
    ],
    [
      "for good with exit code 65",
      "echo 'no such column' >&2; exit 65",
      { outcome: "FAILED", final: true },
    ],
    [
      "for good when it says so",
      'echo \'::pawl {"do_not_retry":"The input is broken."}\'',
      { final: true, error: { message: expect.stringContaining("The input is broken.") } },
    ],
    [
      "and says when to try again",
      "echo '::pawl {\"retry_after_ms\":1234}'; exit 1",
      { outcome: "FAILED", retry_after_ms: 1_234, error: { class: "transient" } },
    ],
    [
      "as skipped when there is nothing to do",
      'echo \'::pawl {"skip":"No file for this day."}\'',
      { outcome: "SKIPPED", error: { message: "No file for this day." } },
    ],
  ])("ends %s", async (_how, script, expected) => {
    const server = await attempted(shell(script));
    expect(server.results[0]).toMatchObject(expected);
    // The stack of our own code says nothing about a command.
    expect(server.lines.filter(({ fields }) => "stack" in Object(fields))).toEqual([]);
  });

  test("takes other exit codes for good where it is told", async () => {
    const materialize = shell("exit $PAWL_VALUE_PARTITION", { doNotRetryOn: [2, 3] });
    const partitions = staticPartitions(["3", "65"]);
    const server = new WorkServer({ ttlMs: 60_000 });
    server.add({ asset_key: "orders", tasks: [["3"], ["65"]] });
    work(server, materialize, { partitions });
    await server.until(() => server.results.length === 2);

    const finals = server.results.filter(({ final }) => final === true);
    expect(finals.map(({ task_key }) => task_key)).toEqual([0]);
  });

  test.each([
    ["no JSON", "::pawl progress", "there must be one JSON object"],
    ["a word there is not", '::pawl {"metdata":{}}', "it may have progress, metadata, log"],
    ["nothing", "::pawl {}", "it says nothing"],
    ["a value of another kind", '::pawl {"progress":{"done":-1,"total":2}}', "progress.done"],
    [
      "a partition that is none of the task's",
      '::pawl {"partition_failed":{"partition":"z","error":"x"}}',
      "Only a batch can fail or skip single partitions",
    ],
    [
      "keys that none can be",
      '::pawl {"add_partitions":[{"definition":"d","keys":[""]}]}',
      "keys.0",
    ],
    [
      "too much metadata",
      `::pawl {"metadata":{"long":"${"x".repeat(17_000)}"}}`,
      "at most 16000 characters",
    ],
  ])("is stopped and fails when a line says %s", async (_what, line, reason) => {
    const script = `printf '%s\\n' '${line}'; sleep 600`;
    const server = await attempted(shell(script));

    expect(server.results[0]).toMatchObject({ outcome: "FAILED" });
    expect(messageOf(server)).toContain(`The command printed "${line.slice(0, 8)}`);
    expect(messageOf(server)).toContain(reason);
  });

  test("cuts long lines, and takes any amount of output", async () => {
    const server = await attempted(
      shell(
        "head -c 30000 /dev/zero | tr '\\0' x; echo; head -c 40000000 /dev/zero; echo; echo end",
      ),
    );

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
    const messages = server.lines.map(({ message }) => message);
    expect(messages[0]).toBe(`${"x".repeat(8_000)}… (22000 more characters were cut)`);
    expect(messages.at(-1)).toBe("end");
    expect(messages.every(({ length }) => length <= 10_000)).toBe(true);
  });

  test("runs a program with its arguments as they are, made for the task", async () => {
    const partitions = staticPartitions(["$(touch hacked); '\""]);
    const server = await attempted(
      shell(({ partition }) => ["printf", "%s\n", partition], { cwd: folder }),
      { partitions },
      { tasks: [["$(touch hacked); '\""]] },
    );

    expect(server.lines).toMatchObject([{ message: "$(touch hacked); '\"" }]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("takes another shell", async () => {
    const server = await attempted(
      shell("set -o pipefail; [[ a == a ]]; false | true", { shell: "bash" }),
    );
    expect(messageOf(server)).toBe("The command ended with exit code 1.");
  });

  test.each([
    ["a program that is not there", shell(["no-such-program"]), "exit code 127"],
    ["a folder that is not there", shell("true", { cwd: "/no/such" }), "the folder /no/such"],
    [
      "arguments that are too long",
      shell(["printf", "x".repeat(200_000)]),
      "longer than the system takes",
    ],
  ])("fails with a sentence for %s", async (_what, materialize, sentence) => {
    const server = await attempted(materialize);
    expect(server.results[0]).toMatchObject({ outcome: "FAILED", attempt: 1 });
    expect(messageOf(server)).toContain(sentence);
  });

  test("refuses what it cannot run when it is defined", () => {
    expect(refusal(() => shell(" "))).toContain(
      "needs a command, as a text for the shell or as a list",
    );
    expect(refusal(() => shell([]))).toContain("not [].");
    expect(refusal(() => shell("true", Object({ kilGraceMs: 1 })))).toContain(
      "Did you mean killGraceMs?",
    );
    expect(refusal(() => shell("true", { killGraceMs: 60_000 }))).toContain(
      "must be from 0 to 4000",
    );
    expect(refusal(() => shell("true", { doNotRetryOn: [0] }))).toContain("from 1 to 255");
    expect(refusal(() => python(""))).toContain("needs the path of a script");
    expect(refusal(() => dbt({ select: [] }))).toContain("needs select, the models to run");
  });
});

describe("the processes of a command", () => {
  /** A script that starts another process, and two that do not hear when they are asked to stop. */
  const FAMILY = `
    sh -c 'trap "" TERM; echo $$ > deaf.txt; while :; do sleep 0.1; done' &
    sleep 600 &
    echo $! > child.txt
    trap 'echo stopped > heard.txt; exit 1' TERM
    echo $$ $PPID > leader.txt
    while :; do sleep 0.05 || :; done`;

  async function family(): Promise<number[]> {
    const [leader = "", parent = ""] = (await written("leader.txt")).split(" ");
    return [leader, parent, await written("child.txt"), await written("deaf.txt")].map(Number);
  }

  test("are all gone when the task was cancelled", async () => {
    const server = new WorkServer({ ttlMs: 15_000 });
    server.add({ asset_key: "orders", tasks: [[]] });
    work(server, shell(FAMILY, { cwd: folder, killGraceMs: 500 }));
    const [leader = 0, , ...others] = await family();
    server.cancelAll();
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "CANCELLED" });
    expect(await written("heard.txt")).toBe("stopped");
    await expect.poll(() => [leader, ...others].filter(isRunning)).toEqual([]);
  });

  test("are all gone when the task took too long, and deaf ones too", async () => {
    const deaf = `trap "" TERM; ${FAMILY.replace(/trap 'echo.*/, "")}`;
    const server = new WorkServer({ ttlMs: 60_000 });
    server.add({ asset_key: "orders", tasks: [[]], timeout_ms: 3_000 });
    work(server, shell(deaf, { cwd: folder, killGraceMs: 200 }));
    await server.until(() => server.results.length === 1);

    expect(server.results[0]).toMatchObject({ outcome: "FAILED", error: { class: "timeout" } });
    const started = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
    const pids = started.map((text) => Number(text.split(" ")[0]));
    await expect.poll(() => pids.filter((pid) => pid > 0 && isRunning(pid))).toEqual([]);
  });

  test("are killed without being asked when the lease is lost", async () => {
    const server = new WorkServer({ ttlMs: 15_000 });
    server.before = (message) => {
      if (message === "heartbeat") throw new PawlError("SERVER_UNREACHABLE", "It is away.");
    };
    server.add({ asset_key: "orders", tasks: [[]] });
    work(server, shell(FAMILY, { cwd: folder }));
    const [leader = 0, , ...others] = await family();

    await expect.poll(() => [leader, ...others].filter(isRunning)).toEqual([]);
    expect(existsSync(join(folder, "heard.txt"))).toBe(false);
    expect(server.results).toEqual([]);
  });

  test("are all gone when the command has ended, and do not keep its task", async () => {
    const script = "sleep 600 & echo $! > child.txt; echo done";
    const server = await attempted(shell(script, { cwd: folder }));

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
    const child = Number(await written("child.txt"));
    await expect.poll(() => isRunning(child)).toBe(false);
  });

  test("are all gone when their worker was killed", async () => {
    const server = new WorkServer({ ttlMs: 60_000 });
    const listening = await server.listen();
    http = listening.server;
    const configPath = join(folder, "pawl.config.ts");
    writeFileSync(
      configPath,
      `import { asset, definePawl, shell } from "pawl";
      const materialize = shell(${JSON.stringify(FAMILY)}, { cwd: ${JSON.stringify(folder)} });
      export default definePawl({ assets: [asset("orders", { materialize })] });`,
    );
    const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
    worker = await forkWorker({ configPath, logger: quiet });
    server.add({ asset_key: "orders", tasks: [[]] });
    worker.connect({ url: listening.url });
    const [leader = 0, parent = 0, ...others] = await family();
    expect(isRunning(leader)).toBe(true);
    process.kill(parent, "SIGKILL");

    await expect.poll(() => [leader, ...others].filter(isRunning)).toEqual([]);
  });
});

describe("python", () => {
  beforeAll(needPython);

  test("runs a script with what the task is about, and hears it at once", async () => {
    writeFileSync(
      join(folder, "load.py"),
      `import json, os, sys
task = json.load(open(os.environ["PAWL_CONTEXT"]))
print("::pawl " + json.dumps({"metadata": {"day": task["partition"], "args": sys.argv[1:]}}))
print("for people", file=sys.stderr)
`,
    );
    const server = await attempted(
      python("load.py", { cwd: folder, args: ({ partition }) => ["--day", partition] }),
      { partitions: daily({ start: "2025-01-01" }) },
      { tasks: [["2025-01-02"]] },
    );

    expect(server.results[0]).toMatchObject({
      outcome: "SUCCEEDED",
      metadata: { day: "2025-01-02", args: ["--day", "2025-01-02"] },
    });
    expect(server.lines).toMatchObject([{ message: "for people", fields: { level: "warn" } }]);
  });

  test("fails with the exception", async () => {
    writeFileSync(join(folder, "broken.py"), 'raise ValueError("bad row")\n');
    const server = await attempted(python("broken.py", { cwd: folder }));
    expect(messageOf(server)).toMatch(
      /exit code 1.*stderr:\nTraceback(?:.*\n)*ValueError: bad row$/s,
    );
  });
});

describe("dbt", () => {
  test("runs the models with the task as variables", async () => {
    // Stands for dbt, and keeps what it was called with.
    const program = join(folder, "dbt");
    writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > ${join(folder, "called.txt")}\n`);
    chmodSync(program, 0o755);
    const server = await attempted(
      dbt({
        select: ["tag:daily", "orders+"],
        vars: ({ attempt }) => ({ attempt }),
        projectDir: "warehouse",
        target: "prod",
        args: ["--full-refresh"],
        env: { PATH: `${folder}:${process.env["PATH"] ?? ""}` },
      }),
      { partitions: daily({ start: "2025-01-01" }) },
      { tasks: [["2025-01-02"]] },
    );

    expect(server.results[0]).toMatchObject({ outcome: "SUCCEEDED" });
    const vars = {
      partition: "2025-01-02",
      partitions: ["2025-01-02"],
      window_start: "2025-01-02T00:00:00.000Z",
      window_end: "2025-01-03T00:00:00.000Z",
      attempt: 1,
    };
    const called = [
      ["run", "--select", "tag:daily", "orders+", "--vars", JSON.stringify(vars)],
      ["--project-dir", "warehouse", "--target", "prod", "--full-refresh"],
    ];
    expect((await written("called.txt")).split("\n")).toEqual(called.flat());
  });
});
