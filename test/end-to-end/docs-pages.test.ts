import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { needPython } from "../python.ts";
import { readSource } from "../repo/source-files.ts";
import { ROOT } from "./example-project.ts";
import { alike, blocksOf, runBlocks } from "./readme-blocks.ts";

// Recipes and pages for who comes from other systems. A block whose first line is the name of a file is that
// file; commands are run in the folder of their page, with the package as users have it; code of other systems
// is marked as `other`.

const RUN_MS_MAX = 800_000;
const PAGES = ["recipes", "coming-from"]
  .flatMap((folder) => readdirSync(join(ROOT, "docs", folder)).map((name) => `${folder}/${name}`))
  .concat("start.md", "concepts.md", "index.md")
  .map((name) => `docs/${name}`);
const FILE = /^```\w+\n(?:\/\/|#) ([\w.-]+\.\w+)\n(.*?)^```$/gms;
const MODULES = ["@types", "better-sqlite3", "express", "fastify", "viem"];

type Page = { page: string; folder: string; files: { name: string; text: string }[] };

const root = mkdtempSync(join(tmpdir(), "pawl-pages-"));
const pages = PAGES.map((page): Page => {
  const folder = join(root, page.replaceAll(/[/.]/g, "-"));
  const found = [...readSource(page).matchAll(FILE)];
  return { page, folder, files: found.map(([, name = "", text = ""]) => ({ name, text })) };
});

beforeAll(() => {
  needPython();
  const modules = join(root, "node_modules");
  mkdirSync(modules);
  symlinkSync(join(dirname(inject("pawlCommand")), ".."), join(modules, "pawl"));
  for (const name of MODULES) symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  put(join(root, "package.json"), JSON.stringify({ type: "module", private: true }));
  put(
    join(root, "bin", "pawl"),
    `#!/bin/sh\nexec "${process.execPath}" "${inject("pawlCommand")}" "$@"\n`,
  );
  chmodSync(join(root, "bin", "pawl"), 0o755);
  for (const { folder, files } of pages) {
    mkdirSync(folder);
    for (const { name, text } of files) put(join(folder, name), text);
  }
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function put(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

test("the pages have nothing but blocks that are tried, and code of other systems", () => {
  for (const { page, files } of pages) {
    const text = readSource(page);
    const others = text.match(/^```\w+ other$/gm)?.length ?? 0;
    const shown = blocksOf(text).flatMap(({ output }) => (output === null ? [1] : [1, 1])).length;
    const all = (text.match(/^```/gm)?.length ?? 0) / 2;
    expect(files.length + others + shown, page).toBe(all);
  }
  expect(pages.flatMap(({ files }) => files).length).toBeGreaterThan(15);
});

test("all TypeScript of them compiles", async () => {
  const source = (...path: string[]): string[] => [join(ROOT, "src", ...path)];
  const compilerOptions = {
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    module: "nodenext",
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    noPropertyAccessFromIndexSignature: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    paths: {
      pawl: source("index.ts"),
      "pawl/evm": source("evm", "index.ts"),
      "pawl/test": source("testing", "index.ts"),
      "pawl/embedded": source("embedded", "index.ts"),
    },
  };
  const files = pages.flatMap(({ folder, files: all }) =>
    all.filter(({ name }) => name.endsWith(".ts")).map(({ name }) => join(folder, name)),
  );
  put(join(root, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const said = await promisify(execFile)(process.execPath, [tsc, "-p", root]).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
  expect(said).toBe("");
});

describe.each(pages.filter(({ page }) => blocksOf(readSource(page)).length > 0))(
  "$page",
  ({ page, folder }) => {
    const blocks = blocksOf(readSource(page));

    test("has commands that work and print what it shows", async () => {
      const printed = await runBlocks(folder, await placed(blocks), RUN_MS_MAX);
      expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
      expect(printed, printed.join("")).toHaveLength(blocks.length + 2);
      for (const [index, { output }] of blocks.entries()) {
        const lines = (printed[index + 1] ?? "").split("\n").map(alike);
        const wanted = (output ?? "").split("\n").filter((line) => line !== "");
        expect(
          wanted.filter((line) => !lines.includes(alike(line))),
          printed[index + 1],
        ).toEqual([]);
      }
    });

    /**
     * Where the page names a database and a machine, those of the test. A file is some time old: sensors leave
     * alone what was written just now, and a person types slower than a test.
     */
    async function placed(all: typeof blocks): Promise<typeof blocks> {
      const text = all.map(({ commands }) => commands).join("");
      const places: [string, string][] = [["touch incoming/", "touch -d '1 minute ago' incoming/"]];
      if (text.includes("db.example")) {
        const port = await freePort();
        places.push(["postgres://pawl@db.example/pawl", await freshDatabaseUrl()]);
        places.push(["pawl.example:7290", `127.0.0.1:${port}`], ["--port 7290", `--port ${port}`]);
      }
      const path = { commands: `export PATH="${root}/bin:$PATH"\n`, output: null };
      const rest = all.map(({ commands, output }) => ({
        commands: places.reduce((said, [name, real]) => said.replaceAll(name, real), commands),
        output,
      }));
      return [path, ...rest];
    }
  },
);

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0));
    });
  });
}
