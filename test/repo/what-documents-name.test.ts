import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import type { Cli } from "../../src/cli/cli.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { OPERATIONS } from "../../src/work/operations.ts";
import { sourceFiles } from "./source-files.ts";

const everything = sourceFiles();
/** Old records and the log of changes speak of what was. */
const documents = everything.filter(
  ({ path }) =>
    path.endsWith(".md") && !path.startsWith("docs/decisions/") && path !== "CHANGELOG.md",
);
const code = everything
  .filter(({ path }) => /^(?:src|ui)\/.*\.tsx?$/.test(path))
  .map(({ text }) => text)
  .join("\n");

/** What a pattern finds in all documents and a check does not let pass, each with its document. */
function strangers(pattern: RegExp, isThere: (found: string, path: string) => boolean): string[] {
  return documents.flatMap(({ path, text }) => {
    const found = new Set([...text.matchAll(pattern)].map((match) => match[1] ?? match[0]));
    return [...found].filter((each) => !isThere(each, path)).map((each) => `${path}: ${each}`);
  });
}

const ROOT = new URL("../..", import.meta.url).pathname;

function programOf(): Promise<Command> {
  const stream = { write: () => true };
  const cli = { terminal: { stdout: stream, stderr: stream, now: () => 0 } } as unknown as Cli;
  return buildProgram(cli);
}

describe("documents name only what there is", () => {
  test("files of the repository", () => {
    const folders = "src|test|scripts|schema|bench|examples|docs";
    const pattern = new RegExp(`(?<![\\w./-])((?:${folders})/[\\w./-]*\\w)`, "g");
    expect(strangers(pattern, (file) => existsSync(join(ROOT, file)))).toEqual([]);
  });

  test("pages that they link to", () => {
    const isThere = (link: string, path: string): boolean =>
      /^[a-z]+:/.test(link) || existsSync(join(ROOT, dirname(path), link));
    expect(strangers(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g, isThere)).toEqual([]);
  });

  test("metrics", () => {
    expect(strangers(/\b(pawl_[a-z_]+[a-z])\b/g, (metric) => code.includes(metric))).toEqual([]);
  });

  test("paths of the API", () => {
    const known = Object.values(OPERATIONS).map(({ path }) => path.split("/"));
    const isThere = (path: string): boolean => {
      const parts = path.split("/");
      const fits = (part: string, at: number, other: readonly string[]): boolean =>
        part === other[at] || other[at]?.startsWith("{") === true;
      return known.some((other) => parts.every((part, at) => fits(part, at, other)));
    };
    expect(strangers(/(\/api\/v1\/[\w/{}-]*[\w}])/g, isThere)).toEqual([]);
  });

  test("commands", async () => {
    const program = await programOf();
    const isThere = (words: string): boolean => {
      let at: Command = program;
      for (const word of words.split(" ")) {
        if (at.commands.length === 0) return true;
        const next = at.commands.find(
          (each) => each.name() === word || each.aliases().includes(word),
        );
        if (next === undefined) return false;
        at = next;
      }
      return true;
    };
    // In code only: a word after the name, and the one after that, where they are words.
    expect(
      strangers(/(?:^|`)pawl ((?!is\b)[a-z][a-z-]*(?: [a-z][a-z-]*)?)(?=[ `\n])/gm, isThere),
    ).toEqual([]);
  });

  test("options of commands", async () => {
    const program = await programOf();
    let seen = 0;
    const isThere = (line: string): boolean => {
      const words = line
        .replace(/ #.*$/, "")
        .replaceAll(/"[^"]*"|'[^']*'/g, "text")
        .split(/\s+/);
      const commands = [program];
      for (const word of words) {
        const next = commands.at(-1)?.commands.find((each) => each.name() === word);
        if (next !== undefined) commands.push(next);
      }
      const known = new Set(
        commands.flatMap(({ options }) => options.map(({ long }) => long ?? "")),
      );
      const used = words.flatMap((word) => /^--[a-z-]+/.exec(word) ?? []);
      seen += used.length;
      return used.every((option) => known.has(option) || option === "--help");
    };
    // A command goes on behind a backslash, and ends where another begins.
    const typed = /(?<=^|[`(] ?|npx |\w=\S* |&& |\| )pawl ((?:\\\n|[^\n`|;&$])*)/gm;
    expect(strangers(typed, (line) => isThere(line.replaceAll("\\\n", " ")))).toEqual([]);
    expect(seen).toBeGreaterThan(200);
  });
});
