import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { needPython } from "../python.ts";
import { readSource } from "../repo/source-files.ts";
import { alike, blocksOf, runBlocks } from "./readme-blocks.ts";

const RUN_MS_MAX = 800_000;
/** A block that is a file: the line before it begins with its name. */
const FILE = /^`([\w./-]+)` [^\n]*:\n\n```\w+\n(.*?)^```$/gms;

describe("docs/guide/other-languages.md", () => {
  const page = readSource("docs/guide/other-languages.md");
  const files = [...page.matchAll(FILE)].map(([, name = "", text = ""]) => ({ name, text }));
  const blocks = blocksOf(page);
  let folder: string;
  let printed: string[] = [];

  beforeAll(async () => {
    needPython();
    folder = mkdtempSync(join(tmpdir(), "pawl-languages-"));
    for (const { name, text } of files) put(name, text);
    // The clone's own Node is first on the path of a test run; dbt cannot be installed with npm, so a
    // script stands for it, which takes what dbt is called with and refuses all else.
    put("bin/pawl", `#!/bin/sh\nexec "${process.execPath}" "${inject("pawlCommand")}" "$@"\n`);
    put(
      "bin/dbt",
      '#!/bin/sh\n[ "$1 $2 $3 $4" = "run --select tag:daily --vars" ] || exit 2\necho "$5"\n',
    );
    const url = await freshDatabaseUrl();
    const placed = blocks.map(({ commands, output }) => ({
      commands: commands.replace("postgres://pawl@db.example/warehouse", url),
      output,
    }));
    const path = { commands: `export PATH="${folder}/bin:$PATH"\n`, output: null };
    printed = await runBlocks(folder, [path, ...placed], RUN_MS_MAX);
  }, RUN_MS_MAX + 60_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function put(name: string, text: string): void {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (name.startsWith("bin/")) chmodSync(file, 0o755);
  }

  test("has no block that is not tried", () => {
    const shown = blocks.filter(({ output }) => output !== null).length;
    expect(page.match(/^```\w+$/gm)).toHaveLength(files.length + blocks.length + shown);
    expect(files.length).toBeGreaterThan(4);
  });

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
