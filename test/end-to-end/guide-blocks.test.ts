import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { readSource } from "../repo/source-files.ts";
import { plainEnvironment, ROOT } from "./example-project.ts";

// Every block of these pages begins with the name of its file. All are compiled, and each is run with the
// package as users have it.

const run = promisify(execFile);
const MODULES = join(ROOT, "node_modules");
const PAGES = ["docs/guide/testing.md", "docs/guide/embedding.md"];
const BLOCK = /^```ts\n\/\/ (\S+)\n(.*?)^```$/gms;

const blocksOf = (page: string): [name: string, text: string][] =>
  [...readSource(page).matchAll(BLOCK)].map(([, name = "", text = ""]) => [name, text]);

let folder = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-guide-"));
  mkdirSync(join(folder, "node_modules"));
  const built = join(dirname(inject("pawlCommand")), "..");
  symlinkSync(built, join(folder, "node_modules", "pawl"));
  for (const name of ["vitest", "@types"]) {
    symlinkSync(join(MODULES, name), join(folder, "node_modules", name));
  }
  put("package.json", JSON.stringify({ type: "module", private: true }));
  for (const page of PAGES) for (const [name, text] of blocksOf(page)) put(name, text);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function put(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

/** The environment of a user, who runs these outside of any other test. */
function environment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const entries = Object.entries(plainEnvironment()).filter(
    ([name]) => !/^(?:VITEST|NODE_OPTIONS|NODE_TEST|NODE_ENV|TEST$)/.test(name),
  );
  return { ...Object.fromEntries(entries), NO_COLOR: "1", ...more };
}

type Ended = { stdout: string; stderr: string; code: number };

async function node(args: readonly string[], more: Record<string, string> = {}): Promise<Ended> {
  const options = { cwd: folder, env: environment(more) };
  return run(process.execPath, args, options).then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    (failure: Ended) => failure,
  );
}

test("the pages have nothing but blocks that are tried", () => {
  for (const page of PAGES) {
    const all = [...readSource(page).matchAll(/^```\w*$/gm)].length / 2;
    expect(blocksOf(page), page).toHaveLength(all);
  }
});

test("all blocks compile", async () => {
  const source = (name: string): string[] => [join(ROOT, "src", name, "index.ts")];
  put(
    "tsconfig.json",
    JSON.stringify({
      compilerOptions: {
        target: "es2024",
        lib: ["es2024", "esnext.disposable"],
        module: "nodenext",
        types: ["node"],
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        skipLibCheck: true,
        allowImportingTsExtensions: true,
        resolveJsonModule: true,
        noPropertyAccessFromIndexSignature: true,
        paths: {
          pawl: [join(ROOT, "src", "index.ts")],
          "pawl/test": source("testing"),
          "pawl/embedded": source("embedded"),
        },
      },
      files: PAGES.flatMap((page) => blocksOf(page).map(([name]) => name)),
    }),
  );
  const { stdout } = await node([join(MODULES, "typescript", "bin", "tsc"), "-p", folder]);
  expect(stdout).toBe("");
});

describe("docs/guide/testing.md", () => {
  test("has tests that pass in Vitest", async () => {
    const vitest = join(MODULES, "vitest", "vitest.mjs");
    const args = [vitest, "run", "--root", folder, "--testTimeout=600000"];
    const { code, stdout, stderr } = await node(args);
    expect(code, stdout + stderr).toBe(0);
    const files = blocksOf("docs/guide/testing.md").filter(([name]) => name.endsWith(".test.ts"));
    const tests = files.map(([, text]) => text.match(/^test\(/gm)?.length ?? 0);
    const all = tests.reduce((sum, count) => sum + count, 0);
    expect(all).toBeGreaterThan(5);
    expect(stdout).toMatch(new RegExp(`Tests\\s+${all} passed \\(${all}\\)`));
  });

  test("has a test that passes in node:test", async () => {
    const { code, stdout } = await node(["--test", "orders.node-test.ts"]);
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/pass 1$/m);
  });

  test("says rightly that a fake Date is fine", async () => {
    mkdirSync(join(folder, "dates"));
    put(
      "dates/date.test.ts",
      `import { expect, test, vi } from "vitest";
      import { materialize } from "pawl/test";
      import { orders } from "../project.ts";
      test("with a fake date", async () => {
        vi.useFakeTimers({ toFake: ["Date"] });
        vi.setSystemTime("2026-01-07T00:00:00Z");
        const { calls } = await materialize(orders);
        vi.useRealTimers();
        expect(calls.at(-1)?.partition).toBe("2026-01-06");
      });`,
    );
    const vitest = join(MODULES, "vitest", "vitest.mjs");
    const ended = await node([vitest, "run", "--root", join(folder, "dates")]);
    rmSync(join(folder, "dates"), { recursive: true });
    expect(ended.code, ended.stdout + ended.stderr).toBe(0);
  });
});

describe("docs/guide/embedding.md", () => {
  test("fills a week and stops", async () => {
    const { code, stdout, stderr } = await node(["basic.ts"]);
    expect(code, stderr).toBe(0);
    expect(stdout).toBe("SUCCEEDED 7\n");
  });

  test("answers below a path of a server of Node", async () => {
    const { code, stdout, stderr } = await node(["server.ts"]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^200 \{/);
    expect(stdout).toContain("'report'");
  });

  test("answers as a route handler, and wants a token", async () => {
    put(
      "call-route.ts",
      `import { GET } from "./route.ts";
      const answer = await GET(new Request("http://localhost/api/v1/orchestration/runs"));
      console.log(answer.status, (await answer.json()).code);
      await (await globalThis.pawl).stop();`,
    );
    const { code, stdout, stderr } = await node(["call-route.ts"]);
    expect(code, stderr).toBe(0);
    expect(stdout).toBe("401 UNAUTHORIZED\n");
  });

  test("makes a pass for a cron job, on PostgreSQL too", async () => {
    put(
      "call-cron.ts",
      `import { cron } from "./cron.ts";
      const answer = await cron();
      console.log(JSON.stringify(await answer.json()));`,
    );
    const databases = [{}, { PAWL_STORE: await freshDatabaseUrl() }];
    for (const more of databases) {
      const { code, stdout, stderr } = await node(["call-cron.ts"], more);
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ idle: true });
    }
  });
});
