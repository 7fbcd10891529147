import { rmSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { type PostgresServer, startPostgres } from "../test/postgres-server.ts";
import { type Bench, type Benchmark, type Figure, percentile, shown } from "./benchmark.ts";
import { PEERS } from "./peers/all-peers.ts";
import type { Contender } from "./peers/contender.ts";
import { installPeers } from "./peers/install-peers.ts";
import { openPostgresJobs, openRedisJobs, sqliteSize } from "./peers/job-stores.ts";
import { type LedgerStore, pawlContender } from "./peers/pawl-contender.ts";
import type { Peer } from "./peers/peer.ts";
import { peerContender } from "./peers/peer-contender.ts";
import { redisVersion } from "./peers/redis-server.ts";
import {
  figuresOf,
  type Measured,
  recoveryShown,
  settingsOf,
  type Trial,
  writeReport,
} from "./peers/report.ts";
import { withClient } from "./shard-table.ts";

const FULL_JOBS = 50_000;
const JOBS = Number(process.env["BENCH_PEERS_JOBS"] ?? FULL_JOBS);
/** Names of contenders, or parts of them, with commas between; all unless told. */
const ONLY = (process.env["BENCH_PEERS_ONLY"] ?? "").toLowerCase().split(",");
const IS_FULL = JOBS === FULL_JOBS && ONLY.join("") === "";

/** A small one only shows that everything works; it measures nothing and is not written down. */
const TRIAL: Trial = {
  jobs: JOBS,
  rounds: IS_FULL ? 3 : 1,
  perSecond: 50,
  seconds: IS_FULL ? 10 : 2,
};

/** The first second of jobs, started by code that has never run before. */
const FIRST_JOBS = TRIAL.perSecond;

/** What is tried to find out how many worker processes suit a peer, on a fifth of the jobs. */
const WORKERS_TRIED = [1, 2];

let files = 0;

function isChosen(name: string): boolean {
  return ONLY.some((word) => name.toLowerCase().includes(word));
}

async function openSqliteLedger({ folder }: Bench): Promise<LedgerStore> {
  files += 1;
  const path = join(folder, `peers-${files}.sqlite`);
  return {
    place: { path },
    size: async () => sqliteSize(path),
    close: async () => {
      for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`, { force: true });
    },
  };
}

async function openPostgresLedger(postgres: PostgresServer): Promise<LedgerStore> {
  const jobs = await openPostgresJobs(postgres);
  return {
    place: { databaseUrl: jobs.url },
    size: () => jobs.size(),
    close: () => jobs.close(),
  };
}

function pawlContenders(bench: Bench, postgres: PostgresServer): Contender[] {
  const { version } = createRequire(import.meta.url)("../package.json") as { version: string };
  const places = {
    SQLite: () => openSqliteLedger(bench),
    PostgreSQL: () => openPostgresLedger(postgres),
  };
  return (["SQLite", "PostgreSQL"] as const).flatMap((store) =>
    (["single", "batch"] as const).map((kind) =>
      pawlContender({ bench, version, store, kind, openStore: places[store] }),
    ),
  );
}

/** A peer with as many worker processes as make it fastest here. */
async function tunedPeer(
  bench: Bench,
  postgres: PostgresServer,
  peer: Peer,
  version: string,
): Promise<Contender> {
  const openStore = () => (peer.server === "Redis" ? openRedisJobs() : openPostgresJobs(postgres));
  const tried = WORKERS_TRIED.map((workers) =>
    peerContender({ bench, peer, version, workers, openStore }),
  );
  let best: { contender: Contender; perSecond: number } | null = null;
  for (const [index, contender] of tried.entries()) {
    const { perSecond } = await contender.throughput(Math.ceil(TRIAL.jobs / 5));
    bench.say(`${peer.name} with ${WORKERS_TRIED[index]} worker processes: ${shown(perSecond)} /s`);
    if (best === null || perSecond > best.perSecond) best = { contender, perSecond };
  }
  if (best === null) throw new Error("no number of worker processes is tried");
  return best.contender;
}

async function measureRound(bench: Bench, each: Measured): Promise<void> {
  const { contender, throughputs, p50Ms, p99Ms } = each;
  const done = await contender.throughput(TRIAL.jobs);
  throughputs.push(done);
  bench.say(`${contender.name}: ${shown(done.perSecond)} /s`);
  if (contender.latency === null) return;
  const count = TRIAL.seconds * TRIAL.perSecond + FIRST_JOBS;
  const waits = (await contender.latency(count, TRIAL.perSecond)).slice(FIRST_JOBS);
  p50Ms.push(percentile(waits, 0.5));
  p99Ms.push(percentile(waits, 0.99));
  bench.say(
    `${contender.name}: p50 ${shown(p50Ms.at(-1) ?? 0)} ms, p99 ${shown(p99Ms.at(-1) ?? 0)} ms`,
  );
}

async function measureAll(bench: Bench, contenders: readonly Contender[]): Promise<Measured[]> {
  const all = contenders.map(
    (contender): Measured => ({ contender, throughputs: [], p50Ms: [], p99Ms: [], recovery: null }),
  );
  for (let round = 0; round < TRIAL.rounds; round += 1) {
    // Backwards every other time, so that nobody always comes after the same one.
    const order = round % 2 === 0 ? all : all.toReversed();
    bench.say(`round ${round + 1} of ${TRIAL.rounds}`);
    for (const each of order) await measureRound(bench, each);
  }
  for (const each of all) {
    const { contender } = each;
    if (contender.recovery === null) continue;
    each.recovery = { ms: await contender.recovery() };
    bench.say(`${contender.name}: after a kill ${recoveryShown(each)}`);
  }
  return all;
}

async function postgresVersion({ url }: PostgresServer): Promise<string> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ server_version: string }>("show server_version");
    return rows[0]?.server_version ?? "";
  });
}

async function run(bench: Bench): Promise<Figure[]> {
  const peers = PEERS.filter(({ name }) => isChosen(name));
  const versions = installPeers(peers.map(({ packageName }) => packageName));
  const redis = peers.some(({ server }) => server === "Redis") ? redisVersion() : null;
  const postgres = await startPostgres();
  try {
    const contenders = pawlContenders(bench, postgres).filter(({ name }) => isChosen(name));
    for (const peer of peers) {
      const version = versions.get(peer.packageName) ?? "";
      contenders.push(await tunedPeer(bench, postgres, peer, version));
    }
    const servers = { postgres: await postgresVersion(postgres), redis };
    for (const line of settingsOf(contenders, servers)) bench.say(line);
    const all = await measureAll(bench, contenders);
    if (IS_FULL) writeReport(all, TRIAL, servers);
    return all.flatMap((each) => figuresOf(each, TRIAL));
  } finally {
    await postgres.stop();
  }
}

/** No-op jobs in the queues that a TypeScript team would use instead, and in Pawl. */
export const peers: Benchmark = {
  name: "peers",
  about: "Pawl beside graphile-worker, pg-boss, BullMQ and DBOS",
  run,
};
