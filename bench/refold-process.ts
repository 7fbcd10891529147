import process from "node:process";
import { rebuildRows } from "../src/engine/ledger/refold.ts";
import { verifyLedger } from "../src/engine/ledger/verify.ts";
import { openSqliteStore } from "../src/store/sqlite/store.ts";

/*
 * Folds a ledger anew and verifies it, in a process of its own.
 */

/** What it took. */
export type FromRefold = {
  type: "done";
  events: number;
  rebuildMs: number;
  rebuildCpuMs: number;
  verifyMs: number;
  rssPeakBytes: number;
};

const { path } = JSON.parse(process.argv[2] ?? "{}") as { path: string };
const store = await openSqliteStore({ path, clock: Date.now });
const workspace = await store.workspace("default", "default");
const startedMs = performance.now();
const startedCpu = process.cpuUsage();
const { events } = await rebuildRows(store, workspace);
const rebuiltMs = performance.now();
const { user, system } = process.cpuUsage(startedCpu);
await verifyLedger(store, workspace);
const verifiedMs = performance.now();
await store.close();
const done: FromRefold = {
  type: "done",
  events,
  rebuildMs: rebuiltMs - startedMs,
  rebuildCpuMs: (user + system) / 1_000,
  verifyMs: verifiedMs - rebuiltMs,
  rssPeakBytes: process.resourceUsage().maxRSS * 1_024,
};
process.send?.(done, () => process.exit(0));
