import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { EventDocument } from "../../src/work/server-api.ts";
import type { PartitionSummary } from "../../src/work/asset/api.ts";
import type { CreatedBackfill } from "../../src/work/backfill/api.ts";
import { copyExample } from "./example-project.ts";

const ASSETS = ["raw_orders", "clean_orders", "daily_sales", "monthly_sales"];
const POISON = "inbox/2025-02-11-eu.csv";

describe("examples/sales", () => {
  const example = copyExample();
  const { pawl } = example;
  let backfills: readonly string[] = [];
  afterAll(() => example.remove());

  async function json<Document>(...args: string[]): Promise<Document> {
    const { stdout, stderr } = await pawl(...args, "--json");
    expect(stderr).toBe("");
    return JSON.parse(stdout) as Document;
  }

  test("fills everything but the one partition whose file is wrong, and says what is wrong", async () => {
    await example.start();
    // Whatever time of day it is.
    expect(await pawl("schedule", "pause", "refresh")).toMatchObject({ code: 0 });

    const selection = [...ASSETS, "--all"];
    const { code, stdout, stderr } = await pawl(
      "backfill",
      "create",
      ...selection,
      "--wait",
      "--json",
    );

    expect(code).toBe(1);
    expect(stderr).toContain("WORK_FAILED");
    expect(stderr).toContain(`${POISON}, line 3: expected an amount like 12.50, got`);
    const created = JSON.parse(stdout) as CreatedBackfill & { results: { state: string }[] };
    expect(created.results).toMatchObject([
      { state: "FAILED", partitions_total: 540, partitions_succeeded: 539, partitions_failed: 1 },
      { state: "PENDING", partitions_total: 90 },
      { state: "PENDING", partitions_total: 3 },
    ]);
    backfills = created.backfills.map(({ backfill_id }) => backfill_id);
  });

  test("tries again what the shop was too busy for", async () => {
    const { items } = await json<{ items: EventDocument[] }>(
      "events",
      "--type",
      "TasksFinished",
      "--limit",
      "200",
    );
    const results = items.flatMap(
      ({ data }) =>
        (data as { results: { retry_at?: string; error?: { class: string } }[] }).results,
    );
    const again = results.filter(({ retry_at }) => retry_at !== undefined);
    expect(again.length).toBeGreaterThan(0);
    expect(new Set(again.map(({ error }) => error?.class))).toEqual(new Set(["transient"]));
  });

  test("fills the rest once the file is corrected", async () => {
    const [orders = "", days = "", months = ""] = backfills;
    const file = join(example.folder, POISON);
    writeFileSync(file, readFileSync(file, "utf8").replace("1O4.50", "104.50"));

    const retried = await pawl("backfill", "retry-failed", orders, "--wait");
    expect(retried).toMatchObject({ code: 0 });
    expect(retried.stdout).toContain("SUCCEEDED: 1 succeeded of 1 partition ");
    expect(await pawl("backfill", "resume", days)).toMatchObject({ code: 0 });
    expect(await pawl("backfill", "watch", months)).toMatchObject({ code: 0 });

    // Also while the sensor, which sees the corrected file as well, has it cleaned anew.
    const counts: unknown[] = [];
    for (const key of ASSETS) {
      const { materialized, total } = await json<PartitionSummary>("partitions", "summary", key);
      counts.push([materialized, total]);
    }
    expect(counts).toEqual([
      [270, 270],
      [270, 270],
      [90, 90],
      [3, 3],
    ]);
  });

  test("has made every order once and every cent of it", async () => {
    const { code, stdout } = await example.run("check.ts");

    expect(stdout.split("\n").filter((line) => line.endsWith("  ok"))).toHaveLength(4);
    expect(stdout).not.toContain("WRONG");
    expect(code).toBe(0);
  });

  test("has a ledger that holds together", async () => {
    expect(await pawl("verify")).toMatchObject({ code: 0 });
  });
});
