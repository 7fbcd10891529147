import { afterEach, expect, test } from "vitest";
import { connectWorker } from "../../src/client/worker-connection.ts";
import { asset, daily, definePawl, offset } from "../../src/index.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, startApi } from "./api-server.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const closings: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closings.splice(0)) await close();
});

/** A worker with a project, on a server that has it published. */
async function worked(api: Api, project: ReturnType<typeof definePawl>): Promise<void> {
  await api.client.call("publishDefinitions", { body: { specs: [...project.specs] } });
  const connection = connectWorker({ url: api.url });
  const controller = new AbortController();
  const ended = runWorker({
    connection,
    project,
    workerId: "worker",
    codeVersion: null,
    logger: quiet,
    signal: controller.signal,
    concurrency: 8,
  });
  closings.push(async () => {
    controller.abort();
    await ended;
    connection.close();
    await api.close();
  });
}

test.each(["SQLite", "PostgreSQL"])(
  "I92: each partition is made from the one before it, also behind one that failed, on %s",
  async (kind) => {
    const database = kind === "SQLite" ? {} : { databaseUrl: await freshDatabaseUrl() };
    const api = await startApi(database);
    const broken = new Set(["2025-01-04"]);
    const balance = asset("balance", {
      partitions: daily({ start: "2025-01-01", end: "2025-01-08" }),
      upstream: [{ asset: "balance", mapping: offset(-1) }],
      retry: { maxAttempts: 1 },
      async materialize({ partition, upstream }) {
        if (broken.has(partition)) throw new Error("the source is away");
        const [before] = await upstream("balance");
        const { sum } = (before?.metadata ?? { sum: 0 }) as { sum: number };
        return { metadata: { sum: sum + 1 } };
      },
    });
    await worked(api, definePawl({ assets: [balance] }));
    const { client } = api;
    const sums = async (): Promise<unknown[]> => {
      const params = { asset_key: "balance" };
      const { items } = await client.call("listAssetPartitions", { params });
      return items.map(({ metadata }) => metadata);
    };
    const body = { assets: ["balance"], selector: { type: "all" as const }, chunk_size: 3 };
    const { backfill_id } = await client.call("createBackfill", {
      body: { ...body, max_concurrent_runs: 4 },
    });
    const params = { backfill_id };
    for await (const _event of client.follow({})) {
      const { state, reason } = await client.call("getBackfill", { params });
      if (state !== "PAUSED") continue;
      expect(reason).toContain("balance 2025-01-04 and 2 after it failed");
      break;
    }
    expect(await sums()).toEqual([1, 2, 3, null, null, null, null].map((sum) => sum && { sum }));

    broken.clear();
    const retried = await client.call("retryBackfill", { params, body: {} });
    await client.backfills.waitFor(retried.backfill_id);
    await client.call("resumeBackfill", { params, body: {} });
    await client.backfills.waitFor(backfill_id);
    expect(await sums()).toEqual([1, 2, 3, 4, 5, 6, 7].map((sum) => ({ sum })));
  },
);
