import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../../src/client/client.ts";
import type { Bench } from "../benchmark.ts";
import {
  type BenchServer,
  type Child,
  startBenchServer,
  startBenchWorker,
} from "../child-process.ts";
import type { StorePlace } from "../open-bench-store.ts";
import { machineMs } from "../machine-ms.ts";
import { type BackfillWish, runBackfill } from "../run-backfill.ts";
import type { FromWorker } from "../worker-process.ts";
import {
  type Contender,
  HELD_BEFORE_KILL_MS,
  RECOVERY_MS_MAX,
  type StoreSize,
  THROUGHPUT_MS_MAX,
  type Throughput,
} from "./contender.ts";
import { atPace, lookFor, within } from "./waiting.ts";

/** How often the worker is asked what it has begun. */
const LOOK_MS = 10;

/** How the partitions of a backfill become tasks, as in the benchmarks of partitions. */
const KINDS = {
  single: { asset: "single", chunkSize: 10, maxConcurrentRuns: 100, concurrency: 400 },
  batch: { asset: "batch", chunkSize: 100, maxConcurrentRuns: 100, concurrency: 100 },
} as const;

/** An empty place for a ledger. */
export type LedgerStore = {
  place: StorePlace;
  size: () => Promise<StoreSize>;
  close: () => Promise<void>;
};

/** What Pawl is measured with. */
export type PawlSetup = {
  bench: Bench;
  version: string;
  store: "SQLite" | "PostgreSQL";
  kind: keyof typeof KINDS;
  openStore: () => Promise<LedgerStore>;
};

type Processes = {
  server: BenchServer;
  startWorker: () => Child<FromWorker>;
};

/** Pawl with its server and one worker process; a job is a partition of a backfill. */
export function pawlContender(setup: PawlSetup): Contender {
  const { version, store, kind } = setup;
  const { chunkSize, maxConcurrentRuns, concurrency } = KINDS[kind];
  const tasks = kind === "single" ? "a task for each job" : "a task for each chunk";
  // One job at a time is the same for both.
  const isFirst = kind === "single";
  return {
    name: `Pawl on ${store}, ${kind}`,
    version,
    settings:
      `a server and 1 worker process, one backfill, ${tasks}, chunks of ${chunkSize}, ` +
      `${maxConcurrentRuns} runs and ${concurrency} tasks at once`,
    afterDeath: "after about 15 s",
    keeps: "kept for ever",
    throughput: (jobs) =>
      onEmptyStore(setup, (processes, ledger) => throughput(setup, processes, ledger, jobs)),
    latency: isFirst
      ? (jobs, perSecond) => onEmptyStore(setup, (processes) => latency(processes, jobs, perSecond))
      : null,
    recovery: isFirst ? () => onEmptyStore(setup, recovery) : null,
  };
}

/** Has something measured in new processes on an empty store; both are gone afterwards. */
async function onEmptyStore<Measured>(
  { bench, kind, openStore }: PawlSetup,
  measure: (processes: Processes, ledger: LedgerStore) => Promise<Measured>,
): Promise<Measured> {
  const ledger = await openStore();
  const children: Pick<Child<FromWorker>, "kill">[] = [];
  try {
    const server = await within(
      "the start of Pawl",
      startBenchServer(bench, { ...ledger.place, port: 0 }),
    );
    children.push(server);
    const startWorker = (): Child<FromWorker> => {
      const { concurrency } = KINDS[kind];
      const worker = startBenchWorker(bench, { url: server.url, concurrency });
      children.push(worker);
      return worker;
    };
    return await measure({ server, startWorker }, ledger);
  } finally {
    await Promise.all(children.map((child) => child.kill()));
    await ledger.close();
  }
}

async function throughput(
  { bench, kind }: PawlSetup,
  { server, startWorker }: Processes,
  ledger: LedgerStore,
  jobs: number,
): Promise<Throughput> {
  const { concurrency: _, ...backfill } = KINDS[kind];
  const worker = startWorker();
  await doFirstJob(server);
  const before = await ledger.size();
  const wish: BackfillWish = { ...backfill, through: jobs - 1 };
  const askedAt = Date.now();
  const done = await within(
    "the backfill",
    runBackfill(server.url, wish, bench.say),
    THROUGHPUT_MS_MAX,
  );
  const endedAt = Date.parse(done.backfill.finished_at ?? "");
  const [served, worked] = await Promise.all([server.ask("usage"), worker.ask("usage")]);
  const after = await ledger.size();
  return {
    perSecond: jobs / ((endedAt - askedAt) / 1_000),
    memoryBytes: served.rssPeakBytes + worked.rssPeakBytes,
    serverMemoryBytes: 0,
    perJob: {
      rows: (after.rows - before.rows) / jobs,
      bytes: (after.bytes - before.bytes) / jobs,
    },
  };
}

/** Has one job done, after which the worker is known to be connected. */
async function doFirstJob({ url }: BenchServer): Promise<void> {
  const client = createClient({ url });
  const { run_id } = await client.call("requestRun", { body: { assets: ["report"] } });
  const look = async (): Promise<string | null> =>
    (await client.call("getRun", { params: { run_id } })).finished_at;
  if ((await lookFor(look, THROUGHPUT_MS_MAX, LOOK_MS)) === null) {
    throw new Error("Pawl did not do its first job");
  }
}

async function latency(
  { server, startWorker }: Processes,
  jobs: number,
  perSecond: number,
): Promise<number[]> {
  const worker = startWorker();
  await doFirstJob(server);
  const client = createClient({ url: server.url });
  await atPace(jobs, perSecond, () => {
    const body = { assets: ["stamped"], config: { sent_ms: machineMs() } };
    return client.call("requestRun", { body });
  });
  const waits = await lookFor(
    async () => {
      const told = await within("an answer", worker.ask("waits"));
      return told.waits.length >= jobs ? told.waits : null;
    },
    THROUGHPUT_MS_MAX,
    LOOK_MS,
  );
  if (waits === null) throw new Error(`Pawl did not run all of ${jobs} jobs`);
  return waits;
}

async function recovery({ server, startWorker }: Processes): Promise<number | null> {
  const first = startWorker();
  const body = { assets: ["held"], partition_keys: ["0"] };
  await createClient({ url: server.url }).call("requestRun", { body });
  if ((await heldAt(first, RECOVERY_MS_MAX)) === null) throw new Error("the job never started");
  await sleep(HELD_BEFORE_KILL_MS);
  const killedMs = machineMs();
  await first.kill();
  // The one that takes its place, as a supervisor starts it.
  const atMs = await heldAt(startWorker(), RECOVERY_MS_MAX);
  return atMs === null ? null : atMs - killedMs;
}

function heldAt(worker: Child<FromWorker>, ms: number): Promise<number | null> {
  const look = async (): Promise<number | null> =>
    (await within("an answer", worker.ask("times"))).times[0]?.startedMs ?? null;
  return lookFor(look, ms, LOOK_MS);
}
