import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readSource } from "../repo/source-files.ts";
import { alike, blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";

const RUN_MS_MAX = 240_000;

/** A line of output without how far the syncs were just then; empty for what is not always there. */
function alikeSync(line: string): string {
  return alike(line)
    .replace(/\b(?:PENDING|RUNNING|FOLLOWING)\b/, "STATUS")
    .replaceAll(/#(?:,#)+/g, "#")
    .replaceAll(/(?<= )(?:-|#\/s)(?= |$)/g, "#")
    .replace(/^(synced to|segments|progress) .*/, "$1")
    .replace(/^(?:rate|#) .*|^█.*/, "");
}

describe("examples/wallet-sync/README.md", () => {
  const clone = cloneLike("wallet-sync");
  // The demonstration is this whole page once more, and has a test of its own.
  const blocks = blocksOf(readSource("examples/wallet-sync/README.md")).filter(
    ({ commands }) => commands !== "node demo.ts\n",
  );
  let printed: string[] = [];
  beforeAll(async () => {
    printed = await runBlocks(join(clone, "examples", "wallet-sync"), blocks, RUN_MS_MAX);
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
      const actual = new Set((printed[index] ?? "").split("\n").map(alikeSync));
      const missing = output
        .split("\n")
        .filter((line) => alikeSync(line) !== "" && !actual.has(alikeSync(line)));
      expect(missing, printed[index]).toEqual([]);
    }
  });
});
