/**
 * `npm run test:long -- --minutes 30`: campaigns of fresh seeds, side by side on all cores: simulations,
 * splits, moves, kills, properties, splits under a load, made-up requests. `--only simulate,kills` runs some of
 * them, `--seed 7` takes the seeds of an earlier run, `--postgres` uses PostgreSQL where a campaign
 * can. Seeds that break a promise are added to `failed-seeds.log` with the command that runs them again.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const KEPT_IN = "failed-seeds.log";

/** A script, the part of all the time that it gets, and its arguments. */
type Campaign = { name: string; script: string; share: number; args: readonly string[] };

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: String(1_000_000 + (Date.now() % 2 ** 30)) },
    only: { type: "string", default: "" },
    postgres: { type: "boolean", default: false },
  },
});
const { seed } = values;
const onPostgres = values.postgres ? ["--postgres"] : [];

const ALL: readonly Campaign[] = [
  { name: "simulate", script: "simulate.ts", share: 0.4, args: ["--seeds", `${seed}..`] },
  { name: "kills", script: "kill-loop.ts", share: 0.2, args: ["--seed", seed, ...onPostgres] },
  { name: "splits", script: "split-seeds.ts", share: 0.15, args: ["--seeds", `${seed}..`] },
  {
    name: "live-splits",
    script: "live-splits.ts",
    share: 0.1,
    args: ["--seed", seed, "--splits", "4", ...onPostgres],
  },
  {
    name: "properties",
    script: "property-seeds.ts",
    share: 0.08,
    args: ["--seeds", `${seed}..`],
  },
  { name: "moves", script: "move-seeds.ts", share: 0.08, args: ["--seeds", `${seed}..`] },
  { name: "fuzz", script: "fuzz-api.ts", share: 0.07, args: ["--seed", seed, ...onPostgres] },
];

const campaigns = chosen(values.only);
const lanes = Math.min(availableParallelism(), campaigns.length);
const shares = campaigns.reduce((sum, { share }) => sum + share, 0);
/** No campaign takes longer than all of it, whatever its share. */
const minutesOf = ({ share }: Campaign): number =>
  Math.min(1, (share * lanes) / shares) * Number(values.minutes);

console.log(`seed ${seed}: ${campaigns.map(({ name }) => name).join(", ")}`);
const said = new Map<string, string>();
const waiting = [...campaigns];
await Promise.all(Array.from({ length: lanes }, () => runWaiting()));
console.log(`\nseed ${seed}:`);
for (const { name } of campaigns) console.log(`  ${name}: ${said.get(name)}`);
if (process.exitCode === 1) console.log(`Seeds that failed are in ${KEPT_IN}.`);

function chosen(only: string): readonly Campaign[] {
  const names = only.split(",").filter((name) => name !== "");
  const unknown = names.filter((name) => ALL.every((campaign) => campaign.name !== name));
  if (unknown.length > 0) {
    console.error(`--only takes ${ALL.map(({ name }) => name).join(", ")}; not ${unknown.join()}.`);
    process.exit(2);
  }
  return names.length === 0 ? ALL : ALL.filter(({ name }) => names.includes(name));
}

/** Runs what waits, one after the other: the longest first, so that the cores end together. */
async function runWaiting(): Promise<void> {
  for (;;) {
    const campaign = waiting.shift();
    if (campaign === undefined) return;
    said.set(campaign.name, await runCampaign(campaign));
  }
}

/** Answers the last line of the script, which says how many it did. */
async function runCampaign(campaign: Campaign): Promise<string> {
  const { name, script, args } = campaign;
  const file = fileURLToPath(new URL(script, import.meta.url));
  const flags = [...args, "--minutes", String(minutesOf(campaign))];
  const child = spawn(process.execPath, [file, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close") as Promise<[number | null]>;
  let last = "it said nothing";
  const failed: string[] = [];
  createInterface(child.stdout).on("line", (line) => {
    console.log(`${name}: ${line}`);
    last = line;
    if (line.includes("; again: ")) failed.push(line);
  });
  const complaints: string[] = [];
  createInterface(child.stderr).on("line", (line) => {
    console.error(`${name}: ${line}`);
    complaints.push(line);
  });
  const [code] = await ended;
  if (code === 0) return last;
  process.exitCode = 1;
  const what = failed.length > 0 ? failed : [`ended with ${code}: ${complaints.at(-1) ?? last}`];
  const at = new Date().toISOString();
  appendFileSync(KEPT_IN, what.map((line) => `${at} ${name}: ${line}\n`).join(""));
  return `${last} (failed)`;
}
