import type { Address } from "viem";
import { evmLogs, type EvmLogs, type EvmLogsOptions, type LogPage } from "../../src/evm/index.ts";
import { TRANSFER } from "./anvil.ts";
import { rowOf, type TransferRow } from "./chain-rows.ts";

/** A source of transfers that remembers what it stored. */
export type WalletSource = EvmLogs & {
  readonly pages: LogPage<typeof TRANSFER>[];
  readonly rows: () => TransferRow[];
};

/** Makes a source of the transfers from or to the target's `wallet`. */
export function walletSource(
  rpc: string,
  token: Address,
  options: Partial<EvmLogsOptions<typeof TRANSFER>> = {},
): WalletSource {
  const pages: LogPage<typeof TRANSFER>[] = [];
  const functions = evmLogs({
    rpc,
    logs: ({ wallet }) => [
      { address: token, event: TRANSFER, args: { from: wallet } },
      { address: token, event: TRANSFER, args: { to: wallet } },
    ],
    store: async (page) => void pages.push(page),
    ...options,
  });
  return { ...functions, pages, rows: () => pages.flatMap(({ logs }) => logs.map(rowOf)) };
}
