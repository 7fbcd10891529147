import { spawn } from "node:child_process";
import { cpSync, existsSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { keepTrack } from "./child-process.ts";
import { freePort } from "./free-port.ts";
import type { Indexer, IndexingSetup } from "./indexer.ts";

const PROJECT = fileURLToPath(new URL("./ponder-project", import.meta.url));
const INSTALLED = fileURLToPath(new URL("./node_modules", import.meta.url));
const COMMAND = join("node_modules", "ponder", "dist", "esm", "bin", "ponder.js");

/** Where Ponder keeps the transfers. */
export const PONDER_TABLE = "bench.transfer";

/** Throws unless Ponder was installed beside the benchmarks. */
export function assertPonderIsInstalled(): void {
  if (existsSync(join(INSTALLED, "ponder"))) return;
  throw new Error("Ponder is not there. Install it with `npm ci --prefix bench`.");
}

/** Starts Ponder as in production; what is already in the database goes on. */
export async function startPonder(setup: IndexingSetup): Promise<Indexer> {
  const { folder, nodeUrl, chain, databaseUrl } = setup;
  const project = join(folder, "ponder-project");
  if (!existsSync(project)) {
    // A copy, since Ponder writes into its project and wants a name that is not one of ours.
    cpSync(PROJECT, project, { recursive: true });
    renameSync(join(project, "ponder-schema.ts"), join(project, "ponder.schema.ts"));
    symlinkSync(INSTALLED, join(project, "node_modules"));
  }
  const port = await freePort();
  const options = ["start", "--schema", "bench", "--port", String(port), "--log-level", "error"];
  const child = spawn(process.execPath, [COMMAND, ...options], {
    cwd: project,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      PONDER_TELEMETRY_DISABLED: "true",
      BENCH_DATABASE_URL: databaseUrl,
      BENCH_NODE_URL: nodeUrl,
      BENCH_TOKEN: chain.token,
      BENCH_FROM: String(chain.from),
      BENCH_TO: String(chain.to),
    },
  });
  const gone = keepTrack(child);
  const get = (path: string) => ask(`http://127.0.0.1:${port}${path}`);
  return {
    async isReady() {
      if (child.exitCode !== null) throw new Error(`Ponder ended with ${child.exitCode}.`);
      return (await get("/ready"))?.status === 200;
    },
    async share() {
      const metrics = (await (await get("/metrics"))?.text()) ?? "";
      const indexed = /^ponder_indexing_completed_events\{[^}]*\} (\d+)/m.exec(metrics)?.[1];
      return Number(indexed ?? 0) / chain.events;
    },
    running: async () => null,
    kill() {
      child.kill("SIGKILL");
      return gone;
    },
  };
}

/** Null while nobody listens. */
async function ask(url: string): Promise<Response | null> {
  try {
    return await fetch(url);
  } catch {
    return null;
  }
}
