import { execFile, execFileSync } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packedPackage } from "./npm-registry.ts";

// The package as npm publishes it, installed into a project that has nothing else. What it depends on
// is linked from here: only what its package.json names can be found.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MODULES = join(ROOT, "node_modules");
const BUILD_MS = 600_000;
const run = promisify(execFile);

let folder = "";
/** The files of the package, as they lie in it. */
let files: string[] = [];

beforeAll(async () => {
  const packed = await packedPackage();
  folder = mkdtempSync(join(tmpdir(), "pawl-package-"));
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const installed = join(folder, "node_modules", "pawl");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["xzf", packed, "-C", installed, "--strip-components=1"]);
  files = globSync("**", { cwd: installed, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(installed.length + 1));
  const types = ["viem", "@types/node"];
  for (const name of [...Object.keys(dependencies), ...types]) {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(join(MODULES, name), join(folder, "node_modules", name));
  }
  put("package.json", JSON.stringify({ type: "module", private: true }));
  put("pawl.config.ts", CONFIG);
  put("app.ts", APP);
  put("evm.ts", EVM);
  put("numbers.test.ts", TESTS);
  put("service.ts", SERVICE);
  put("fails.ts", FAILS);
}, BUILD_MS);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function put(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function pawl(...args: string[]): Promise<{ stdout: string }> {
  const command = join(folder, "node_modules", "pawl", "bin", "pawl");
  return run(process.execPath, [command, ...args], { cwd: folder });
}

const CONFIG = `
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { asset, definePawl, DoNotRetry, integers, sensor, sync, type TimeWindow } from "pawl";

// The signal of a context is the platform's own, in whatever takes one.
const download = asset("download", {
  materialize: async ({ signal, window }) => {
    const either = AbortSignal.any([signal, AbortSignal.timeout(1_000)]);
    await fetch("http://127.0.0.1:1/", { signal: either });
    await sleep(1, undefined, { signal });
    execFile("true", { signal });
    const known: TimeWindow | null = window;
    if (known !== null && Date.parse(known.end) < 0) throw new DoNotRetry("It is over.");
  },
});
export const files = sensor("files", {
  evaluate: async ({ signal }) => void (await fetch("http://127.0.0.1:1/", { signal })),
});
export const blocks = sync("blocks", {
  targets: [{ of: "one" }],
  from: 1,
  to: 2,
  fetch: async (_range, { signal }) => void (await fetch("http://127.0.0.1:1/", { signal })),
});

const numbers = asset("numbers", {
  partitions: integers({ start: 0, end: 8 }),
  materialize: ({ partitions }) => ({ metadata: { count: partitions.length } }),
});
const broken = asset("broken", {
  retry: { maxAttempts: 1 },
  materialize({ attempt }) {
    if (attempt > 0) throw new Error("Nothing here.");
  },
});
  export default definePawl({ assets: [numbers, download, broken] });
`;

const APP = `
import { createClient, createRouter, type ErrorCode, type EventData, PawlError } from "pawl";

export async function backfillIds(): Promise<string[]> {
  const client = createClient({ url: "http://127.0.0.1:7290" });
  const { items } = await client.call("listBackfills", { query: { limit: 10 } });
  return items.map((each) => each.backfill_id);
}
export const code: ErrorCode = new PawlError("INTERNAL", "A text.").code;
export type Requested = EventData<"RunRequested">;
// @ts-expect-error There is no such operation, and the types know.
export const wrong = createClient({ url: "" }).call("listNothing");
export { createRouter };
`;

const EVM = `
import { evmLogs } from "pawl/evm";

export { evmLogs };
`;

const TESTS = `
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset, skip, staticPartitions } from "pawl";
import { materialize, type TestCall } from "pawl/test";

const numbers = asset("numbers", {
  partitions: staticPartitions(["zero", "one", "two"]),
  materialize({ partition }) {
    if (partition === "one") throw skip("One is none.");
  },
});

test("skips one", async () => {
  const { calls } = await materialize(numbers);
  const outcomes = calls.map((call: TestCall) => call.outcome);
  assert.deepEqual(outcomes, ["SUCCEEDED", "SKIPPED", "SUCCEEDED"]);
});
`;

const FAILS = `
import { daily } from "pawl";

try {
  daily({ start: "never" });
} catch (error) {
  console.log((error as Error).stack);
}
`;

const SERVICE = `
import { startPawl, type EmbeddedPawl } from "pawl/embedded";
import project from "./pawl.config.ts";

const pawl: EmbeddedPawl = await startPawl({ project, store: "service" });
const { backfill_id } = await pawl.client.call("createBackfill", {
  body: { assets: ["numbers"], selector: { type: "all" } },
});
const { state } = await pawl.client.backfills.waitFor(backfill_id);
console.log(state);
await pawl.stop();
`;

test("ships bundles, types with their sources, the schema, the page, texts, and nothing else", () => {
  const expected = [
    /^bin\/(pawl|package\.json)$/,
    /^dist\/(index|cli\/main|(evm|testing|embedded)\/index|chunks\/[\w-]+)\.js(\.map)?$/,
    /^dist\/[\w/-]+\.d\.ts(\.map)?$/,
    /^dist\/ui\/(index\.html|[\w-]+\/[\w.-]+|[\w-]+\.\w+)$/,
    /^dist\/src\/[\w/-]+\.ts$/,
    /^dist\/THIRD-PARTY-LICENSES\.txt$/,
    /^schema\/(sqlite|postgres)\//,
    /^templates\/(every|assets|duckdb|api-sync|evm|shards)\/[\w.-]+$/,
    /^docs\/([\w/-]+\.md|(drawings|images)\/[\w-]+\.(png|svg))$/,
    /^examples\/[\w-]+\/(inbox\/)?[\w.-]+$/,
    /^(package\.json|(README|CHANGELOG|CONTRIBUTING)\.md|LICENSE)$/,
  ];
  expect(files.filter((file) => !expected.some((each) => each.test(file)))).toEqual([]);
  expect(files).toContain("dist/index.d.ts");
  expect(files.filter((file) => /^(?!templates).*\.test\.ts$/.test(file))).toEqual([]);
});

test("leads from a type to the source of it", () => {
  const maps = files.filter((file) => file.endsWith(".d.ts.map"));
  const sources = maps.map((file) => {
    const text = readFileSync(join(folder, "node_modules", "pawl", file), "utf8");
    const [source = ""] = (JSON.parse(text) as { sources: string[] }).sources;
    return resolve("/", dirname(file), source).slice(1);
  });
  expect(sources.length).toBeGreaterThan(0);
  expect(sources.filter((source) => !files.includes(source))).toEqual([]);
});

test("has what its documents link to", () => {
  const installed = join(folder, "node_modules", "pawl");
  const known = new Set(files.flatMap((file) => [file, dirname(file)]));
  const broken = files
    .filter((file) => file.endsWith(".md"))
    .flatMap((file) =>
      [...readFileSync(join(installed, file), "utf8").matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
        .map(([, link = ""]) => link)
        .filter((link) => !/^[a-z]+:/.test(link) && !known.has(join(dirname(file), link)))
        .map((link) => `${file} links to ${link}`),
    );
  expect(broken).toEqual([]);
});

test(
  "shows the user's own line where the user's code fails, and the line of the source where Pawl does",
  async () => {
    await pawl("backfill", "create", "broken", "--all", "--wait").catch(() => undefined);
    const [, at = ""] =
      /pawl\.config\.ts:(\d+):\d+/.exec((await pawl("logs", "broken")).stdout) ?? [];
    expect(CONFIG.split("\n")[Number(at) - 1]).toContain('throw new Error("Nothing here.")');

    const args = ["--enable-source-maps", "fails.ts"];
    const { stdout } = await run(process.execPath, args, { cwd: folder });
    const [, file = "", line = ""] = /\/(src\/[\w/-]+\.ts):(\d+):\d+/.exec(stdout) ?? [];
    const source = readFileSync(join(ROOT, file), "utf8").split("\n");
    expect(source[Number(line) - 1]).toMatch(/throw new PawlError\(/);
  },
  BUILD_MS,
);

test("has the sources in its source maps", () => {
  const maps = files.filter((file) => /^dist\/(?!ui\/).*\.js\.map$/.test(file));
  const parsed = maps.map((file) => {
    const text = readFileSync(join(folder, "node_modules", "pawl", file), "utf8");
    return JSON.parse(text) as { sources: string[]; sourcesContent: (string | null)[] };
  });
  const ours = parsed.flatMap(({ sources, sourcesContent }) =>
    sources.map((source, index) => [source, sourcesContent[index]] as const),
  );
  expect(ours.length).toBeGreaterThan(100);
  expect(ours.filter(([, content]) => typeof content !== "string" || content === "")).toEqual([]);
});

test.for([
  {
    moduleResolution: "nodenext",
    module: "nodenext",
    files: ["pawl.config.ts", "app.ts", "numbers.test.ts", "service.ts"],
  },
  // Where viem is resolved as well, which has more types than all else.
  { moduleResolution: "bundler", module: "esnext", files: ["app.ts", "evm.ts"] },
])(
  "has types that compile without skipLibCheck, resolved as $moduleResolution does",
  { timeout: BUILD_MS },
  async ({ moduleResolution, module, files: sources }) => {
    put(
      "tsconfig.json",
      JSON.stringify({
        compilerOptions: {
          target: "es2022",
          module,
          moduleResolution,
          types: ["node"],
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: false,
          noEmit: true,
          allowImportingTsExtensions: true,
        },
        files: sources,
      }),
    );
    const tsc = join(MODULES, "typescript", "bin", "tsc");
    const { stdout } = await run(process.execPath, [tsc, "-p", folder]).catch(
      (failure: { stdout: string }) => failure,
    );
    expect(stdout).toBe("");
  },
);

test(
  "says what to install where the logs of a chain are read without viem",
  async () => {
    const viem = join(folder, "node_modules", "viem");
    rmSync(viem);
    try {
      const options = { cwd: folder };
      const script = 'import("pawl/evm").catch((e) => console.log(e.code, e.message))';
      const { stdout } = await run(process.execPath, ["-e", script], options);
      expect(stdout).toBe(
        "CONFIG_INVALID pawl/evm needs the package viem, which is not installed. " +
          "Run `npm install viem` in the project.\n",
      );
      put("chain.config.ts", EVM);
      const failed = await pawl("--config", "chain.config.ts", "deploy").catch(
        (failure: { code: number; stderr: string }) => failure,
      );
      expect(failed).toMatchObject({ code: 2 });
      expect(failed).toMatchObject({ stderr: expect.stringContaining("`npm install viem`") });
    } finally {
      symlinkSync(join(MODULES, "viem"), viem);
    }
  },
  BUILD_MS,
);

test(
  "runs the command and a backfill",
  async () => {
    expect((await pawl("--help")).stdout).toMatch(/^Usage: pawl \[options\] \[command\]\n/);
    const { stdout } = await pawl("backfill", "create", "numbers", "--all", "--wait");
    expect(stdout).toContain("SUCCEEDED: 8 succeeded of 8 partitions");
  },
  BUILD_MS,
);

test(
  "runs a project's own tests, and inside a service",
  async () => {
    const node = (...args: string[]) => run(process.execPath, args, { cwd: folder });
    expect((await node("--test", "numbers.test.ts")).stdout).toMatch(/pass 1$/m);
    expect((await node("service.ts")).stdout).toBe("SUCCEEDED\n");
  },
  BUILD_MS,
);
