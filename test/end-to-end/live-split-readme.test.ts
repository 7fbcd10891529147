import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readSource } from "../repo/source-files.ts";
import { alike, blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";

const RUN_MS_MAX = 240_000;

/** A line of output without how far the split was just then; empty for what is not always there. */
function alikeSplit(line: string): string {
  return alike(line)
    .replaceAll(/#(?:,#)+/g, "#")
    .replace(/\S+:#:ID/, "WORKER")
    .replace(/^(?:…|[a-z_]+, .* rows copied.*)$/, "")
    .replace(/^[✓▶] planning .*/, "PHASES")
    .replace(/^(phase|step|backfill|tail|verification) .*/, "$1")
    .replace(/^✓ lag: .*/, "LAG");
}

describe("examples/live-split/README.md", () => {
  const clone = cloneLike("live-split");
  // The demonstrations are this whole page once more, and have tests of their own.
  const blocks = blocksOf(readSource("examples/live-split/README.md")).filter(
    ({ commands }) => !commands.startsWith("node demo.ts"),
  );
  let printed: string[] = [];
  beforeAll(async () => {
    printed = await runBlocks(join(clone, "examples", "live-split"), blocks, RUN_MS_MAX);
  }, RUN_MS_MAX + 30_000);
  afterAll(() => rmSync(clone, { recursive: true, force: true }));

  test("has commands that all work, in the order they stand there", () => {
    expect(blocks.length).toBeGreaterThan(8);
    expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
    expect(printed).toHaveLength(blocks.length + 1);
  });

  test("shows what the commands print", () => {
    for (const [index, { output }] of blocks.entries()) {
      if (output === null) continue;
      const actual = new Set((printed[index] ?? "").split("\n").map(alikeSplit));
      const missing = output
        .split("\n")
        .filter((line) => alikeSplit(line) !== "" && !actual.has(alikeSplit(line)));
      expect(missing, printed[index]).toEqual([]);
    }
  });
});
