import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/client/client.ts";
import type { BackfillDocument } from "../src/work/backfill/documents.ts";

/** How often a running backfill is looked at. */
const LOOK_MS = 250;

/** What backfill to run. */
export type BackfillWish = {
  asset: string;
  /** Integer keys, the last one included; all unless told. */
  through?: number;
  chunkSize: number;
  maxConcurrentRuns: number;
  config?: Record<string, number>;
};

/** A backfill that is done. */
export type DoneBackfill = {
  backfill: BackfillDocument;
  seconds: number;
  perSecond: number;
  /** Finished partitions over time, from 0 s on. */
  samples: { second: number; done: number }[];
};

/** Asks for a backfill. */
export async function createBackfill(client: Client, wish: BackfillWish): Promise<string> {
  const { asset, through, chunkSize, maxConcurrentRuns, config } = wish;
  const created = await client.call("createBackfill", {
    body: {
      assets: [asset],
      selector:
        through === undefined
          ? { type: "all" }
          : { type: "range", start: "0", end: String(through) },
      chunk_size: chunkSize,
      max_concurrent_runs: maxConcurrentRuns,
      ...(config === undefined ? {} : { config }),
    },
  });
  return created.backfill_id;
}

/**
 * Asks for a backfill and waits until the last partition is done. The time is the server's own,
 * from the commit of the request to the commit of its end.
 */
export async function runBackfill(
  url: string,
  wish: BackfillWish,
  say: (line: string) => void,
): Promise<DoneBackfill> {
  const client = createClient({ url });
  const backfill_id = await createBackfill(client, wish);
  const samples: DoneBackfill["samples"] = [];
  for (let saidAt = 0; ; ) {
    await sleep(LOOK_MS);
    const backfill = await client.call("getBackfill", { params: { backfill_id } });
    const second = (Date.now() - Date.parse(backfill.created_at)) / 1_000;
    const done = backfill.partitions_succeeded;
    samples.push({ second, done });
    if (second - saidAt > 5) {
      saidAt = second;
      say(`${done} of ${backfill.partitions_total} after ${second.toFixed(1)} s`);
    }
    if (backfill.finished_at === null) continue;
    if (backfill.state !== "SUCCEEDED") throw new Error(`the backfill ended as ${backfill.state}`);
    const ms = Date.parse(backfill.finished_at) - Date.parse(backfill.created_at);
    const seconds = ms / 1_000;
    return { backfill, seconds, perSecond: backfill.partitions_total / seconds, samples };
  }
}

/** Partitions a second between two shares of the whole, such as 0.9 and 1. */
export function rateBetween(done: DoneBackfill, from: number, to: number): number {
  const total = done.backfill.partitions_total;
  const seconds = secondOf(done, to * total) - secondOf(done, from * total);
  return ((to - from) * total) / seconds;
}

/** When so many partitions were done, between two looks in proportion. */
function secondOf({ samples, seconds, backfill }: DoneBackfill, count: number): number {
  if (count >= backfill.partitions_total) return seconds;
  let before = { second: 0, done: 0 };
  for (const sample of samples) {
    if (sample.done >= count) {
      const share = (count - before.done) / Math.max(1, sample.done - before.done);
      return before.second + share * (sample.second - before.second);
    }
    before = sample;
  }
  return seconds;
}
