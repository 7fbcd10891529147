import { definePawl, sync, type SyncTarget } from "pawl";
import { evmLogs } from "pawl/evm";
import type { Address } from "viem";
import { parseAbiItem } from "viem/utils";
import { openTransferTable } from "../transfer-table.ts";
import { settingsOfProcess } from "./sync-settings.ts";

/*
 * Copies the transfers of wallets from nodes with faults into a table, while the processes that do
 * it are killed.
 */

const { file, token, nodes, verify, requestTimeoutMs, options } = settingsOfProcess();
const table = openTransferTable(file);

const event = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

const { verify: verifyLogs, ...functions } = evmLogs({
  rpc: ({ network = "" }) => nodes[network] ?? "",
  logs: (target) => [
    { address: token, event, args: { from: walletOf(target) } },
    { address: token, event, args: { to: walletOf(target) } },
  ],
  store: async (page, { target }) => table.store(target, page),
  count: async (range, { target }) => table.count(target, range),
  receiptCheck: "always",
  timeoutMs: requestTimeoutMs,
});

function walletOf({ wallet = "0x" }: SyncTarget): Address {
  return wallet as Address;
}

const transfers = sync("transfers", {
  ...functions,
  ...(verify ? { verify: verifyLogs } : {}),
  source: "{network}",
  from: 1,
  finality: 2,
  headEveryMs: 100,
  retry: {
    maxAttempts: "unbounded",
    maxLostAttempts: "unbounded",
    delayMs: 50,
    factor: 1.5,
    maxDelayMs: 500,
  },
  ...options,
});

export default definePawl({ syncs: [transfers] });
