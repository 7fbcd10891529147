import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
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
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { writeTypes } from "../../scripts/build-package.ts";

// The package as npm publishes it, installed into a project that has nothing else. What it depends on
// is linked from here: only what its package.json names can be found.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MODULES = join(ROOT, "node_modules");
const BUILD_MS = 600_000;
const run = promisify(execFile);

let folder = "";
/** The files of the package, as they lie in it. */
let files: string[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-package-"));
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const installed = join(folder, "node_modules", "pawl");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["xzf", pack(), "-C", installed, "--strip-components=1"]);
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
}, BUILD_MS);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Packs the package that the tests run, with its types; the page is not needed here. */
function pack(): string {
  const built = join(dirname(inject("pawlCommand")), "..");
  const staged = join(folder, "staged");
  const page = join(built, "dist", "ui");
  cpSync(built, staged, { recursive: true, filter: (path) => path !== page });
  for (const name of ["README.md", "CHANGELOG.md", "LICENSE"]) {
    cpSync(join(ROOT, name), join(staged, name));
  }
  writeTypes(join(staged, "dist"));
  const args = ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder];
  const tarball = execFileSync("npm", args, { cwd: staged, encoding: "utf8" }).trim();
  return join(folder, tarball);
}

function put(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function pawl(...args: string[]): Promise<{ stdout: string }> {
  const command = join(folder, "node_modules", "pawl", "bin", "pawl");
  return run(process.execPath, [command, ...args], { cwd: folder });
}

const CONFIG = `
import { asset, definePawl, integers } from "pawl";

const numbers = asset("numbers", {
  partitions: integers({ start: 0, end: 8 }),
  materialize: ({ partitions }) => ({ metadata: { count: partitions.length } }),
});
  export default definePawl({ assets: [numbers] });
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

test("ships bundles, types with their sources, the schema, and nothing else", () => {
  const expected = [
    /^bin\/(pawl|package\.json)$/,
    /^dist\/(index|cli\/main|evm\/index|chunks\/[\w-]+)\.js(\.map)?$/,
    /^dist\/(?!ui\/)[\w/-]+\.d\.ts(\.map)?$/,
    /^dist\/src\/[\w/-]+\.ts$/,
    /^dist\/THIRD-PARTY-LICENSES\.txt$/,
    /^schema\/(sqlite|postgres)\//,
    /^(package\.json|README\.md|CHANGELOG\.md|LICENSE)$/,
  ];
  expect(files.filter((file) => !expected.some((each) => each.test(file)))).toEqual([]);
  expect(files).toContain("dist/index.d.ts");
  expect(files.filter((file) => file.endsWith(".test.ts"))).toEqual([]);
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

test.for([
  { moduleResolution: "nodenext", module: "nodenext", files: ["pawl.config.ts", "app.ts"] },
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
  "runs the command and a backfill",
  async () => {
    expect((await pawl("--help")).stdout).toMatch(/^Usage: pawl \[options\] \[command\]\n/);
    const { stdout } = await pawl("backfill", "create", "numbers", "--all", "--wait");
    expect(stdout).toContain("SUCCEEDED: 8 succeeded of 8 partitions");
  },
  BUILD_MS,
);
