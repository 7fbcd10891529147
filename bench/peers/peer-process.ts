import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { machineMs } from "../machine-ms.ts";
import { PEERS } from "./all-peers.ts";
import type { Job, Peer } from "./peer.ts";
import { atPace } from "./waiting.ts";

/*
 * A peer in a process of its own: a worker, or the one that asks for jobs. Says that it is ready,
 * then does what it is told and answers under the same name, and ends with its parent.
 */

/** What a process is started with. */
export type PeerProcessOptions = {
  peer: string;
  url: string;
  role: { type: "worker"; id: number } | { type: "asker"; jobs: number; perSecond: number };
};

/** What a process says to its parent. */
export type FromPeer =
  | { type: "ready" }
  | { type: "ran"; count: number }
  | { type: "waits"; waits: number[] }
  | { type: "held"; atMs: number | null }
  | { type: "usage"; rssPeakBytes: number }
  | { type: "doFirst" }
  | { type: "addAll"; startedMs: number }
  | { type: "addAtPace" }
  | { type: "addHeld" }
  | { type: "drained"; endedMs: number };

/** How often the asker looks whether all jobs are recorded as done. */
const LOOK_MS = 5;

/** Longer than any measurement takes. */
const HELD_MS = 600_000;

// Before anything is started, which may wait for ever once its server is gone.
process.on("disconnect", () => process.exit(0));
// What Node warns of in the code of a peer is not for whoever measures it.
process.removeAllListeners("warning");

const { peer: peerName, url, role } = JSON.parse(process.argv[2] ?? "{}") as PeerProcessOptions;
const peer = peerNamed(peerName);

type Handlers = Partial<Record<FromPeer["type"], () => FromPeer | Promise<FromPeer>>>;

const handlers = role.type === "worker" ? await startWorker(role.id) : await startAsker(role);

process.on("message", (message) => void answer(message as FromPeer["type"]));
say({ type: "ready" });

function peerNamed(wanted: string): Peer {
  const found = PEERS.find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`There is no peer ${wanted}`);
  return found;
}

async function answer(type: FromPeer["type"]): Promise<void> {
  const said = await handlers[type]?.();
  if (said !== undefined) say(said);
}

async function startWorker(id: number): Promise<Handlers> {
  const waits: number[] = [];
  let ran = 0;
  let heldAtMs: number | null = null;
  await peer.startWorker(url, id, ({ sentMs, isHeld }: Job) => {
    ran += 1;
    if (sentMs !== undefined) waits.push(machineMs() - sentMs);
    if (isHeld !== true) return;
    heldAtMs = machineMs();
    return sleep(HELD_MS);
  });
  return {
    ran: () => ({ type: "ran", count: ran }),
    waits: () => ({ type: "waits", waits }),
    held: () => ({ type: "held", atMs: heldAtMs }),
    usage: () => ({ type: "usage", rssPeakBytes: process.resourceUsage().maxRSS * 1_024 }),
  };
}

async function startAsker(asked: { jobs: number; perSecond: number }): Promise<Handlers> {
  const queue = await peer.openQueue(url);
  const { jobs, perSecond } = asked;
  const untilDone = async (): Promise<void> => {
    while ((await queue.countPending()) > 0) await sleep(LOOK_MS);
  };
  return {
    async doFirst() {
      await queue.addOne({ key: -1 });
      await untilDone();
      return { type: "doFirst" };
    },
    async addAll() {
      const startedMs = machineMs();
      for (let first = 0; first < jobs; first += peer.page) {
        await queue.addMany(first, Math.min(peer.page, jobs - first));
      }
      return { type: "addAll", startedMs };
    },
    async addAtPace() {
      await atPace(jobs, perSecond, (key) => queue.addOne({ key, sentMs: machineMs() }));
      return { type: "addAtPace" };
    },
    async addHeld() {
      await queue.addOne({ key: 0, isHeld: true });
      return { type: "addHeld" };
    },
    async drained() {
      await untilDone();
      return { type: "drained", endedMs: machineMs() };
    },
  };
}

function say(message: FromPeer): void {
  process.send?.(message);
}
