import type { Address, Hex } from "viem";
import { encodeAbiParameters, numberToHex, toEventSelector } from "viem/utils";
import type { AnvilNode } from "./anvil-node.ts";
import { TOKEN, TRANSFER } from "./networks.ts";

/*
 * A contract that keeps no balances and only says what others say of transfers. For each pair of
 * words that it is called with, a receiver and a value, it emits a Transfer from the caller.
 */

/** A transfer to be made. */
export type Payment = { to: Address; value: bigint };

const CODE = [
  "5f", // The position in what it was called with, from 0.
  "5b3681101560", // 01: while it is before the end,
  "3e57",
  "8060200135", // take the value, the second word,
  "5f52",
  "803533", // the receiver, the first word, and the caller,
  `7f${toEventSelector(TRANSFER).slice(2)}`,
  "60205fa3", // and log them;
  "604001600156", // go on behind the pair.
  "5b00", // 3e: the end.
].join("");

/** Puts the contract on a new chain, where it gets the address `TOKEN`. */
export async function deployToken(node: AnvilNode): Promise<void> {
  const size = (CODE.length / 2).toString(16);
  const data: Hex = `0x60${size}8060095f395ff3${CODE}`;
  const [from] = node.accounts;
  await node.call("eth_sendTransaction", { from, data });
  await node.mine(1);
  if ((await node.call("eth_getCode", TOKEN, "latest")) !== `0x${CODE}`) {
    throw new Error(`The contract is not at ${TOKEN}.`);
  }
}

/** Sends a transaction of one wallet with some transfers, for the next block. */
export async function pay(
  node: AnvilNode,
  from: Address,
  payments: readonly Payment[],
): Promise<void> {
  const words = payments.map(({ to, value }) =>
    encodeAbiParameters([{ type: "address" }, { type: "uint256" }], [to, value]).slice(2),
  );
  const gas = numberToHex(100_000 + 5_000 * payments.length);
  const data: Hex = `0x${words.join("")}`;
  await node.call("eth_sendTransaction", { from, to: TOKEN, gas, data });
}
