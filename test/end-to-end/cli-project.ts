import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, inject } from "vitest";
import type { mainWithin } from "../../src/cli/main.ts";

/** How a command ended, and what it wrote. */
export type Ended = { code: number | null; stdout: string; stderr: string };

/** A command that runs. */
export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when what it wrote, on either stream, contains the text. */
  said(text: string): Promise<void>;
}

/** The folder that this process was started in. */
const HOME = process.cwd();

/** Nothing of what this process is configured with. */
function plainEnvironment(): Record<string, string | undefined> {
  const { PATH = "", NODE_COMPILE_CACHE } = process.env;
  return { PATH, NODE_COMPILE_CACHE };
}

/** The command line of the package. */
function commandLine(): Promise<{ mainWithin: typeof mainWithin }> {
  const file = join(dirname(inject("pawlCommand")), "..", "dist", "cli", "main.js");
  return import(pathToFileURL(file).href) as Promise<{ mainWithin: typeof mainWithin }>;
}

/** A folder of its own, and the real command line in it. */
export class CliProject {
  readonly folder = mkdtempSync(join(tmpdir(), "pawl-cli-"));
  readonly #running = new Set<ChildProcess>();
  readonly #ending = new AbortController();
  readonly #ownCommand: string | undefined;

  /** With a command of one's own, each is a process. */
  constructor(ownCommand?: string) {
    this.#ownCommand = ownCommand;
  }

  /** Puts a file into the folder. */
  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  /**
   * Runs `pawl` to its end: the command line as it is packaged, but in this process, since most of what a
   * short command does is to start. With an environment it is a process of its own, as those of
   * `launch` are.
   */
  async pawl(args: readonly string[], env?: Record<string, string>): Promise<Ended> {
    if (env !== undefined || this.#ownCommand !== undefined) return this.launch(args, env).ended;
    const { mainWithin: run } = await commandLine();
    // Where its workers start.
    process.chdir(this.folder);
    const said = { stdout: "", stderr: "" };
    const stream = (name: keyof typeof said) => ({
      write: (text: string) => {
        said[name] += text;
      },
    });
    const code = await run(
      {
        cwd: this.folder,
        env: plainEnvironment(),
        signal: this.#ending.signal,
        stdout: stream("stdout"),
        stderr: stream("stderr"),
      },
      args,
    );
    return { code, ...said };
  }

  /** Runs `pawl`, which must go well, and answers what it said. */
  async said(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.pawl(args);
    expect(code, stderr).toBe(0);
    return stdout;
  }

  /** Runs `pawl --json`, which must go well, and answers the document. */
  async json<Document>(...args: string[]): Promise<Document> {
    return JSON.parse(await this.said(...args, "--json")) as Document;
  }

  /** Runs `pawl`, which must end with this exit code, and answers why. */
  async refused(exitCode: number, ...args: string[]): Promise<string> {
    const { code, stderr } = await this.pawl(args);
    expect(code, stderr).toBe(exitCode);
    return stderr;
  }

  /** Starts `pawl`, with nothing of this process's own configuration. */
  launch(args: readonly string[], env: Record<string, string> = {}): Running {
    const command = this.#ownCommand ?? inject("pawlCommand");
    const child = spawn(process.execPath, [command, ...args], {
      cwd: this.folder,
      env: { ...plainEnvironment(), ...env },
    });
    this.#running.add(child);
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (part: Buffer) => (stdout += part.toString()));
    child.stderr.on("data", (part: Buffer) => (stderr += part.toString()));
    const ended = new Promise<Ended>((resolve) => {
      child.once("close", (code) => {
        this.#running.delete(child);
        resolve({ code, stdout, stderr });
      });
    });
    const said = (text: string): Promise<void> =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if ((stdout + stderr).includes(text)) resolve();
        };
        look();
        child.stdout.on("data", look);
        child.stderr.on("data", look);
        child.once("close", () => {
          look();
          reject(new Error(`It ended without saying ${text}: ${stdout}${stderr}`));
        });
      });
    return { child, ended, said };
  }

  /** Ends what still runs and removes the folder. */
  async remove(): Promise<void> {
    this.#ending.abort();
    const gone = [...this.#running].map((child) => {
      child.kill("SIGKILL");
      return new Promise((resolve) => child.once("close", resolve));
    });
    await Promise.all(gone);
    process.chdir(HOME);
    rmSync(this.folder, { recursive: true, force: true });
  }
}
