/**
 * `npm run faults -- --minutes 10`: kills and freezes servers and workers and sets their clocks, under
 * load, round after round, and holds what is left to the promises. `--postgres` uses PostgreSQL instead
 * of SQLite, `--seed 7` begins with that seed. Ends with 1 and the broken promises as soon as a round
 * breaks one. The last line says how many rounds and faults there were.
 */
import { parseArgs } from "node:util";
import pg from "pg";
import { runKillRounds, summaryOf } from "../test/faults/kill-rounds.ts";
import { type PostgresServer, startPostgres } from "../test/postgres-server.ts";

const KILLS_PER_ROUND = 60;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    postgres: { type: "boolean", default: false },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
  },
});

const endsAt = performance.now() + Number(values.minutes) * 60_000;
const postgres = values.postgres ? await startPostgres() : null;
let rounds = 0;
let faults = 0;
try {
  do {
    const seed = Number(values.seed) + rounds;
    rounds += 1;
    if (await runRound(seed)) continue;
    console.log(`seed ${seed}: broken; again: ${again(seed)}`);
    process.exitCode = 1;
  } while (performance.now() < endsAt && process.exitCode !== 1);
  console.log(`${rounds} rounds, ${faults} faults, ${process.exitCode === 1 ? 1 : 0} broken`);
} finally {
  await postgres?.stop();
}

/** Runs one round on a store of its own; true when every promise was kept. */
async function runRound(seed: number): Promise<boolean> {
  const databaseUrl = postgres === null ? null : await newDatabase(postgres, `round_${seed}`);
  const report = await runKillRounds({
    seed,
    isEnough: (kills) => kills >= KILLS_PER_ROUND || performance.now() >= endsAt,
    say: (line) => console.log(`  ${line}`),
    ...(databaseUrl === null ? {} : { databaseUrl }),
  });
  console.log(summaryOf(report));
  faults += Object.values(report.kills).reduce((sum, count) => sum + count, 0);
  const { violations, complaints, verify, exits } = report;
  for (const { promise, what } of violations.list) console.error(`${promise}: ${what}`);
  for (const complaint of complaints) console.error(complaint);
  if (verify.code !== 0) console.error(verify.stderr);
  const isClean = verify.code === 0 && exits.every(({ code }) => code === 0);
  return violations.count === 0 && complaints.length === 0 && isClean;
}

function again(seed: number): string {
  return `npm run faults -- --seed ${seed}${values.postgres ? " --postgres" : ""}`;
}

async function newDatabase(server: PostgresServer, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query(`create database ${client.escapeIdentifier(name)}`);
  await client.end();
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}
