import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectWorker } from "../../src/client/worker-connection.ts";
import type { SegmentDocument, SyncDocument } from "../../src/work/sync/documents.ts";
import { definePawl } from "../../src/define/define-pawl.ts";
import { sync, type SyncOptions } from "../../src/define/sync.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { type Api, startApi } from "./api-server.ts";
import { ChainFile } from "./worker-syncs-chain.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** A server with a published sync of a chain, and workers that come and go. */
export type SyncSite = {
  readonly api: Api;
  readonly chain: ChainFile;
  /** Starts one more worker, and answers how to stop it. */
  work(concurrency?: number): () => Promise<void>;
  sync(): Promise<SyncDocument>;
  segments(): Promise<SegmentDocument[]>;
  /** Resolves as soon as the sync is so. */
  until(holds: (sync: SyncDocument) => boolean): Promise<SyncDocument>;
  close(): Promise<void>;
};

/** The one target of the sync, as paths name it. */
export const SYNC = "blocks@chain=main";

/** Starts a server and publishes a sync of a chain of so many blocks. */
export async function openSyncSite(
  length: number,
  options: (chain: ChainFile) => Partial<SyncOptions> = () => ({}),
): Promise<SyncSite> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-chain-"));
  const chain = new ChainFile(join(folder, "chain.db"));
  chain.grow(length);
  const api = await startApi();
  const blocks = sync("blocks", {
    targets: [{ chain: "main" }],
    from: 0,
    segments: { max: 10, minSize: 50 },
    headEveryMs: 100,
    retry: { delayMs: 50, maxDelayMs: 200 },
    ...chain.functions(),
    ...options(chain),
  });
  const project = definePawl({ syncs: [blocks] });
  const { client } = api;
  await client.call("publishDefinitions", { body: { specs: [...project.specs], origin: "code" } });
  const stops: (() => Promise<void>)[] = [];
  let workers = 0;
  return {
    api,
    chain,
    work(concurrency = 4) {
      const controller = new AbortController();
      const connection = connectWorker({ url: api.url });
      const ended = runWorker({
        connection,
        project,
        workerId: `worker-${++workers}`,
        codeVersion: null,
        logger: quiet,
        signal: controller.signal,
        concurrency,
        stopGraceMs: 100,
      });
      const stop = async (): Promise<void> => {
        controller.abort();
        await ended;
        connection.close();
      };
      stops.push(stop);
      return stop;
    },
    sync: () => client.call("getSync", { params: { sync: SYNC } }),
    async segments() {
      const query = { limit: 200 };
      return (await client.call("listSegments", { params: { sync: SYNC }, query })).items;
    },
    until: (holds) => untilSync(api, holds),
    async close() {
      for (const stop of stops) await stop();
      await api.close();
      chain.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resolves as soon as the sync is so. */
export async function untilSync(
  { client }: Api,
  holds: (sync: SyncDocument) => boolean,
): Promise<SyncDocument> {
  for await (const _event of client.follow({})) {
    const document = await client.call("getSync", { params: { sync: SYNC } });
    if (holds(document)) return document;
  }
  throw new Error("The ledger ended.");
}
