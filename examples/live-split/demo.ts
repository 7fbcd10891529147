import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type Background, run, startInBackground } from "./background.ts";
import type { Said } from "./traffic.ts";

/*
 * node demo.ts [--postgres] [--rollback] [--writes 200]: makes two shards, starts Pawl and a load,
 * moves two tenants from one shard to the other while the load goes on, and compares the shards with
 * what the load was told. With --rollback it takes the cutover back. All it makes is gone afterwards.
 *
 * --postgres keeps the shards in a PostgreSQL of its own, or in the databases whose addresses are in
 * LIVE_SPLIT_EAST and LIVE_SPLIT_WEST.
 */

const PAWL = fileURLToPath(new URL("../../bin/pawl", import.meta.url));
const MOVING = ["birch", "cedar"];
/** How long the load goes on between two commands, so that there is something to see. */
const LOOK_MS = 1_500;

const { values } = parseArgs({
  options: {
    postgres: { type: "boolean", default: false },
    rollback: { type: "boolean", default: false },
    writes: { type: "string", default: "200" },
  },
});

const folder = mkdtempSync(join(tmpdir(), "live-split-"));
const data = join(folder, "data");
const env = {
  ...process.env,
  LIVE_SPLIT_DATA: data,
  PAWL_DATA_DIR: join(folder, "pawl"),
};
const running: Background[] = [];
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const startedAt = performance.now();

function say(text: string): void {
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`\n[${seconds.padStart(5)} s] ${text}`);
}

async function start(args: readonly string[], isUp: string): Promise<Background> {
  const started = await startInBackground(args, env, isUp);
  running.push(started);
  return started;
}

/** Runs a program and prints what it says; fails when it does. */
async function show(...args: string[]): Promise<void> {
  const { code, said } = await run(args, env);
  console.log(said.trimEnd());
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}.`);
}

async function pawl(...args: string[]): Promise<void> {
  await show(PAWL, ...args);
}

/** How often a cutover is asked for before it is given up. */
const CUTOVERS_MAX = 10;

/** Cuts over, there or back. Where a write takes too long it falls back by itself, and is asked for again. */
async function cutover(command: "cutover" | "rollback", split: string): Promise<void> {
  for (let asked = 1; ; asked += 1) {
    const { code, said } = await run([PAWL, "split", command, split, "--wait"], env);
    console.log(said.trimEnd());
    if (code === 0) return;
    if (asked === CUTOVERS_MAX) throw new Error(`split ${command} ended with ${code}.`);
    await setTimeout(LOOK_MS);
  }
}

async function planned(): Promise<string> {
  const { said } = await run([PAWL, "split", "list", "--json"], env);
  const { items } = JSON.parse(said) as { items: { split_id: string }[] };
  return items[0]?.split_id ?? "";
}

function saidOfLoad(): Said {
  return JSON.parse(readFileSync(join(data, "load.json"), "utf8")) as Said;
}

/** Moves the tenants, from the plan to the cutover. */
async function cutOver(): Promise<string> {
  say(`Planning to move ${MOVING.join(" and ")} from east to west.`);
  await pawl(
    "split",
    "plan",
    ...MOVING,
    "--from",
    "east",
    "--to",
    "west",
    "--grace",
    "0s",
    "--wait",
  );
  const split = await planned();

  say("Having every change captured, in the transaction that makes it.");
  await pawl("split", "start-dual-write", split, "--wait");

  say("Copying, following what is written meanwhile, and comparing.");
  await pawl("split", "run-backfill", split, "--wait");

  say("Cutting over.");
  await cutover("cutover", split);
  await setTimeout(LOOK_MS);
  return split;
}

async function demonstrate(): Promise<void> {
  if (values.postgres && process.env["LIVE_SPLIT_EAST"] === undefined) {
    say("Starting a PostgreSQL.");
    await start(["postgres.ts"], "until Ctrl-C");
  }
  say("Making two shards.");
  await show("prepare.ts");

  say(`Starting Pawl, and a load of ${values.writes} writes a second.`);
  await start([PAWL, "start", "--port", "0"], "listens on");
  await pawl("routing", "set", "--default", "east");
  const load = await start(["load.ts", "--writes", values.writes], "writes a second");
  await setTimeout(LOOK_MS);

  const split = await cutOver();
  if (values.rollback) {
    say("Taking it back: another cutover, over the stream that led back all the while.");
    await cutover("rollback", split);
  } else {
    say("Completing: no way back from here on, and the rows on east are removed.");
    await pawl("split", "complete", split, "--wait");
  }
  await setTimeout(LOOK_MS);

  say("Stopping the load, and comparing the shards with what it was told:");
  console.log((await load.stop()).trim());
  await show("compare.ts");
  await pawl("routing", "show");
  await pawl("verify");
  const failed = Object.values(saidOfLoad().failed).reduce((sum, each) => sum + each, 0);
  if (failed > 0) throw new Error(`${failed} writes failed.`);
}

try {
  await demonstrate();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  say("Stopping everything.");
  for (const each of running.toReversed()) await each.kill();
}
