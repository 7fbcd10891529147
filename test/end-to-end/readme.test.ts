import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { readSource } from "../repo/source-files.ts";
import { plainEnvironment, ROOT } from "./example-project.ts";

/** A block of commands in the README, and what it is said to print. */
type Block = { commands: string; output: string | null };

const BLOCK = /^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms;

function blocksOf(text: string): Block[] {
  return [...text.matchAll(BLOCK)].map(([, commands = "", output = null]) => ({
    commands,
    output,
  }));
}

/** What differs from run to run is left out: ids, counts, times and ports. */
function alike(line: string): string {
  return line
    .replaceAll(/\bseen1\.\S*/g, "CURSOR")
    .replaceAll(/\brun_[a-z2-7]{8}\b/g, "ID")
    .replaceAll(
      /\b(?:[0-9A-HJKMNP-TV-Z]{26}|[0-9A-HJKMNP-TV-Z]{8}|[0-9a-f]{8}|[0-9a-f]{64})\b/g,
      "ID",
    )
    .replaceAll(/\d+(?:\.\d+)?(?:ms|s|m|h)?(?: \d\ds)?/g, "#")
    .replaceAll(/\bin #$|# ago\b|\bnow\b/g, "-")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** A folder that looks like a clone: what is only read is linked, what is written to is copied. */
function cloneLike(): string {
  const folder = mkdtempSync(join(tmpdir(), "pawl-clone-"));
  for (const name of ["bin", "node_modules", "package.json", "schema", "src"]) {
    symlinkSync(join(ROOT, name), join(folder, name));
  }
  mkdirSync(join(folder, "examples"));
  cpSync(join(ROOT, "examples/sales"), join(folder, "examples/sales"), {
    recursive: true,
    filter: (path) => !["data", ".pawl"].includes(basename(path)),
  });
  return folder;
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0));
    });
  });
}

/** Runs the blocks in one shell, and gives what each of them printed. */
async function runBlocks(folder: string, blocks: readonly Block[]): Promise<string[]> {
  const script = [
    // Through one pipe, so that what is printed stays in order.
    "exec 2>&1",
    "trap 'echo \"<<failed: $BASH_COMMAND>>\"' ERR",
    ...blocks.map(({ commands }) => `${commands}echo "<<end>>"`),
  ].join("\n");
  const file = join(folder, "readme.sh");
  writeFileSync(file, `${script}\n`);
  const environment = { ...plainEnvironment(), TMPDIR: folder, NO_COLOR: "1" };
  // A group of its own, so that nothing outlives the test, whatever the script started.
  const shell = spawn("bash", [file], {
    cwd: folder,
    env: environment,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  let printed = "";
  shell.stdout.on("data", (part: Buffer) => (printed += part.toString()));
  try {
    const timeout = setTimeout(() => killGroup(shell.pid), RUN_MS_MAX);
    await new Promise((resolve) => shell.once("close", resolve));
    clearTimeout(timeout);
  } finally {
    killGroup(shell.pid);
  }
  return printed.split("<<end>>\n");
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended already, as it should.
  }
}

const RUN_MS_MAX = 150_000;
const PAGES = ["schedules", "sensors", "freshness", "notifications"].map((page) => `guide/${page}`);
const DOCUMENTS = ["guide", ...PAGES, "operating", "events", "errors", "architecture"].map(
  (name) => `docs/${name}.md`,
);

describe("README.md", () => {
  const folder = cloneLike();
  const blocks = blocksOf(readSource("README.md"));
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
    printed = await runBlocks(folder, placed);
  }, RUN_MS_MAX + 30_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has commands that all work, in the order they stand there", () => {
    expect(blocks.length).toBeGreaterThan(10);
    expect(printed.join("").match(/<<failed: .*>>/g) ?? [], printed.join("")).toEqual([]);
    expect(printed).toHaveLength(blocks.length + 1);
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
    const documents = ["README.md", "examples/sales/README.md", ...DOCUMENTS];
    const broken = documents.flatMap((path) =>
      [...readSource(path).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)]
        .map(([, target = ""]) => join(dirname(path), target))
        .filter((target) => !existsSync(join(ROOT, target)))
        .map((target) => `${path} links to ${target}`),
    );
    expect(broken).toEqual([]);
  });
});
