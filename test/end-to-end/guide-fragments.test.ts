import { execFile } from "node:child_process";
import { globSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import * as pawl from "../../src/index.ts";
import { readSource } from "../repo/source-files.ts";
import { ROOT } from "./example-project.ts";

// TypeScript of the guide that is no whole file, and is compiled as it would be in one: what it names is
// what Pawl exports, or the reader's own, of which nothing is known.

const run = promisify(execFile);
const PAGES = globSync(["docs/*.md", "docs/guide/*.md"], { cwd: ROOT }).toSorted();
const BLOCK = /^```ts\n(.*?)^```$/gms;
/** A block that begins with the name of its file is compiled, and run, elsewhere. */
const NAMED = /^\/\/ [\w.-]+\.\w+\n/;

/** What the compiler says of a name that is nowhere. */
const UNKNOWN =
  /^block-(\d+)\.ts.*(?:Cannot find name|in scope for the shorthand property) '(\w+)'/;

const folder = mkdtempSync(join(tmpdir(), "pawl-fragments-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));

const blocks = PAGES.flatMap((page) =>
  [...readSource(page).matchAll(BLOCK)]
    .map(([, text = ""], index) => ({ page, index, text }))
    .filter(({ text }) => !NAMED.test(text)),
);

/** Compiles the blocks, each with the names that are the reader's; answers what is wrong. */
async function compile(own: (block: number) => readonly string[]): Promise<string[]> {
  const files = blocks.map(({ text }, at) => {
    const isModule = /^(?:import|export) /m.test(text);
    const used = Object.keys(pawl).filter((name) => new RegExp(`\\b${name}\\b`).test(text));
    const imports = isModule ? "" : `import { ${used.join(", ")} } from "pawl";`;
    const declared = own(at).map((name) => `declare const ${name}: any;`);
    const code = isModule ? text : `export async function fragment() {\n${text}}`;
    const file = `block-${at}.ts`;
    writeFileSync(join(folder, file), `${imports} ${declared.join(" ")}\n${code}`);
    return file;
  });
  const compilerOptions = {
    target: "es2024",
    module: "nodenext",
    types: ["node"],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    paths: { pawl: [join(ROOT, "src/index.ts")], "pawl/evm": [join(ROOT, "src/evm/index.ts")] },
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const { stdout } = await run(process.execPath, [tsc, "-p", folder], { cwd: folder }).catch(
    (failure: { stdout: string }) => failure,
  );
  return stdout.split("\n").filter((line) => line !== "");
}

test("TypeScript in the guide compiles, apart from what is the reader's", async () => {
  expect(blocks.length).toBeGreaterThan(15);
  const own = new Map<number, string[]>();
  for (const line of await compile(() => [])) {
    const [, at, name = ""] = UNKNOWN.exec(line) ?? [];
    if (at !== undefined && !Object.hasOwn(pawl, name)) {
      own.set(Number(at), [...new Set([...(own.get(Number(at)) ?? []), name])]);
    }
  }
  const wrong = await compile((block) => own.get(block) ?? []);
  const where = (line: string) =>
    line.replace(/^block-(\d+)\.ts/, (_, at) => blocks[Number(at)]?.page ?? "");
  expect(wrong.map(where)).toEqual([]);
});
