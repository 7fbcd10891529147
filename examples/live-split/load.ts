import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { openLedger } from "./open-ledger.ts";
import { ACCOUNTS, DATA, LOAD_FILE, TENANTS } from "./places.ts";
import { type Said, Traffic } from "./traffic.ts";

/*
 * node load.ts [--writes 200]: writes for all tenants through a router, so many times a second, until
 * Ctrl-C. It keeps in a file how many writes of each tenant were acknowledged.
 */

const { values } = parseArgs({ options: { writes: { type: "string", default: "200" } } });
const SAY_EVERY_MS = 1_000;

const ledger = openLedger();
const traffic = new Traffic(TENANTS, Number(values.writes), (tenant) =>
  ledger.addEntry(tenant, 1 + Math.floor(Math.random() * ACCOUNTS)),
);

function keep(said: Said): void {
  // Renamed into place, so that nobody reads half of it.
  writeFileSync(`${LOAD_FILE}.new`, `${JSON.stringify(said, null, 2)}\n`);
  renameSync(`${LOAD_FILE}.new`, LOAD_FILE);
}

mkdirSync(DATA, { recursive: true });
traffic.start();
const timer = setInterval(() => keep(traffic.said()), SAY_EVERY_MS);
console.log(`${values.writes} writes a second, for ${TENANTS.join(", ")}.`);

async function stop(): Promise<void> {
  clearInterval(timer);
  const said = await traffic.stop();
  keep(said);
  await ledger.close();
  const count = Object.values(said.acknowledged).reduce((sum, each) => sum + each, 0);
  const { median, p99, longest } = said.latency;
  console.log(`${count} writes were acknowledged in ${said.seconds} s.`);
  console.log(`Half of them took ${median} ms, 99 % up to ${p99} ms, the longest ${longest} ms.`);
  const failed = Object.entries(said.failed).map(([why, times]) => `${why} ${times} times`);
  console.log(failed.length === 0 ? "None failed." : `Failed: ${failed.join(", ")}.`);
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
