import { execFileSync, fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import process from "node:process";
import { installPackage } from "../scripts/build-package.ts";
import { atMost, type Bench, type Benchmark, percentile, told } from "./benchmark.ts";
import { keepTrack } from "./child-process.ts";
import { firstBackfill } from "./first-backfill.ts";

const ROUNDS = 20;
const SETTING = `packaged, median of ${ROUNDS}`;

const CONFIG = `
import { asset, definePawl, integers } from "pawl";
const numbers = asset("numbers", { partitions: integers({ start: 0, end: 9 }), materialize: () => ({}) });
export default definePawl({ assets: [numbers] });
`;

/** Milliseconds until a process that does one thing is gone. */
function processMs(args: readonly string[], cwd?: string): number {
  const startedMs = performance.now();
  const { status } = spawnSync(process.execPath, args, { stdio: "ignore", cwd });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with the exit code ${status}`);
  return performance.now() - startedMs;
}

type WorkerStart = { loadedMs: number; claimedMs: number };

/** Milliseconds until a worker process has loaded its project, and until it first asks for work. */
async function workerStart(file: string, config: string): Promise<WorkerStart> {
  const server = createServer((_request, response) => response.writeHead(503).end("{}"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port was given");
  const asked = once(server, "request");

  const startedMs = performance.now();
  // What it logs of a server that is none is not of interest.
  const child = fork(file, [config], {
    execArgv: [],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  const gone = keepTrack(child);
  await once(child, "message");
  const loadedMs = performance.now() - startedMs;
  child.send({ type: "connect", url: `http://127.0.0.1:${address.port}`, worker_id: "bench" });
  await asked;
  const claimedMs = performance.now() - startedMs;
  // In order: a process that is killed leaves nothing for the next one to start faster with.
  child.kill("SIGTERM");
  await gone;
  server.closeAllConnections();
  server.close();
  return { loadedMs, claimedMs };
}

/** A server of the project in a folder, as it is packaged; answers what stops it. */
async function served(command: string, folder: string): Promise<() => Promise<void>> {
  const args = [command, "start", "--port", "0", "--no-worker"];
  const child = spawn(process.execPath, args, {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = keepTrack(child);
  let said = "";
  await new Promise<void>((resolve, reject) => {
    // Read to its end: a server whose output nobody reads would stop.
    child.stdout.on("data", (part: Buffer) => {
      said += part.toString();
      if (said.includes("listens on")) resolve();
    });
    void gone.then(() => reject(new Error(`The server ended: ${said}`)));
  });
  return async () => {
    child.kill("SIGTERM");
    await gone;
  };
}

/** How soon the command line and a worker are there, as they are installed. */
export const startUp: Benchmark = {
  name: "start-up",
  about: "how soon the command line and a worker are there, and a newcomer's first backfill",
  async run(bench: Bench) {
    const { folder, say } = bench;
    const command = await installPackage();
    const worker = join(dirname(command), "..", "dist", "chunks", "worker-process.js");
    const config = join(folder, "pawl.config.ts");
    writeFileSync(config, CONFIG);
    say(`the package is in ${dirname(dirname(command))}`);
    // The first start of each leaves what the others start from.
    execFileSync(process.execPath, [command, "--help"]);
    execFileSync(process.execPath, [command, "backfill", "--help"]);
    await workerStart(worker, config);
    const stop = await served(command, folder);
    execFileSync(process.execPath, [command, "backfill", "list"], { cwd: folder });

    const floor: number[] = [];
    const help: number[] = [];
    const groupHelp: number[] = [];
    const list: number[] = [];
    const loaded: number[] = [];
    const claimed: number[] = [];
    // In turns, so that a busy moment of the machine is a busy moment for all.
    for (let round = 0; round < ROUNDS; round++) {
      floor.push(processMs(["-e", "0"]));
      help.push(processMs([command, "--help"]));
      groupHelp.push(processMs([command, "backfill", "--help"]));
      list.push(processMs([command, "backfill", "list"], folder));
      const { loadedMs, claimedMs } = await workerStart(worker, config);
      loaded.push(loadedMs);
      claimed.push(claimedMs);
    }
    await stop();
    const first = await firstBackfill(bench);
    const median = (values: number[]): number => percentile(values, 0.5);
    return [
      told("node -e 0, which all others include", SETTING, median(floor), "ms"),
      atMost("pawl --help", SETTING, median(help), 150, "ms"),
      told("pawl backfill --help", SETTING, median(groupHelp), "ms"),
      atMost("pawl backfill list against a server", SETTING, median(list), 250, "ms"),
      told("a worker process that has loaded its project", SETTING, median(loaded), "ms"),
      atMost("a worker process that asks for work", SETTING, median(claimed), 250, "ms"),
      ...first,
    ];
  },
};
