import { definePawl, sync, type SyncTarget } from "pawl";
import { evmLogs } from "pawl/evm";
import { addressOf, networkNames, nodeUrlOf, TOKEN, TRANSFER, WALLETS } from "./networks.ts";
import { countTransfers, storePage, type Target } from "./transfers.ts";

const transfers = sync("transfers", {
  ...evmLogs({
    rpc: (target) => nodeUrlOf(targetOf(target).network),
    logs: (target) => {
      const wallet = addressOf(targetOf(target).wallet);
      return [
        { address: TOKEN, event: TRANSFER, args: { from: wallet } },
        { address: TOKEN, event: TRANSFER, args: { to: wallet } },
      ];
    },
    store: async (page, { target }) => storePage(targetOf(target), page),
    count: async (range, { target }) => countTransfers(targetOf(target), range),
  }),
  description: "Transfers from and to our wallets, as rows of a table.",
  targets: networkNames().flatMap((network) =>
    Object.keys(WALLETS).map((wallet) => ({ network, wallet })),
  ),
  source: "{network}",
  from: 0,
  finality: 2,
  headEveryMs: 1_000,
  // A real chain has millions of blocks: leave out what follows, or say it with more zeros.
  segments: { minSize: 100 },
  requestSize: 50,
  requestsPerSecond: 50,
});

function targetOf({ network = "", wallet = "" }: SyncTarget): Target {
  return { network, wallet };
}

export default definePawl({ syncs: [transfers] });
