/**
 * `node scripts/live-splits.ts --splits 20 --writes-per-second 1000`: splits tenants off one after
 * the other under a load, half of them first taken back, and compares every row with what was
 * acknowledged. `--postgres` uses PostgreSQL instead of SQLite, with some writers in REPEATABLE READ;
 * `--long` has some of them keep their transactions open for so many ms, which a cutover waits for.
 * Prints how long writes stood still; ends with 1 when a row is wrong. With `--minutes 5` it begins
 * again with the next seed until that time is over. The last line says how many splits there were.
 */
import { parseArgs } from "node:util";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../test/postgres-server.ts";
import { percentile, runManySplits } from "../test/shards/live/many-splits.ts";

const { values } = parseArgs({
  options: {
    postgres: { type: "boolean", default: false },
    splits: { type: "string", default: "20" },
    "writes-per-second": { type: "string", default: "1000" },
    long: { type: "string", default: "0" },
    minutes: { type: "string", default: "0" },
    seed: { type: "string", default: String(Date.now() % 2 ** 31) },
  },
});

const SHOWN_MAX = 20;

const endsAt = performance.now() + Number(values.minutes) * 60_000;
const postgres = values.postgres ? await startPostgres() : null;
let rounds = 0;
let cutovers = 0;
try {
  do {
    const seed = Number(values.seed) + rounds;
    rounds += 1;
    if (await runRound(seed)) continue;
    console.log(`seed ${seed}: broken; again: ${again(seed)}`);
    process.exitCode = 1;
  } while (performance.now() < endsAt && process.exitCode !== 1);
  const broken = process.exitCode === 1 ? 1 : 0;
  console.log(`${rounds * Number(values.splits)} splits, ${cutovers} cutovers, ${broken} broken`);
} finally {
  await postgres?.stop();
}

/** Runs so many splits on shards of their own; true when every row was right. */
async function runRound(seed: number): Promise<boolean> {
  const own = postgres === null ? {} : { databases: await newDatabases(postgres, rounds) };
  const longMs = Number(values.long);
  const mixed = { repeatableRead: 0.25, long: longMs > 0 ? 0.002 : 0, longMs };
  const { mismatches, pauses, said, rolledBack, complaints } = await runManySplits({
    ...own,
    splits: Number(values.splits),
    load: {
      seed,
      writesPerSecond: Number(values["writes-per-second"]),
      ...(postgres === null ? {} : mixed),
    },
    say: (line) => console.log(`  ${line}`),
  });
  cutovers += pauses.length;
  const ms = (value: number): string => `${value.toFixed(1)} ms`;
  const { median, p99, longest } = said.latency;
  console.log(`seed ${seed}: ${values.splits} splits, ${rolledBack} taken back first`);
  console.log(
    `${said.acknowledged} writes and ${said.reads} reads, ${mismatches.length} mismatches`,
  );
  console.log(`writes took ${ms(median)} (median), ${ms(p99)} (p99), ${ms(longest)} (longest)`);
  console.log(`failed: ${JSON.stringify(said.failed)}`);
  console.log(
    `${pauses.length} cutovers, pauses ${ms(percentile(pauses, 0.5))} (median), ` +
      `${ms(percentile(pauses, 0.99))} (p99), ${ms(Math.max(...pauses))} (longest)`,
  );
  for (const each of [...mismatches, ...complaints].slice(0, SHOWN_MAX)) console.error(each);
  return mismatches.length + complaints.length === 0;
}

function again(seed: number): string {
  const flags = values.postgres ? " --postgres" : "";
  return `node scripts/live-splits.ts --seed ${seed} --splits ${values.splits}${flags}`;
}

async function newDatabases(server: PostgresServer, round: number): Promise<[string, string]> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  const names = [`east_${round}`, `west_${round}`] as const;
  for (const name of names) await client.query(`create database ${name}`);
  await client.end();
  const [east, west] = names;
  return [new URL(`/${east}`, server.url).href, new URL(`/${west}`, server.url).href];
}
