import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { setInterval } from "node:timers/promises";
import { type AnvilNode, startAnvilNode } from "./anvil-node.ts";
import { DATA, type Network, NETWORKS, networkNames, NODES_FILE, TOKEN } from "./networks.ts";
import { deployToken, pay } from "./token.ts";

/*
 * Two networks to sync from, on this machine: each gets a history, and then a block every second,
 * with transfers between some accounts, until this is interrupted.
 */

const HISTORY_BLOCKS = 1_500;
const BLOCK_MS = 1_000;
/** The share of blocks with transfers. */
const BUSY_SHARE = 1 / 4;

/** Numbers from 0 to 1 that follow from the seed, so that everybody gets the same history. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Sends one to three transfers from one account to others. */
async function payAround(node: AnvilNode, random: () => number): Promise<void> {
  const below = (bound: number): number => Math.floor(random() * bound);
  const first = below(node.accounts.length);
  const round = [...node.accounts.slice(first), ...node.accounts.slice(0, first)];
  const [from = TOKEN, ...others] = round;
  const payments = Array.from({ length: 1 + below(3) }, () => ({
    to: others[below(others.length)] ?? TOKEN,
    value: BigInt(below(1e9)),
  }));
  await pay(node, from, payments);
}

async function makeHistory(node: AnvilNode, random: () => number): Promise<void> {
  let quiet = 0;
  for (let block = 2; block <= HISTORY_BLOCKS; block++) {
    quiet++;
    if (random() >= BUSY_SHARE) continue;
    if (quiet > 1) await node.mine(quiet - 1);
    await payAround(node, random);
    await node.mine(1);
    quiet = 0;
  }
  if (quiet > 0) await node.mine(quiet);
}

async function startNetwork(name: Network) {
  const node = await startAnvilNode(NETWORKS[name]);
  const random = seededRandom(NETWORKS[name]);
  await deployToken(node);
  await makeHistory(node, random);
  return { name, node, random };
}

mkdirSync(DATA, { recursive: true });
// Of nodes that are gone, perhaps.
rmSync(NODES_FILE, { force: true });
const networks = await Promise.all(networkNames().map(startNetwork));
const urls = Object.fromEntries(networks.map(({ name, node }) => [name, node.url]));
writeFileSync(NODES_FILE, `${JSON.stringify(urls, null, 2)}\n`);
for (const { name, node } of networks) {
  console.log(`${name} has ${HISTORY_BLOCKS} blocks and listens on ${node.url}`);
}
console.log("A block a second follows on each, until Ctrl-C.");

for await (const _ of setInterval(BLOCK_MS)) {
  for (const { node, random } of networks) {
    // A rewrite may have left transactions behind that wait for others which are gone.
    await node.call("anvil_dropAllTransactions");
    await payAround(node, random);
    await node.mine(1);
  }
}
