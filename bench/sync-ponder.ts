import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { killAll } from "../test/faults/pawl-process.ts";
import { type PostgresServer, startPostgres } from "../test/postgres-server.ts";
import { type BenchChain, makeChain } from "./bench-chain.ts";
import { atLeast, atMost, type Bench, type Benchmark, type Figure, told } from "./benchmark.ts";
import { askedAgain, startCountingProxy } from "./counting-proxy.ts";
import type { Indexer, IndexingSetup } from "./indexer.ts";
import { makeTable, PAWL_TABLE, startPawl } from "./pawl-sync.ts";
import { assertPonderIsInstalled, PONDER_TABLE, startPonder } from "./ponder-process.ts";

const BLOCKS = Number(process.env["BENCH_SYNC_BLOCKS"] ?? 50_000);
const EVENTS_PER_BLOCK = 5;
const LOOK_EVERY_MS = 100;

/** One that is measured. */
type Contender = {
  name: string;
  table: string;
  prepare: (databaseUrl: string) => Promise<void>;
  start: (setup: IndexingSetup) => Promise<Indexer>;
};

/** How long the whole took, and the second half after a kill, with what was asked for again. */
type Measured = {
  coldSeconds: number;
  restSeconds: number;
  /** Segments that were running when it was killed. */
  running: number | null;
  again: ReturnType<typeof askedAgain>;
};

const PONDER: Contender = {
  name: "Ponder",
  table: PONDER_TABLE,
  prepare: async () => {},
  start: startPonder,
};
const PAWLS: Contender[] = (
  [
    ["Pawl", "headers"],
    ["Pawl, each segment verified", "all"],
    ["Pawl without headers", "none"],
  ] as const
).map(([name, checks]) => ({
  name,
  table: PAWL_TABLE,
  prepare: makeTable,
  start: (setup) => startPawl(setup, checks),
}));

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(LOOK_EVERY_MS);
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1_000;
}

/** A database of its own on the server. */
async function makeDatabase(server: PostgresServer, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query(`create database ${client.escapeIdentifier(name)}`);
  await client.end();
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}

/** Throws unless every event of the chain is in the table, once. */
async function assertStored(
  { table }: Contender,
  { chain, databaseUrl }: IndexingSetup,
): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ count: string; sum: string }>(
    `select count(*), sum(value) from ${table}`,
  );
  await client.end();
  const first = chain.from * EVENTS_PER_BLOCK;
  const sum = (BigInt(chain.events) * BigInt(2 * first + chain.events - 1)) / 2n;
  const stored = rows[0];
  if (stored?.count === String(chain.events) && stored.sum === String(sum)) return;
  throw new Error(`${table} has ${JSON.stringify(stored)}, not ${chain.events} with ${sum}`);
}

/** From an empty database to the last event, the start of the processes included. */
async function runCold(contender: Contender, setup: IndexingSetup): Promise<number> {
  const startedMs = performance.now();
  const indexer = await contender.start(setup);
  await until(() => indexer.isReady());
  const seconds = secondsSince(startedMs);
  await indexer.kill();
  await assertStored(contender, setup);
  return seconds;
}

/** Kills it at the half and starts it again. */
async function runKilled(
  contender: Contender,
  setup: IndexingSetup,
): Promise<Omit<Measured, "coldSeconds">> {
  const proxy = await startCountingProxy(setup.chain.anvil.url);
  try {
    const counted = { ...setup, nodeUrl: proxy.url };
    const indexer = await contender.start(counted);
    await until(async () => (await indexer.share()) >= 0.5);
    const running = await indexer.running();
    await indexer.kill();
    const before = proxy.take();
    const startedMs = performance.now();
    const second = await contender.start(counted);
    await until(() => second.isReady());
    const restSeconds = secondsSince(startedMs);
    await second.kill();
    await assertStored(contender, setup);
    return { restSeconds, running, again: askedAgain(before, proxy.take()) };
  } finally {
    await proxy.close();
  }
}

async function measure(
  bench: Bench,
  contender: Contender,
  chain: BenchChain,
  postgres: PostgresServer,
): Promise<Measured> {
  const setupOf = async (which: string): Promise<IndexingSetup> => {
    const name = `${contender.name} ${which}`;
    const databaseUrl = await makeDatabase(postgres, name);
    await contender.prepare(databaseUrl);
    return { folder: join(bench.folder, name), nodeUrl: chain.anvil.url, chain, databaseUrl };
  };
  const coldSeconds = await runCold(contender, await setupOf("cold"));
  bench.say(`${contender.name}: ${coldSeconds.toFixed(1)} s`);
  const killed = await runKilled(contender, await setupOf("killed"));
  bench.say(`${contender.name}: ${killed.restSeconds.toFixed(1)} s after the kill`);
  return { coldSeconds, ...killed };
}

/** All about one contender, held against a peer where there is one. */
function figuresOf(
  { name }: Contender,
  { blocks, events }: BenchChain,
  { coldSeconds, restSeconds, running, again }: Measured,
  peer: Measured | null,
): Figure[] {
  const cold = `${name}, ${blocks} blocks with ${EVENTS_PER_BLOCK} events each, cold`;
  const segments = running === null ? "" : `, ${running} segments running`;
  const killed = `${name}, kill -9 at 50 %${segments}`;
  const speed = (what: string, count: number) =>
    peer === null
      ? told(what, cold, count / coldSeconds, "/s")
      : atLeast(what, cold, count / coldSeconds, count / peer.coldSeconds, "/s");
  return [
    speed("blocks", blocks),
    speed("events", events),
    peer === null
      ? told("restart to the last event", killed, restSeconds, "s")
      : atMost("restart to the last event", killed, restSeconds, peer.restSeconds, "s"),
    told("eth_getLogs asked again", killed, again.logRequests, "requests"),
    told("blocks in them asked for before", killed, again.logBlocks, "blocks"),
    told("blocks asked for one by one again", killed, again.blocks, "blocks"),
  ];
}

async function run(bench: Bench): Promise<Figure[]> {
  assertPonderIsInstalled();
  const chain = await makeChain(BLOCKS, EVENTS_PER_BLOCK);
  const postgres = await startPostgres();
  bench.say(`a chain of ${chain.blocks} blocks with ${chain.events} events is made`);
  try {
    const ponder = await measure(bench, PONDER, chain, postgres);
    const figures = figuresOf(PONDER, chain, ponder, null);
    for (const pawl of PAWLS) {
      figures.push(...figuresOf(pawl, chain, await measure(bench, pawl, chain, postgres), ponder));
    }
    return figures;
  } finally {
    await killAll();
    await postgres.stop();
    await chain.anvil.stop();
  }
}

/** The transfers of a token into PostgreSQL, from a node of one's own: Pawl beside Ponder. */
export const syncPonder: Benchmark = {
  name: "sync-ponder",
  about: "the transfers of a token into PostgreSQL, beside Ponder",
  run,
};
