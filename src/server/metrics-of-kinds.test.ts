import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { seen, SyncServer, syncSpec } from "../../test/sync-server.ts";
import { syncMetrics } from "./metrics-of-kinds.ts";

test("syncs are counted by status, with their segments, their lag and their audits", async () => {
  const server = await SyncServer.start();
  const targets = [{ wallet: "a" }, { wallet: "b" }];
  await server.base.publish(syncSpec({ targets, finality: 10, max_parallel: 1 }));
  await server.base.publish(syncSpec({ name: "t" }));
  await server.see(await server.head(), seen(109));
  await server.work();
  await server.base.pass(10_000);
  const registry = new Registry();
  syncMetrics(registry, server.engine);
  const lines = (await registry.metrics()).split("\n").filter((line) => !line.startsWith("#"));
  expect(lines.filter((line) => line !== "")).toEqual([
    'pawl_syncs{status="RUNNING"} 2',
    'pawl_syncs{status="PENDING"} 1',
    'pawl_sync_segments{status="PENDING"} 6',
    'pawl_sync_segments{status="RUNNING"} 0',
    'pawl_sync_segments{status="COMPLETE"} 2',
    'pawl_sync_segments{status="FAILED"} 0',
    'pawl_sync_segments{status="QUARANTINED"} 0',
    "pawl_sync_quarantined_segments 0",
    'pawl_sync_lag_blocks{sync="s",source="node"} 75',
    'pawl_sync_lag_blocks{sync="t",source="node"} 0',
    'pawl_sync_blocks_complete{sync="s",source="node"} 50',
    'pawl_sync_blocks_complete{sync="t",source="node"} 0',
    "pawl_sync_audits_total 1",
    "pawl_sync_faults_total 0",
  ]);
  expect(server.base.warnings).toEqual([]);
  await server.base.close();
});
