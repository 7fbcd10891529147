import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ForkedWorker, forkWorker } from "../../src/worker/fork-worker.ts";
import { type Api, startApi } from "./api-server.ts";
import { ChainFile } from "./worker-syncs-chain.ts";
import { untilSync } from "./worker-syncs-site.ts";

/** The worker of this project kills itself twice: with rows stored that nobody was told of. */
const CONFIG = `
import { existsSync, writeFileSync } from "node:fs";
import { definePawl, sync } from "pawl";
import { ChainFile } from ${JSON.stringify(new URL("worker-syncs-chain.ts", import.meta.url).href)};

const folder = process.env.CHAIN;
const chain = new ChainFile(folder + "/chain.db");
let calls = 0;

function dieOnce(name) {
  if (existsSync(folder + "/" + name)) return;
  writeFileSync(folder + "/" + name, "");
  process.kill(process.pid, "SIGKILL");
}

export const project = definePawl({
  syncs: [
    sync("blocks", {
      targets: [{ chain: "main" }],
      from: 0,
      to: 1999,
      segments: { max: 4, minSize: 50 },
      maxParallel: 2,
      requestSize: 50,
      fetch: async (range) => {
        const rows = chain.copy(range);
        if (++calls === 7) dieOnce("first");
        if (calls === 5) dieOnce("second");
        return { rows };
      },
      hash: async (block) => chain.hash(block),
      verify: async ({ from, to }) => !chain.faults(to).some((block) => block >= from),
    }),
  ],
});
`;

const folder = mkdtempSync(join(tmpdir(), "pawl-syncs-"));
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
let api: Api;
let worker: ForkedWorker;
let chain: ChainFile;

beforeAll(async () => {
  chain = new ChainFile(join(folder, "chain.db"));
  chain.grow(2_000);
  const configPath = join(folder, "pawl.config.ts");
  writeFileSync(configPath, CONFIG);
  api = await startApi();
  worker = await forkWorker({ configPath, logger: quiet, env: { ...process.env, CHAIN: folder } });
  const specs = [...worker.loaded.specs];
  await api.client.call("publishDefinitions", { body: { specs, origin: "code" } });
  worker.connect({ url: api.url });
});

afterAll(async () => {
  await worker.stop();
  await api.close();
  chain.close();
  rmSync(folder, { recursive: true, force: true });
});

test("I49: a killed worker costs at most one request of each segment that it was at", async () => {
  const { synced_to } = await untilSync(api, ({ state }) => state === "COMPLETE");

  expect(synced_to).toBe(1_999);
  expect(chain.faults(1_999)).toEqual([]);
  const asked = chain.asked();
  const repeated = asked.length - new Set(asked.map(({ first }) => first)).size;
  // Two deaths, two segments at a time.
  expect(repeated).toBeGreaterThanOrEqual(2);
  expect(repeated).toBeLessThanOrEqual(4);
});
