import { driveSplit } from "./drive-splits.ts";
import type { LoadOptions, LoadSaid } from "./live-load.ts";
import { isReversible, LiveSite } from "./live-site.ts";

/** How many splits, of what, and how busy their shards are. */
export type ManyOptions = {
  splits: number;
  databases?: readonly [string, string];
  load: Partial<LoadOptions>;
  say: (line: string) => void;
};

/** What came of many splits in a row. */
export type ManyReport = {
  /** Rows that are not as they were acknowledged, reads that were stale, and what was left behind. */
  mismatches: string[];
  /** Of all cutovers, ahead and back, in ms. */
  pauses: number[];
  said: LoadSaid;
  rolledBack: number;
  complaints: string[];
};

const TENANTS_OF_SPLIT = 2;
const HOLD_MS = 5_000;

/**
 * Splits tenants off one after the other, under a load on all of them. Of each four splits one is
 * first taken back before its cutover, and one after it.
 */
export async function runManySplits(options: ManyOptions): Promise<ManyReport> {
  const { splits, databases, load, say } = options;
  const groups = Array.from({ length: splits }, (_, split) =>
    Array.from({ length: TENANTS_OF_SPLIT }, (_each, at) => `s${split}-${at}`),
  );
  const site = await LiveSite.start({
    tenants: [...groups.flat(), "bystander"],
    accounts: 10,
    entries: 100,
    ...(databases === undefined ? {} : { databases }),
  });
  try {
    const running = await site.startLoad(load);
    site.startWorker();
    const pauses: number[] = [];
    const leftovers: string[] = [];
    let rolledBack = 0;
    for (const [at, tenants] of groups.entries()) {
      const began = performance.now();
      const way = (["ahead", "back before", "ahead", "back after"] as const)[at % 4] ?? "ahead";
      if (way !== "ahead") {
        pauses.push(...(await takeBack(site, tenants, way)));
        leftovers.push(...(await rowsLeft(site, "west", tenants)));
        rolledBack++;
      }
      const split = await site.plan(tenants, { fence_hold_ms: HOLD_MS });
      await driveSplit(site, split, "cut over", isReversible);
      pauses.push(...(await pausesOf(site, split)));
      await driveSplit(site, split, "ahead");
      leftovers.push(...(await rowsLeft(site, "east", tenants)));
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      say(`split ${at + 1} (${way}): ${seconds} s, pause ${pauses.at(-1)?.toFixed(1)} ms`);
    }
    const { said, mismatches } = await site.settle(running, (tenant) => site.ownerOf(tenant));
    return {
      mismatches: [...mismatches, ...said.staleReads, ...leftovers],
      pauses,
      said,
      rolledBack,
      complaints: site.complaints(),
    };
  } catch (error) {
    throw new Error(`${String(error)}\n${site.output()}`, { cause: error });
  } finally {
    await site.close();
  }
}

/** Splits and takes it back; answers how long writes stood still. */
async function takeBack(
  site: LiveSite,
  tenants: readonly string[],
  way: "back before" | "back after",
): Promise<number[]> {
  const split = await site.plan(tenants, { fence_hold_ms: HOLD_MS });
  if (way === "back before") {
    await driveSplit(site, split, way);
    return [];
  }
  await driveSplit(site, split, "cut over", isReversible);
  const there = await pausesOf(site, split);
  await driveSplit(site, split, way);
  return [...there, ...(await pausesOf(site, split))];
}

async function pausesOf(site: LiveSite, split: string): Promise<number[]> {
  const { write_pause_ms } = await site.split(split);
  return write_pause_ms === null ? [] : [write_pause_ms];
}

async function rowsLeft(
  site: LiveSite,
  shard: "east" | "west",
  tenants: readonly string[],
): Promise<string[]> {
  const left: string[] = [];
  for (const tenant of tenants) {
    const { accounts, entries } = await site.tables[shard].rowsOf(tenant);
    const rows = accounts.length + entries.length;
    if (rows > 0) left.push(`${rows} rows of ${tenant} are left on ${shard}`);
  }
  return left;
}

/** The value below which such a share of all lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0;
}
