import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { readSource } from "../repo/source-files.ts";
import { blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";

const RUN_MS_MAX = 800_000;

/**
 * Runs the page of an example from its first command to its last, and compares what is printed with
 * what it says; `alike` takes from a line what differs from run to run, all of it for what is not
 * always there.
 */
export function exampleReadme(name: string, alike: (line: string) => string): void {
  describe(`examples/${name}/README.md`, () => {
    // As packaged, it starts in half the time; the README of Pawl is run from the sources.
    const clone = cloneLike(name, dirname(inject("pawlCommand")));
    // A demonstration is the whole page once more, and has a test of its own.
    const blocks = blocksOf(readSource(`examples/${name}/README.md`)).filter(
      ({ commands }) => !commands.startsWith("node demo.ts"),
    );
    let printed: string[] = [];
    beforeAll(async () => {
      printed = await runBlocks(join(clone, "examples", name), blocks, RUN_MS_MAX);
    }, RUN_MS_MAX + 60_000);
    afterAll(() => rmSync(clone, { recursive: true, force: true }));

    test("has commands that all work, in the order they stand there", () => {
      expect(blocks.length).toBeGreaterThan(8);
      expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
      expect(printed, printed.join("")).toHaveLength(blocks.length + 1);
    });

    test("shows what the commands print", () => {
      for (const [index, { output }] of blocks.entries()) {
        if (output === null) continue;
        const actual = new Set((printed[index] ?? "").split("\n").map(alike));
        const missing = output
          .split("\n")
          .filter((line) => alike(line) !== "" && !actual.has(alike(line)));
        expect(missing, printed[index]).toEqual([]);
      }
    });
  });
}
