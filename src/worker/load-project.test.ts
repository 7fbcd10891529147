import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { forkWorker } from "./fork-worker.ts";

// Configurations are loaded in a process of their own, as in operation: the test runner has its own
// way to import files.
const folder = mkdtempSync(join(tmpdir(), "pawl-config-"));
let files = 0;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function config(text: string): string {
  const project = join(folder, String(++files));
  mkdirSync(project);
  const file = join(project, "pawl.config.ts");
  writeFileSync(file, text);
  return file;
}

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function load(configPath: string) {
  const worker = await forkWorker({ configPath, logger: quiet, loadMs: 120_000 });
  await worker.stop();
  return worker.loaded;
}

async function failureOf(configPath: string): Promise<{ code: string; message: string }> {
  const failure: unknown = await load(configPath).then(
    () => null,
    (error: unknown) => error,
  );
  expect(failure).toMatchObject({ name: "PawlError" });
  return failure as { code: string; message: string };
}

const DEFINE = 'import { asset, definePawl } from "pawl";\n';

describe("loadProject", () => {
  test.each(["default ", "const project = ", "const pawl = "])(
    "finds the project under export %s",
    async (name) => {
      const file = config(
        `${DEFINE}export ${name}definePawl({ assets: [asset("orders", { materialize() {} })] });`,
      );

      expect((await load(file)).specs).toMatchObject([{ kind: "asset", asset_key: "orders" }]);
    },
  );

  test("finds the parts of Pawl without an installation", async () => {
    const file = config(`
      import { definePawl, sync } from "pawl";
      import { evmLogs } from "pawl/evm";
      const logs = evmLogs({ rpc: "http://127.0.0.1:1", logs: () => [], store: async () => {} });
      export default definePawl({ syncs: [sync("transfers", { ...logs, from: 0 })] });
    `);

    expect((await load(file)).specs).toMatchObject([{ kind: "sync", name: "transfers" }]);
  });

  test("says that there is no file, and what to do", async () => {
    const { code, message } = await failureOf(join(folder, "nowhere.ts"));

    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain("pawl init");
  });

  test.each([
    ["a syntax error", "const a = 1;\n\nfunction ( {\n", ":3 is not valid TypeScript"],
    ["an enum", "enum Colour { red }\n", ":1 cannot run without a build"],
    ["a missing file", 'const a = 1;\nimport "./nope.ts";\n', ":2 imports "],
    ["a missing package", 'import "no-such-package";\n', "npm install no-such-package"],
    ["a thrown error", "const a: number = 1;\nnope();\n", ":2 failed while it was loaded"],
    ["a thrown null", "throw null;\n", " threw null while it was loaded"],
    [
      "an odd error",
      "throw Object.assign(new Error(), { message: { a: 1 }, stack: 5 });\n",
      '{"a":1}',
    ],
    [
      "an error that cannot be read",
      "throw Object.defineProperty(new Error(), 'message', { get() { throw 1; } });\n",
      "cannot be read",
    ],
    ["no export", "export const other = 1;\n", "exports no project"],
    ["an early exit", "process.exit(3);\n", "the exit code 3"],
    ["a part that is not there", 'import "pawl/nope";\n', "has no part pawl/nope"],
  ])("says in one line what is wrong with %s", async (_name, text, expected) => {
    const file = config(text);
    const { code, message } = await failureOf(file);

    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain(file);
    expect(message).toContain(expected);
    expect(message.split("\n").length).toBe(1);
  });

  test("names the line of a definition that is not valid", async () => {
    const file = config(`${DEFINE}\nasset("orders", { materialise() {} } as never);\n`);
    const { code, message } = await failureOf(file);

    expect(code).toBe("DEFINITION_INVALID");
    expect(message).toContain(`${file}:3: `);
    expect(message).toContain("Did you mean materialize?");
  });

  test("hears what the project itself says to the parent as nothing", async () => {
    const file = config(
      `${DEFINE}process.send?.("ready");
      export default definePawl({ assets: [asset("orders", { materialize() {} })] });`,
    );

    expect((await load(file)).specs).toMatchObject([{ asset_key: "orders" }]);
  });

  test("does not wait for ever", async () => {
    const file = config("await new Promise((resolve) => setTimeout(resolve, 60_000));\n");
    const forked = forkWorker({ configPath: file, logger: quiet, loadMs: 500 });

    await expect(forked).rejects.toThrow(/not loaded after 500 ms/);
  });
});
