import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { createClient } from "../src/client/client.ts";
import {
  type PawlProcess,
  type Site,
  startServer,
  untilReady,
} from "../test/faults/pawl-process.ts";
import { installPackage } from "../scripts/build-package.ts";
import { freePort } from "./free-port.ts";
import type { Indexer, IndexingSetup } from "./indexer.ts";

const CONFIG = fileURLToPath(new URL("./sync-project/pawl.config.ts", import.meta.url));

/** Where the project keeps the transfers. */
export const PAWL_TABLE = "transfer";

/** Made by hand before the first start, as it would be in production. */
const TABLE = `
  create table if not exists ${PAWL_TABLE} (
    block integer not null,
    log_index integer not null,
    "from" text not null,
    "to" text not null,
    value numeric(78, 0) not null,
    primary key (block, log_index)
  )`;

/**
 * How the history is checked: not, by the header of each block as it is fetched, or by that and by
 * counting anew at the node and in the table when a segment is complete, which is what `evmLogs`
 * does unless told.
 */
export type HistoryChecks = "none" | "headers" | "all";

/** Starts `pawl start` with its worker; what is already in its folder goes on. */
export async function startPawl(setup: IndexingSetup, checks: HistoryChecks): Promise<Indexer> {
  const { folder, nodeUrl, chain, databaseUrl } = setup;
  const site = await siteOf(setup, {
    BENCH_DATABASE_URL: databaseUrl,
    BENCH_NODE_URL: nodeUrl,
    BENCH_TOKEN: chain.token,
    BENCH_FROM: String(chain.from),
    BENCH_TO: String(chain.to),
    BENCH_CHECKS: checks,
  });
  mkdirSync(folder, { recursive: true });
  const server = startServer(site);
  await untilReady(server);
  const client = createClient({ url: site.url });
  const sync = async () => {
    if (server.hasExited) throw new Error(`Pawl ended: ${server.stderr}`);
    return client.call("getSync", { params: { sync: `transfers@token=${chain.token}` } });
  };
  return {
    isReady: async () => ["COMPLETE", "FOLLOWING"].includes((await sync()).status),
    share: async () => (await sync()).blocks_complete / chain.blocks,
    running: async () => (await sync()).segments_running,
    kill: () => killAll(server),
  };
}

/** Makes the table that the project stores into. */
export async function makeTable(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(TABLE);
  await client.end();
}

async function siteOf({ folder }: IndexingSetup, env: NodeJS.ProcessEnv): Promise<Site> {
  const port = await freePort();
  return {
    directory: folder,
    port,
    url: `http://127.0.0.1:${port}`,
    config: CONFIG,
    command: await installPackage(),
    env: { ...process.env, ...env, PAWL_DATA_DIR: join(folder, "data"), PAWL_LOG_LEVEL: "error" },
  };
}

/** Kills the server and its worker in the same moment. */
async function killAll(server: PawlProcess): Promise<void> {
  const workers = server.children();
  for (const pid of workers) process.kill(pid, "SIGKILL");
  await server.kill();
}
