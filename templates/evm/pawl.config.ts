import { definePawl, sync } from "pawl";
import { evmLogs } from "pawl/evm";
import { type Address, isAddress } from "viem";
import { countTransfers, storeTransfers, TRANSFER } from "./transfers.ts";

/** The address of a node, which may hold a key: it comes from the surroundings and stays with workers. */
export function rpcUrl(): string {
  const url = process.env["RPC_URL"] ?? "";
  if (url !== "") return url;
  throw new Error("Set RPC_URL to the address of an Ethereum node, and start again.");
}

/** The token whose transfers are kept: USDC on Ethereum unless told. */
function token(): Address {
  const address = process.env["TOKEN"] ?? "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";
  if (isAddress(address)) return address;
  throw new Error(`TOKEN: expected an address of 40 digits such as 0xA0b8…, got ${address}.`);
}

/** All transfers of the token from a block on, through throttling, crashes and rewritten blocks. */
export const transfers = sync("transfers", {
  ...evmLogs({
    rpc: rpcUrl,
    logs: () => ({ address: token(), event: TRANSFER }),
    store: async (page) => {
      storeTransfers(page);
      return { rows: page.logs.length };
    },
    count: async ({ from, to }) => countTransfers(from, to),
  }),
  description: "Transfers of the token, as rows of a table",
  targets: [{ chain: "ethereum" }],
  from: Number(process.env["FROM_BLOCK"] ?? 24_000_000),
  // Blocks that are younger than this may still be replaced.
  finality: Number(process.env["FINALITY"] ?? 64),
  requestSize: 100,
  requestsPerSecond: 10,
});

export default definePawl({ syncs: [transfers] });
