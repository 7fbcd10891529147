import { callNode } from "./anvil-node.ts";
import { nodeUrlOf } from "./networks.ts";

/*
 * node reorg.ts north 8: the newest 8 blocks of a network become others, without transfers, as when
 * a chain takes another branch.
 */

const [network = "north", depth = "8"] = process.argv.slice(2);
const url = nodeUrlOf(network);
const head = Number(await callNode(url, "eth_blockNumber", []));
await callNode(url, "anvil_reorg", [Number(depth), []]);
console.log(`Rewrote blocks ${head - Number(depth) + 1} to ${head} of ${network}.`);
