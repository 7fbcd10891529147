import { setTimeout as sleep } from "node:timers/promises";
import type { Bench } from "../benchmark.ts";
import { type Child, startChild } from "../child-process.ts";
import { machineMs } from "../machine-ms.ts";
import {
  type Contender,
  HELD_BEFORE_KILL_MS,
  RECOVERY_MS_MAX,
  THROUGHPUT_MS_MAX,
  type Throughput,
} from "./contender.ts";
import type { JobStore } from "./job-stores.ts";
import type { Peer } from "./peer.ts";
import type { FromPeer, PeerProcessOptions } from "./peer-process.ts";
import { lookFor, within } from "./waiting.ts";

/** How often workers are asked how far they are. */
const LOOK_MS = 10;

/** What a peer is measured with. */
export type PeerSetup = {
  bench: Bench;
  peer: Peer;
  version: string;
  /** How many worker processes do the jobs. */
  workers: number;
  openStore: () => Promise<JobStore>;
};

type Processes = {
  startWorker: (id: number) => Promise<Child<FromPeer>>;
  startAsker: (jobs: number, perSecond: number) => Promise<Child<FromPeer>>;
};

/** A peer with its worker processes and one more that asks for the jobs. */
export function peerContender(setup: PeerSetup): Contender {
  const { peer, version, workers } = setup;
  const count = workers === 1 ? "1 worker process" : `${workers} worker processes`;
  return {
    name: peer.name,
    version,
    settings: `${count}, ${peer.settings} (${peer.page.toLocaleString("en")} a request)`,
    afterDeath: peer.afterDeath,
    keeps: peer.keeps,
    throughput: (jobs) =>
      onEmptyStore(setup, (processes, store) => throughput(setup, processes, store, jobs)),
    latency: (jobs, perSecond) =>
      onEmptyStore(setup, (processes) => latency(processes, jobs, perSecond)),
    recovery: () => onEmptyStore(setup, recovery),
  };
}

/** Has something measured in new processes on an empty store; both are gone afterwards. */
async function onEmptyStore<Measured>(
  { bench, peer, openStore }: PeerSetup,
  measure: (processes: Processes, store: JobStore) => Promise<Measured>,
): Promise<Measured> {
  const store = await openStore();
  const children: Child<FromPeer>[] = [];
  const start = async (role: PeerProcessOptions["role"]): Promise<Child<FromPeer>> => {
    const options: PeerProcessOptions = { peer: peer.name, url: store.url, role };
    const child = startChild<FromPeer>(bench, "peers/peer-process", options);
    children.push(child);
    await within(`the start of ${peer.name}`, child.next("ready"));
    return child;
  };
  try {
    return await measure(
      {
        startWorker: (id) => start({ type: "worker", id }),
        startAsker: (jobs, perSecond) => start({ type: "asker", jobs, perSecond }),
      },
      store,
    );
  } finally {
    await Promise.all(children.map((child) => child.kill()));
    await store.close();
  }
}

async function throughput(
  { workers: workerCount, peer }: PeerSetup,
  { startWorker, startAsker }: Processes,
  store: JobStore,
  jobs: number,
): Promise<Throughput> {
  const workers: Child<FromPeer>[] = [];
  for (let id = 1; id <= workerCount; id += 1) workers.push(await startWorker(id));
  const asker = await startAsker(jobs, 0);
  await within("the first job", asker.ask("doFirst"));
  const before = await store.size();
  const { startedMs } = await within("adding", asker.ask("addAll"), THROUGHPUT_MS_MAX);
  // One more than asked for: the first.
  const haveRun = async (): Promise<true | null> => {
    const ran = await Promise.all(
      workers.map((worker) => within(`an answer of ${peer.name}`, worker.ask("ran"))),
    );
    return ran.reduce((sum, { count }) => sum + count, 0) > jobs ? true : null;
  };
  if ((await lookFor(haveRun, THROUGHPUT_MS_MAX, LOOK_MS)) === null) {
    throw new Error(`${peer.name} did not run all of ${jobs} jobs`);
  }
  const { endedMs } = await within("the end", asker.ask("drained"));
  const usages = await Promise.all(workers.map((worker) => worker.ask("usage")));
  const after = await store.size();
  return {
    perSecond: jobs / ((endedMs - startedMs) / 1_000),
    memoryBytes: usages.reduce((sum, { rssPeakBytes }) => sum + rssPeakBytes, 0),
    serverMemoryBytes: store.memoryBytes(),
    perJob: {
      rows: (after.rows - before.rows) / jobs,
      bytes: (after.bytes - before.bytes) / jobs,
    },
  };
}

async function latency(
  { startWorker, startAsker }: Processes,
  jobs: number,
  perSecond: number,
): Promise<number[]> {
  const worker = await startWorker(1);
  const asker = await startAsker(jobs, perSecond);
  await within("the first job", asker.ask("doFirst"));
  await within("adding", asker.ask("addAtPace"), THROUGHPUT_MS_MAX);
  await within("the end", asker.ask("drained"));
  return (await within("an answer", worker.ask("waits"))).waits;
}

async function recovery({ startWorker, startAsker }: Processes): Promise<number | null> {
  const first = await startWorker(1);
  const asker = await startAsker(1, 0);
  await within("adding", asker.ask("addHeld"));
  if ((await heldAt(first, RECOVERY_MS_MAX)) === null) throw new Error("the job never started");
  await sleep(HELD_BEFORE_KILL_MS);
  const killedMs = machineMs();
  await first.kill();
  // The one that takes its place, as a supervisor starts it.
  const second = await startWorker(1);
  const atMs = await heldAt(second, RECOVERY_MS_MAX - (machineMs() - killedMs));
  return atMs === null ? null : atMs - killedMs;
}

function heldAt(worker: Child<FromPeer>, ms: number): Promise<number | null> {
  return lookFor(async () => (await within("an answer", worker.ask("held"))).atMs, ms, LOOK_MS);
}
