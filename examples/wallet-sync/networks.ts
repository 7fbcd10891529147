import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Address, parseAbiItem } from "viem";

/*
 * The networks and wallets that are synced, and where things are kept. The addresses are those that
 * anvil makes for everybody, and that of the first contract of its first account.
 */

/** Each network and its chain id. */
export const NETWORKS = { north: 1_001, south: 1_002 };

/** A network that there is. */
export type Network = keyof typeof NETWORKS;

/** The wallets whose transfers are wanted, by the names we know them by. */
export const WALLETS: Readonly<Record<string, Address>> = {
  ada: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  ben: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
  cleo: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
  dan: "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
};

/** The contract whose transfers they are, on both networks. */
export const TOKEN: Address = "0x5FbDB2315678afecb367f032d93F642f64180aa3";

/** What it says of each of them. */
export const TRANSFER = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

/** The folder of the database and of what is known about the nodes. */
export const DATA =
  process.env["WALLET_SYNC_DATA"] ?? fileURLToPath(new URL("data", import.meta.url));

/** Where `chains.ts` says how to reach the nodes. */
export const NODES_FILE = join(DATA, "nodes.json");

/** The names of the networks. */
export function networkNames(): Network[] {
  return Object.keys(NETWORKS) as Network[];
}

/** The address of a wallet. */
export function addressOf(wallet: string): Address {
  const address = WALLETS[wallet];
  if (address === undefined) throw new Error(`There is no wallet "${wallet}" in networks.ts.`);
  return address;
}

/** The address of a network's node, which changes whenever the nodes are started. */
export function nodeUrlOf(network: string): string {
  const urls = JSON.parse(readFileSync(NODES_FILE, "utf8")) as Record<string, string>;
  const url = urls[network];
  if (url === undefined) throw new Error(`There is no node of "${network}" in ${NODES_FILE}.`);
  return url;
}
