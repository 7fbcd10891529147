import { json } from "node:stream/consumers";
import { createPublicClient, http } from "viem";
import { addressOf, nodeUrlOf, TOKEN, TRANSFER } from "./networks.ts";
import { type Target, type Transfer, transfersUpTo } from "./transfers.ts";

/*
 * pawl sync list --json | node compare.ts: asks the nodes for all transfers there are, and compares
 * those of each wallet, row by row, with what is stored up to where Pawl says that nothing is missing.
 */

type ListedSync = { target: Target; status: string; synced_to: number | null };

/** All transfers of the contract up to a block, read from the node in one go. */
async function transfersOnChain(network: string, to: number): Promise<Transfer[]> {
  const node = createPublicClient({ transport: http(nodeUrlOf(network)) });
  const range = { fromBlock: 0n, toBlock: BigInt(to) };
  const logs = await node.getLogs({ address: TOKEN, event: TRANSFER, strict: true, ...range });
  return logs.map(({ blockNumber, blockHash, transactionHash, logIndex, args }) => ({
    block: Number(blockNumber),
    log_index: logIndex,
    block_hash: blockHash,
    transaction_hash: transactionHash,
    sender: args.from,
    receiver: args.to,
    value: args.value.toString(),
  }));
}

async function compare({ target, status, synced_to }: ListedSync): Promise<boolean> {
  const wallet = addressOf(target.wallet);
  const syncedTo = synced_to ?? -1;
  const onChain = syncedTo < 0 ? [] : await transfersOnChain(target.network, syncedTo);
  const expected = new Set(
    onChain
      .filter(({ sender, receiver }) => sender === wallet || receiver === wallet)
      .map((transfer) => JSON.stringify(transfer)),
  );
  const stored = new Set(
    transfersUpTo(target, syncedTo).map((transfer) => JSON.stringify(transfer)),
  );
  const missing = [...expected].filter((row) => !stored.has(row)).length;
  const extra = [...stored].filter((row) => !expected.has(row)).length;
  const isRight = missing === 0 && extra === 0;
  const counts = [synced_to ?? "-", expected.size, stored.size, missing, extra].map((each) =>
    String(each).padStart(10),
  );
  const names = target.network.padEnd(9) + target.wallet.padEnd(8) + status.padEnd(10);
  console.log(names + counts.join("") + (isRight ? "  ok" : "  WRONG"));
  return isRight;
}

const { items: syncs } = (await json(process.stdin)) as { items: ListedSync[] };
console.log("NETWORK  WALLET  STATUS     SYNCED TO   ON CHAIN    STORED   MISSING     EXTRA");
const outcomes: boolean[] = [];
for (const sync of syncs) outcomes.push(await compare(sync));
if (outcomes.length === 0 || outcomes.includes(false)) process.exitCode = 1;
