import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../src/client/client.ts";
import type { MovePlan } from "../src/work/move/spec.ts";
import type { ShardAddress } from "../src/define/shards.ts";
import { type PawlProcess, startServer, untilReady } from "../test/faults/pawl-process.ts";
import { installPackage } from "../scripts/build-package.ts";
import { freePort } from "./free-port.ts";

const CONFIG = fileURLToPath(new URL("./shard-project/pawl.config.ts", import.meta.url));
const LOOK_EVERY_MS = 50;

/** Everything from the shard a to the shard b, which keeps what it has. */
const PLAN: Pick<MovePlan, "from" | "to" | "keep_source"> = {
  from: { by: "tenant", tenants: {}, default: "a" },
  to: { by: "tenant", tenants: {}, default: "b" },
  keep_source: true,
};

/** A running `pawl start` with its worker, which knows two shards. */
export type ShardSite = {
  readonly client: Client;
  readonly server: PawlProcess;
  /** The most memory that the worker ever had, in MB. */
  workerPeakMb(): number;
  stop(): Promise<void>;
};

/** Starts Pawl with two shards, in a folder of its own. */
export async function startShardSite(
  folder: string,
  shards: { a: ShardAddress; b: ShardAddress },
): Promise<ShardSite> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...process.env,
    BENCH_SHARDS: JSON.stringify(shards),
    PAWL_DATA_DIR: join(folder, "data"),
    PAWL_LOG_LEVEL: "error",
  };
  const command = await installPackage();
  const server = startServer({ directory: folder, port, url, config: CONFIG, command, env });
  await untilReady(server);
  return {
    client: createClient({ url }),
    server,
    workerPeakMb: () => Math.max(0, ...server.children().map(peakMb)),
    stop: async () => {
      await server.terminate();
    },
  };
}

function peakMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1_024;
}

/** What a whole move took, from the plan to the last check. */
export type MeasuredMove = { seconds: number; segments: number; rows: number };

/** Moves the table from one shard to the other, verified, and waits for the end. */
export async function moveAll(
  { client }: ShardSite,
  options: Partial<Pick<MovePlan, "strategy" | "segment_concurrency">> = {},
): Promise<MeasuredMove> {
  const startedMs = performance.now();
  const planned = await client.call("planMove", { body: { plan: { ...PLAN, ...options } } });
  const params = { move: planned.move_id };
  await client.call("startMove", { params, body: {} });
  for (;;) {
    const move = await client.call("getMove", { params, query: {} });
    if (move.state === "COMPLETE") {
      const seconds = (performance.now() - startedMs) / 1_000;
      return { seconds, segments: move.segments_total, rows: move.rows_copied };
    }
    if (move.segments_poisoned > 0 || move.state !== "RUNNING") {
      throw new Error(`the move is ${move.state}: ${JSON.stringify(move)}`);
    }
    await sleep(LOOK_EVERY_MS);
  }
}
