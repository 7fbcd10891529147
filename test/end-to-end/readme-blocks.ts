import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { plainEnvironment, ROOT } from "./example-project.ts";

/** A block of commands in a document, and what it is said to print. */
export type Block = { commands: string; output: string | null };

const BLOCK = /^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms;

/** The blocks of commands in a document. */
export function blocksOf(text: string): Block[] {
  return [...text.matchAll(BLOCK)].map(([, commands = "", output = null]) => ({
    commands,
    output,
  }));
}

/** A line without what differs from run to run: ids, counts, times and ports. */
export function alike(line: string): string {
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

/**
 * Makes a folder that looks like a clone with one example in it: what is only read is linked, what is
 * written to is copied. Its command is in `bin`, that of the clone unless told.
 */
export function cloneLike(example: string, bin = join(ROOT, "bin")): string {
  const folder = mkdtempSync(join(tmpdir(), "pawl-clone-"));
  symlinkSync(bin, join(folder, "bin"));
  for (const name of ["node_modules", "package.json", "schema", "src"]) {
    symlinkSync(join(ROOT, name), join(folder, name));
  }
  mkdirSync(join(folder, "examples"));
  cpSync(join(ROOT, "examples", example), join(folder, "examples", example), {
    recursive: true,
    filter: (path) => !["data", ".pawl"].includes(basename(path)),
  });
  return folder;
}

/**
 * Runs the blocks in one shell for so long at most, and gives what each of them printed. The environment
 * is this process's own unless told.
 */
export async function runBlocks(
  folder: string,
  blocks: readonly Block[],
  msMax: number,
  surroundings: NodeJS.ProcessEnv = plainEnvironment(),
): Promise<string[]> {
  const script = [
    // Through one pipe, so that what is printed stays in order.
    "exec 2>&1",
    "trap 'echo \"<<failed: $BASH_COMMAND>>\"' ERR",
    ...blocks.map(({ commands }) => `${commands}echo "<<end>>"`),
  ].join("\n");
  const file = join(folder, "readme.sh");
  writeFileSync(file, `${script}\n`);
  const environment = { ...surroundings, TMPDIR: folder, NO_COLOR: "1" };
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
    const timeout = setTimeout(() => killGroup(shell.pid), msMax);
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
