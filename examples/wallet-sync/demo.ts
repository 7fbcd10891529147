import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Background, run, startInBackground } from "./background.ts";

/*
 * node demo.ts: starts two networks and Pawl, kills Pawl half way, starts it again, rewrites some
 * blocks of one network, and compares what is stored with the nodes. All it makes is gone afterwards.
 */

type Sync = {
  status: string;
  synced_to: number | null;
  segments_complete: number;
  segments_total: number;
};

const PAWL = fileURLToPath(new URL("../../bin/pawl", import.meta.url));
const REWRITTEN_BLOCKS = 12;
const WAIT_MS_MAX = 120_000;

const folder = mkdtempSync(join(tmpdir(), "wallet-sync-"));
const env = {
  ...process.env,
  WALLET_SYNC_DATA: join(folder, "data"),
  PAWL_DATA_DIR: join(folder, "pawl"),
  // After a kill, nobody waits longer than this for those who are gone.
  PAWL_LEASE_MS: "3000",
};
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const startedAt = performance.now();

function say(text: string): void {
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`\n[${seconds.padStart(5)} s] ${text}`);
}

function startPawl(): Promise<Background> {
  return startInBackground([PAWL, "start", "--port", "0"], env, "listens on");
}

async function pawl(...args: string[]): Promise<string> {
  const { code, said } = await run([PAWL, ...args], env);
  if (code !== 0) throw new Error(`pawl ${args.join(" ")} ended with ${code}.`);
  return said;
}

/** Asks a server for its syncs until they are as they should be. */
async function until(
  server: Background,
  isReached: (syncs: readonly Sync[]) => boolean,
): Promise<void> {
  const url = /listens on (\S+)/.exec(server.said())?.[1] ?? "";
  const deadline = performance.now() + WAIT_MS_MAX;
  for (;;) {
    const response = await fetch(`${url}/api/v1/syncs`);
    const { items } = (await response.json()) as { items: Sync[] };
    if (items.length > 0 && isReached(items)) return;
    if (performance.now() > deadline) throw new Error(`Waited in vain: ${JSON.stringify(items)}`);
    await setTimeout(100);
  }
}

function isHalfDone(syncs: readonly Sync[]): boolean {
  const complete = syncs.reduce((sum, { segments_complete }) => sum + segments_complete, 0);
  const total = syncs.reduce((sum, { segments_total }) => sum + segments_total, 0);
  return syncs.every(({ segments_total }) => segments_total > 0) && complete >= total / 2;
}

function followTheHead(syncs: readonly Sync[]): boolean {
  return syncs.every(({ status }) => status === "FOLLOWING");
}

say("Starting two networks and making their history.");
const chains = await startInBackground(["chains.ts"], env, "A block a second");
console.log(chains.said().trim());

say("Starting Pawl.");
const killed = await startPawl();
await until(killed, isHalfDone);
await killed.kill();

say("Killed Pawl, server and worker, with signal 9. This is what it knows:");
console.log((await pawl("sync", "list")).trim());

say("Starting Pawl again.");
const server = await startPawl();
await until(server, followTheHead);

say("All syncs follow the head. Rewriting blocks that are stored already:");
const rewrite = await run(["reorg.ts", "north", String(REWRITTEN_BLOCKS)], env);
console.log(rewrite.said.trim());
const lastRewritten = Number(/to (\d+) of/.exec(rewrite.said)?.[1]);
await until(server, (syncs) =>
  syncs.every(
    ({ status, synced_to }) => status === "FOLLOWING" && (synced_to ?? 0) > lastRewritten,
  ),
);
console.log((await pawl("events", "--type", "SyncRewritten,SyncSegmentsReopened")).trimEnd());

say("This is what Pawl knows now, and how what is stored compares with the nodes:");
console.log((await pawl("sync", "list")).trim());
const compared = await run(["compare.ts"], env, await pawl("sync", "list", "--json"));
console.log(compared.said.trim());
const verified = await run([PAWL, "verify"], env);
console.log(verified.said.trim());

say("Stopping everything.");
await server.kill();
await chains.kill();
process.exitCode = compared.code === 0 ? verified.code : compared.code;
