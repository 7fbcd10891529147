import type { Address } from "viem";
import { encodeAbiParameters, numberToHex, padHex } from "viem/utils";
import { type Anvil, deployToken, startAnvil } from "../test/evm/anvil.ts";

/** A chain whose blocks have one transaction each, with the same number of transfers. */
export type BenchChain = {
  readonly anvil: Anvil;
  readonly token: Address;
  /** The first and the last block with transfers. */
  readonly from: number;
  readonly to: number;
  readonly blocks: number;
  readonly events: number;
};

/** All that a block has room for is one call, so mining many blocks puts one call into each. */
const GAS = 200_000;
const GENESIS_TIME = 1_700_000_000;
const CALLS_AT_ONCE = 100;
/** Behind the range, so that nobody takes its end for not final. */
const BLOCKS_BEHIND = 128;

/**
 * Makes a chain, the same each time. Before Cancun no block leaves a root in the state, of which
 * anvil hashes all before each block; so a block takes the same time however long the chain is.
 */
export async function makeChain(blocks: number, eventsPerBlock: number): Promise<BenchChain> {
  const anvil = await startAnvil(["--hardfork=shanghai", `--gas-limit=${GAS}`, "--order=fifo"]);
  await anvil.call("anvil_setTime", GENESIS_TIME);
  await anvil.call("anvil_setBlockTimestampInterval", 12);
  const token = await deployToken(anvil);
  const from = (await anvil.head()) + 1;
  for (let made = 0; made < blocks; made += CALLS_AT_ONCE) {
    const count = Math.min(CALLS_AT_ONCE, blocks - made);
    const calls = Array.from({ length: count }, (_, index) =>
      transfersCall(anvil, token, from + made + index, eventsPerBlock),
    );
    await sendAll(anvil, calls);
    await anvil.mine(count);
  }
  await anvil.mine(BLOCKS_BEHIND);
  const to = from + blocks - 1;
  return { anvil, token, from, to, blocks, events: blocks * eventsPerBlock };
}

/** A call that emits the transfers of a block; the nonce tells in which order calls are mined. */
function transfersCall(anvil: Anvil, token: Address, block: number, events: number): object {
  const words = Array.from({ length: events }, (_, index) => {
    const number = block * events + index;
    const to = padHex(numberToHex(1 + (number % 1_000)), { size: 20 });
    return encodeAbiParameters(
      [{ type: "address" }, { type: "uint256" }],
      [to, BigInt(number)],
    ).slice(2);
  });
  return {
    from: anvil.accounts[0],
    to: token,
    nonce: numberToHex(block - 1),
    gas: numberToHex(GAS),
    gasPrice: numberToHex(2_000_000_000),
    data: `0x${words.join("")}`,
  };
}

async function sendAll(anvil: Anvil, calls: readonly object[]): Promise<void> {
  const batch = calls.map((call, id) => ({
    jsonrpc: "2.0",
    id,
    method: "eth_sendTransaction",
    params: [call],
  }));
  const response = await fetch(anvil.url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(batch),
  });
  const answers = (await response.json()) as { error?: unknown }[];
  const refused = answers.find(({ error }) => error !== undefined);
  if (refused !== undefined) throw new Error(`A call was refused: ${JSON.stringify(refused)}`);
}
