import { existsSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { readSource } from "../repo/source-files.ts";
import { ROOT } from "./example-project.ts";
import { alike, blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0));
    });
  });
}

const RUN_MS_MAX = 800_000;
const PAGES = [
  "schedules",
  "sensors",
  "freshness",
  "notifications",
  "syncs",
  "splits",
  "moves",
  "routing",
  "testing",
  "embedding",
  "other-languages",
].map((page) => `guide/${page}`);
const EXAMPLES = ["sales", "wallet-sync", "live-split", "python-worker"].map(
  (name) => `examples/${name}/README.md`,
);
const DOCUMENTS = [
  "guide",
  ...PAGES,
  "operating",
  "worker-protocol",
  "events",
  "errors",
  "architecture",
].map((name) => `docs/${name}.md`);

describe("README.md", () => {
  const folder = cloneLike("sales");
  // Those before are what is done without a clone: test/end-to-end/install.test.ts runs them.
  const [, inClone = ""] = readSource("README.md").split("## Five minutes");
  const blocks = blocksOf(inClone);
  let printed: string[] = [];
  beforeAll(async () => {
    const port = await freePort();
    const places: [string, string][] = [
      ["postgres://pawl@db.example/pawl", await freshDatabaseUrl()],
      ["pawl.example:7290", `127.0.0.1:${port}`],
      ["--port 7290", `--port ${port}`],
    ];
    const placed = blocks.map(({ commands, output }) => ({
      commands: places.reduce((text, [said, real]) => text.replaceAll(said, real), commands),
      output,
    }));
    printed = await runBlocks(folder, placed, RUN_MS_MAX);
  }, RUN_MS_MAX + 60_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has commands that all work, in the order they stand there", () => {
    expect(blocks.length).toBeGreaterThan(10);
    expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
    expect(printed, printed.join("")).toHaveLength(blocks.length + 1);
  });

  test("shows what the commands print", () => {
    for (const [index, { output }] of blocks.entries()) {
      if (output === null) continue;
      const actual = new Set((printed[index] ?? "").split("\n").map(alike));
      const missing = output.split("\n").filter((line) => line !== "" && !actual.has(alike(line)));
      expect(missing, printed[index]).toEqual([]);
    }
  });

  test("links to what is there, as the other documents do", () => {
    const documents = ["README.md", ...EXAMPLES, ...DOCUMENTS];
    const broken = documents.flatMap((path) =>
      [...readSource(path).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)]
        .map(([, target = ""]) => join(dirname(path), target))
        .filter((target) => !existsSync(join(ROOT, target)))
        .map((target) => `${path} links to ${target}`),
    );
    expect(broken).toEqual([]);
  });
});
