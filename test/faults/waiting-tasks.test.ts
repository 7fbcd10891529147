import { describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { startServer, untilReady } from "./pawl-process.ts";
import {
  askFor,
  clientOf,
  eventsOf,
  sitesOn,
  tasksOf,
  untilSucceeded,
  untilTasks,
} from "./sites.ts";

const PROJECT = `
import { asset, daily, definePawl } from "pawl";

const days = daily({ start: "2025-01-01", end: "2025-02-01" });
const orders = asset("orders", { partitions: days, materialize: () => {} });
const report = asset("report", {
  partitions: days,
  upstream: [orders],
  requires: "materialized",
  materialize: () => {},
});
export const project = definePawl({ assets: [orders, report] });
`;

describe.each(["SQLite", "PostgreSQL"])("a task that waits for its upstream, on %s", (kind) => {
  const newSite = sitesOn(kind === "SQLite" ? {} : { databaseUrl: freshDatabaseUrl });

  test("I106: goes on behind a server that was killed while it waited, and while it was let go on", async () => {
    const site = await newSite({ project: PROJECT });
    const server = startServer(site);
    await untilReady(server);
    const runs = [
      await askFor(site, "report", ["2025-01-03"]),
      await askFor(site, "report", ["2025-01-03", "2025-01-04"]),
    ];
    await eventsOf(site, "TasksDeferred", 2);
    for (const run of runs) await untilTasks(site, run, ["WAITING"]);
    await server.kill();

    const second = startServer(site, ["--no-worker"]);
    await untilReady(second);
    const [task] = await tasksOf(site, runs[0] ?? "");
    expect(task?.waits_for?.message).toBe("waits for orders 2025-01-03, which is missing");
    await clientOf(site).call("reportPartitions", {
      params: { asset_key: "orders" },
      body: { request_id: "r", items: [{ selector: keys("2025-01-03") }] },
    });
    await second.kill();

    const third = startServer(site);
    await untilSucceeded(site, runs[0] ?? "");
    expect((await tasksOf(site, runs[1] ?? "")).map(({ state }) => state)).not.toContain("FAILED");
    await askFor(site, "orders", ["2025-01-04"]);
    await untilSucceeded(site, runs[1] ?? "");
    await third.terminate();
  });
});

function keys(...partition_keys: string[]) {
  return { type: "explicit" as const, partition_keys };
}
