import type { Address, Hex } from "viem";
import { decodeEventLog, getAddress, numberToHex } from "viem/utils";
import type { EvmLog } from "../../src/evm/index.ts";
import { Random } from "../simulation/random.ts";
import { type Anvil, mineTransfers, TRANSFER } from "./anvil.ts";

/** A transfer as it is stored and compared. */
export type TransferRow = {
  block: number;
  blockHash: string;
  transactionHash: string;
  logIndex: number;
  from: string;
  to: string;
  value: string;
};

/** Stores a decoded log as a row. */
export function rowOf(log: EvmLog<typeof TRANSFER>): TransferRow {
  return {
    block: log.blockNumber,
    blockHash: log.blockHash,
    transactionHash: log.transactionHash,
    logIndex: log.logIndex,
    from: log.args.from,
    to: log.args.to,
    value: log.args.value.toString(),
  };
}

/**
 * The transfers from or to a wallet as the node's receipts have them, read block by block from the
 * node itself: neither its log index nor anything of Pawl has a part in it.
 */
export async function chainRows(
  anvil: Anvil,
  { from, to }: { from: number; to: number },
  wallet: Address,
): Promise<TransferRow[]> {
  type Log = { topics: [Hex, ...Hex[]]; data: Hex; blockHash: Hex; transactionHash: Hex };
  type Receipt = { logs: (Log & { logIndex: Hex })[] };
  const rows: TransferRow[] = [];
  for (let block = from; block <= to; block += 1) {
    const receipts = await anvil.call("eth_getBlockReceipts", numberToHex(block));
    for (const log of (receipts as Receipt[]).flatMap(({ logs }) => logs)) {
      const { args } = decodeEventLog({ abi: [TRANSFER], topics: log.topics, data: log.data });
      if (![args.from, args.to].includes(getAddress(wallet))) continue;
      const { blockHash, transactionHash } = log;
      const place = { block, blockHash, transactionHash, logIndex: Number(log.logIndex) };
      rows.push({ ...place, from: args.from, to: args.to, value: args.value.toString() });
    }
  }
  return rows;
}

/** Adds blocks of which a share has one to four transfers between random accounts. */
export async function mineRandomBlocks(
  anvil: Anvil,
  token: Address,
  options: { count: number; share: number; seed: number },
): Promise<void> {
  const random = new Random(options.seed);
  let empty = 0;
  for (let block = 0; block < options.count; block += 1) {
    if (!random.chance(options.share)) {
      empty += 1;
      continue;
    }
    if (empty > 0) await anvil.mine(empty);
    empty = 0;
    const transfers = Array.from({ length: random.integer(1, 4) }, () => ({
      from: random.pick(anvil.accounts),
      to: random.pick(anvil.accounts),
      value: BigInt(random.integer(0, 1_000_000)),
    }));
    await mineTransfers(anvil, token, transfers);
  }
  if (empty > 0) await anvil.mine(empty);
}
