import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../free-port.ts";
import { lookFor } from "./waiting.ts";

/** A Redis of one's own that has every write on disk before it answers. */
export type RedisServer = {
  readonly port: number;
  countKeys(): Promise<number>;
  /** The size of the log that it would start from. */
  appendOnlyBytes(): number;
  /** The most memory it ever had. */
  memoryPeakBytes(): number;
  /** Ends it and deletes everything it had. */
  stop(): Promise<void>;
};

/** In words, what it is started with. */
export const REDIS_SETTINGS = "`appendonly yes`, `appendfsync always`";

const READY_MS_MAX = 15_000;
const ANSWER_MS_MAX = 5_000;

/**
 * Runs a server until its standard input closes, which the end of this process does too, however it
 * ends. A server that has ended is not sent anything: its process id may be another's by then.
 */
const RUN_UNTIL_INPUT_CLOSES = `
  folder=$1; shift
  "$@" >"$folder/log" 2>&1 &
  echo $!
  cat >/dev/null
  kill -KILL $(jobs -rp)
  wait
  rm -rf "$folder"
`;

/** The version of the Redis of this machine, which is installed when that is possible. */
export function redisVersion(): string {
  if (!isInstalled()) installRedis();
  if (!isInstalled()) {
    throw new Error("BullMQ needs Redis. Install it: apt-get install redis-server");
  }
  const told = execFileSync("redis-server", ["--version"], { encoding: "utf8" });
  return /v=([\d.]+)/.exec(told)?.[1] ?? told.trim();
}

function isInstalled(): boolean {
  return spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0;
}

function installRedis(): void {
  if (process.getuid?.() !== 0) return;
  console.error("Installing Redis (apt-get install redis-server).");
  // Debian starts the service of a new package, but not in single-user mode.
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const install = ["install", "-y", "--no-install-recommends", "redis-server"];
  const hasWorked = () => spawnSync("apt-get", install, { env, stdio: "ignore" }).status === 0;
  if (hasWorked()) return;
  spawnSync("apt-get", ["update"], { env, stdio: "ignore" });
  hasWorked();
}

/** Starts a server on a free port of the loopback, in a temporary folder. */
export async function startRedis(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-redis-"));
  const port = await freePort();
  const settings = {
    port,
    bind: "127.0.0.1",
    dir: folder,
    appendonly: "yes",
    appendfsync: "always",
    save: "",
    "maxmemory-policy": "noeviction",
  };
  const server = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const shell = spawn(
    "bash",
    ["-c", RUN_UNTIL_INPUT_CLOSES, "bash", folder, "redis-server", ...server],
    // Detached: an interrupt from the terminal goes to the benchmark, which ends it then.
    { detached: true, stdio: ["pipe", "pipe", "ignore"] },
  );
  const ended = new Promise<void>((resolve) => {
    shell.once("exit", () => resolve());
  });
  const stop = async (): Promise<void> => {
    shell.stdin.end();
    await ended;
  };
  const pid = await new Promise<number>((resolve, reject) => {
    shell.stdout.once("data", (line: Buffer) => resolve(Number(line.toString())));
    shell.once("error", reject);
  });
  const isReady = async () => ((await answerTo(port, "PING")) === "+PONG" ? true : null);
  if ((await lookFor(isReady, READY_MS_MAX, 20)) === null) {
    const log = readFileSync(join(folder, "log"), "utf8");
    await stop();
    throw new Error(`Redis did not start. Its log says:\n${log}`);
  }
  return {
    port,
    countKeys: async () => Number((await answerTo(port, "DBSIZE"))?.slice(1)),
    appendOnlyBytes: () => folderBytes(join(folder, "appendonlydir")),
    memoryPeakBytes() {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1_024;
    },
    async stop() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The first line of the answer to a command, or null without a server. */
function answerTo(port: number, command: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${command}\r\n`));
    socket.once("data", (answer) => {
      socket.destroy();
      resolve(answer.toString().split("\r\n")[0] ?? null);
    });
    socket.once("error", () => resolve(null));
    socket.setTimeout(ANSWER_MS_MAX, () => socket.destroy(new Error("no answer")));
  });
}

function folderBytes(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}
