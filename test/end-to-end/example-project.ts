import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

/** The root of this repository. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What running it in the clone leaves behind does not belong to a copy. */
const LEFT_BEHIND = new Set([".pawl", "data"]);

/** How a program ended, and what it wrote. */
export type Ended = { code: number | null; stdout: string; stderr: string };

/** A copy of the example, with the real command line. */
export interface ExampleProject {
  readonly folder: string;
  /** Runs `pawl` with these arguments to its end. */
  readonly pawl: (...args: string[]) => Promise<Ended>;
  /** Runs a file of the project. */
  run(file: string): Promise<Ended>;
  /** Starts `pawl start` and resolves when it listens. */
  start(...args: string[]): Promise<ChildProcess>;
  /** Stops what runs and removes the copy. */
  remove(): Promise<void>;
}

/** Makes a copy of `examples/sales` to work with. */
export function copyExample(): ExampleProject {
  const folder = mkdtempSync(join(tmpdir(), "pawl-sales-"));
  const filter = (path: string) => !LEFT_BEHIND.has(basename(path));
  cpSync(join(ROOT, "examples", "sales"), folder, { recursive: true, filter });
  const servers: ChildProcess[] = [];
  const env = plainEnvironment();
  const launch = (...args: string[]) => spawn(process.execPath, args, { cwd: folder, env });
  return {
    folder,
    pawl: (...args) => ended(launch(inject("pawlCommand"), ...args)),
    run: (file) => ended(launch(file)),
    async start(...args) {
      const server = launch(inject("pawlCommand"), "start", "--port", "0", ...args);
      servers.push(server);
      await listening(server);
      return server;
    },
    async remove() {
      for (const server of servers) {
        if (server.exitCode !== null || server.signalCode !== null) continue;
        const gone = new Promise((resolve) => server.once("exit", resolve));
        server.kill();
        await gone;
      }
      rmSync(folder, { recursive: true });
    },
  };
}

/** The environment without what would configure Pawl. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.filter(([name]) => !/^(?:PAWL_|DATABASE_URL$)/.test(name)));
}

function ended(child: ChildProcess): Promise<Ended> {
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (part: Buffer) => (stdout += part.toString()));
  child.stderr?.on("data", (part: Buffer) => (stderr += part.toString()));
  return new Promise((resolve) => {
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

function listening(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (part: Buffer): void => {
      said += part.toString();
      if (said.includes("listens on")) resolve();
    };
    server.stdout?.on("data", hear);
    server.stderr?.on("data", hear);
    server.once("exit", () => reject(new Error(`The server did not start: ${said}`)));
  });
}
