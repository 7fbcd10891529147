import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { readSource } from "./source-files.ts";

type Ended = { code: number; out: string; complaint: string };

/** Runs `npm run bench -- …` to its end. */
function bench(...args: string[]): Promise<Ended> {
  const script = fileURLToPath(new URL("../../bench/run.ts", import.meta.url));
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [script, ...args], (_error, out, complaint) =>
      resolve({ code: child.exitCode ?? -1, out, complaint }),
    );
  });
}

/** The names in the list of benchmarks, as `run.ts` has them. */
function namesInHelp(help: string): string[] {
  const [, list = ""] = help.split("Benchmarks:\n");
  return [...list.matchAll(/^ {2}([a-z-]+) {2,}\S.*$/gm)].map(([, name]) => name ?? "");
}

describe("npm run bench", () => {
  test("shows its usage and every benchmark with a line of its own when it is asked for help", async () => {
    const { code, out, complaint } = await bench("--help");
    expect({ code, complaint }).toEqual({ code: 0, complaint: "" });
    expect(out).toMatch(/^Usage: npm run bench -- \[options\] \[words\]\n/);
    expect(out).toContain("--profile <folder>");
    const names = namesInHelp(out);
    const listed = /const BENCHMARKS[^[]*\[\][^[]*\[([^\]]*)\]/.exec(readSource("bench/run.ts"));
    expect(names).toHaveLength(listed?.[1]?.match(/\w+/g)?.length ?? -1);
    expect(names).toContain("partitions-single");
    expect(names).toContain("memory");
    expect((await bench("-h")).out).toBe(out);
  });

  test("refuses a word that no name has, also beside one that some have, and names what there is", async () => {
    for (const words of [["nothing-like-it"], ["refold", "nothing-like-it"]]) {
      const { code, out, complaint } = await bench(...words);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(complaint).toMatch(
        /^No benchmark has "nothing-like-it" in its name\. There are .*\.\n$/,
      );
      expect(complaint).toContain("partitions-single, ");
    }
  });

  test("refuses an option that it does not have with one sentence and where to read on", async () => {
    for (const args of [["--fast"], ["--profile"]]) {
      const { code, out, complaint } = await bench(...args);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(complaint).toMatch(/^[^\n]*`npm run bench -- --help` shows what there is\.\n$/);
      expect(complaint).toContain(args[0]);
    }
  });
});
