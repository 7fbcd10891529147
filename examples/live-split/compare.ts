import { readFileSync } from "node:fs";
import { openLedger } from "./open-ledger.ts";
import { ACCOUNTS, ENTRIES, LOAD_FILE, SHARDS, TENANTS } from "./places.ts";
import type { Said } from "./traffic.ts";

/*
 * node compare.ts: holds the shards to what the load was told. On the shard that owns a tenant every
 * acknowledged write is there once. Ends with 1 when that is not so.
 */

const FORMAT = ["TENANT", "SHARD", "EPOCH", "ACKNOWLEDGED", "COUNTED", "ENTRIES", "ELSEWHERE"];

const { acknowledged } = JSON.parse(readFileSync(LOAD_FILE, "utf8")) as Said;
const ledger = openLedger();
const lines = [line([...FORMAT, ""])];
try {
  const sums = new Map(
    await Promise.all(SHARDS.map(async (shard) => [shard, await ledger.sumsOn(shard)] as const)),
  );
  for (const tenant of TENANTS) {
    const { shard, epoch } = await ledger.routeOf(tenant);
    const owner = SHARDS.find((each) => each === shard) ?? "east";
    const other = owner === "east" ? "west" : "east";
    const { counted, entries } = sums.get(owner)?.get(tenant) ?? { counted: 0, entries: 0 };
    const elsewhere = sums.get(other)?.get(tenant)?.entries ?? 0;
    const wanted = ACCOUNTS * ENTRIES + (acknowledged[tenant] ?? 0);
    const isRight = counted === wanted && entries === wanted;
    if (!isRight) process.exitCode = 1;
    const cells = [tenant, shard, epoch, wanted, counted, entries, elsewhere];
    lines.push(line([...cells.map(String), isRight ? "ok" : "WRONG"]));
  }
} finally {
  await ledger.close();
}
console.log(lines.join("\n"));

function line(cells: readonly string[]): string {
  const widths = [8, 6, 7, 14, 9, 9, 11, 0];
  const padded = cells.map((cell, at) =>
    at < 2 || at === cells.length - 1
      ? cell.padEnd(widths[at] ?? 0)
      : cell.padStart(widths[at] ?? 0),
  );
  return `${padded.slice(0, -1).join("")}  ${padded.at(-1)}`.trimEnd();
}
