import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { installPackage } from "../../scripts/build-package.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CONFIG = fileURLToPath(new URL("./project/pawl.config.ts", import.meta.url));

/** Far more than anything takes: a busy machine brings everything late. */
const WITHIN_MS = 600_000;
/** What is long in coming is asked for less often: each time takes a server's time. */
const POLL_MS_MIN = 10;
const POLL_MS_MAX = 100;
const POLL_GROWTH = 1.2;

/** How a process ended. */
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

/** A place for one server, its store, its workers and what they make. */
export type Site = {
  readonly directory: string;
  readonly port: number;
  readonly url: string;
  readonly env: NodeJS.ProcessEnv;
  /** The configuration of the project that runs there. */
  readonly config: string;
  /** The command of the package as it is installed. */
  readonly command: string;
};

/** Makes a site in a folder of its own, with a port that is free. */
export async function openSite(
  options: { databaseUrl?: string; leaseMs?: number; config?: string } = {},
): Promise<Site> {
  const directory = mkdtempSync(join(tmpdir(), "pawl-faults-"));
  const port = await freePort();
  const foreign = /^(?:PAWL_|DATABASE_URL$|NODE_OPTIONS$|VITEST|NODE_ENV$)/;
  const own = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(own),
    FAULTS_DIR: directory,
    PAWL_DATA_DIR: join(directory, "data"),
    PAWL_LOG_LEVEL: "warn",
    // Halves the time that a process takes to start.
    NODE_COMPILE_CACHE: join(ROOT, "node_modules", ".cache", "pawl-compiled"),
  };
  if (options.databaseUrl !== undefined) env["DATABASE_URL"] = options.databaseUrl;
  if (options.leaseMs !== undefined) env["PAWL_LEASE_MS"] = String(options.leaseMs);
  const { config = CONFIG } = options;
  const command = await installPackage();
  return { directory, port, url: `http://127.0.0.1:${port}`, env, config, command };
}

/** Another server's place on the same PostgreSQL, with the same project. */
export async function besideSite(site: Site): Promise<Site> {
  const port = await freePort();
  const env = { ...site.env, PAWL_DATA_DIR: join(site.directory, "data-beside") };
  return { ...site, port, url: `http://127.0.0.1:${port}`, env };
}

/** Deletes everything that a site had. */
export function removeSite({ directory }: Site): void {
  rmSync(directory, { recursive: true, force: true });
}

/** A `pawl` command in a process of its own. */
export class PawlProcess {
  readonly name: string;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  stdout = "";
  stderr = "";
  hasExited = false;
  readonly #child: ChildProcess;

  constructor(site: Site, args: readonly string[], prefix: readonly string[] = []) {
    const pawl = [site.command, ...args, "--config", site.config, "--json"];
    const [command, ...rest] = [...prefix, process.execPath, ...pawl] as [string, ...string[]];
    this.name = `pawl ${args[0]}`;
    const child = spawn(command, rest, { env: site.env, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.pid = child.pid ?? 0;
    child.stdout?.on("data", (text: Buffer) => (this.stdout += text.toString()));
    child.stderr?.on("data", (text: Buffer) => (this.stderr += text.toString()));
    this.exited = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", (code, signal) => {
        this.hasExited = true;
        resolve({ code, signal });
      });
    });
    running.add(this);
    void this.exited.finally(() => running.delete(this)).catch(() => undefined);
  }

  /** Ends the process as a power failure would, without a word. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited;
  }

  /** Stops the process where it stands, with all that it has started, until `thaw`. */
  freeze(): void {
    for (const pid of [this.pid, ...this.children()]) process.kill(pid, "SIGSTOP");
  }

  thaw(): void {
    for (const pid of [this.pid, ...this.children()]) process.kill(pid, "SIGCONT");
  }

  /** Asks the process to end and waits until it has. */
  terminate(): Promise<Exit> {
    this.#child.kill("SIGTERM");
    return this.exited;
  }

  /** The processes that this one has started. */
  children(): number[] {
    try {
      const list = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, "utf8");
      return list.split(" ").filter(Boolean).map(Number);
    } catch {
      return [];
    }
  }
}

const running = new Set<PawlProcess>();

/** Ends whatever a test left running. */
export async function killAll(): Promise<void> {
  await Promise.all([...running].map((each) => each.kill()));
}

/** Starts a server; it may not be ready yet. */
export function startServer(site: Site, options: readonly string[] = []): PawlProcess {
  return new PawlProcess(site, ["start", "--port", String(site.port), ...options]);
}

/** Starts a worker that is not a child of the server and outlives it. */
export function startWorker(site: Site): PawlProcess {
  return new PawlProcess(site, ["worker", "--url", site.url]);
}

/** Runs a command to its end. */
export async function runCommand(
  site: Site,
  args: readonly string[],
): Promise<Exit & { stdout: string; stderr: string }> {
  const command = new PawlProcess(site, args);
  const exit = await command.exited;
  return { ...exit, stdout: command.stdout, stderr: command.stderr };
}

/** Resolves when the server has said where it is, which is the last thing it does to start. */
export async function untilReady(server: PawlProcess): Promise<void> {
  await until(() => {
    if (server.hasExited) throw new Error(`${server.name} did not start: ${server.stderr}`);
    return server.stdout.includes('"url"');
  });
}

/** Resolves as soon as the condition holds; fails when it does not in time. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  withinMs = WITHIN_MS,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (let pauseMs = POLL_MS_MIN; !(await holds()); pauseMs *= POLL_GROWTH) {
    if (performance.now() > deadline)
      throw new Error(`Not so within ${withinMs} ms: ${String(holds)}`);
    await sleep(Math.min(pauseMs, POLL_MS_MAX));
  }
}

/** Whether a process is there; one that has ended and not been waited for is not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
