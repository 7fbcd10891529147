import { describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { driveSplit } from "./live/drive-splits.ts";
import { isReversible, LiveSite } from "./live/live-site.ts";
import { runManySplits } from "./live/many-splits.ts";

const SPLITS = 3;
/** Some writers keep their transactions open: what they do commits behind what came later. */
const LONG = { long: 0.05, longMs: 200 };

async function databases(): Promise<[string, string]> {
  return [await freshDatabaseUrl(), await freshDatabaseUrl()];
}

describe("splits between PostgreSQL databases", () => {
  test("I54, I56: several in a row, some taken back first, lose and double nothing", async () => {
    const report = await runManySplits({
      splits: SPLITS,
      databases: await databases(),
      load: { writesPerSecond: 1_000, repeatableRead: 0.25, long: 0.002, longMs: 400 },
      say: () => undefined,
    });
    const pauses = report.pauses.map((pause) => `${pause.toFixed(1)} ms`).join(", ");
    console.log(`${report.said.acknowledged} writes; pauses ${pauses}`);
    expect(report.mismatches).toEqual([]);
    expect(report.complaints).toEqual([]);
    expect(report.rolledBack).toBeGreaterThan(0);
  });

  test("I54: who reads changes by their ids alone is found out by what is missing", async () => {
    const tenants = ["ash", "birch"];
    const site = await LiveSite.start({
      tenants,
      accounts: 10,
      entries: 50,
      databases: await databases(),
    });
    try {
      const load = await site.startLoad({ writesPerSecond: 200, ...LONG });
      site.startKillingWorker([], { broken: true });
      const split = await site.plan(tenants);
      const cutOver = await driveSplit(
        site,
        split,
        "cut over",
        (each) => isReversible(each) || /VERIFICATION_FAILED/.test(each.error_message ?? ""),
      );
      const { mismatches } = await site.settle(load, (tenant) => site.ownerOf(tenant));
      const isFound = mismatches.length > 0 || cutOver.error_message !== null;
      expect(isFound).toBe(true);
    } finally {
      await site.close();
    }
  });
});
