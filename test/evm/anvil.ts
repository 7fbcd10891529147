import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Address, Hex } from "viem";
import { encodeAbiParameters, numberToHex, parseAbiItem, toEventSelector } from "viem/utils";

/** A running node of one's own, with a chain of its own. */
export type Anvil = {
  readonly url: string;
  /** Accounts that the node signs for. */
  readonly accounts: readonly Address[];
  /** The result of a call; throws what the node refuses. */
  call(method: string, ...params: unknown[]): Promise<unknown>;
  head(): Promise<number>;
  /** Adds blocks without transactions. The time for each grows with the chain. */
  mine(count: number): Promise<void>;
  /** Replaces the newest blocks by as many others, empty ones. */
  reorg(depth: number): Promise<void>;
  /** Ends the node. */
  stop(): Promise<void>;
};

/** One log that a block is to have. */
export type Transfer = { from: Address; to: Address; value: bigint };

/** The event that the token emits. */
export const TRANSFER = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

const READY = /^Listening on (\S+)$/;

/** Ends the node when its standard input closes, which the end of this process does too. */
const RUN_UNTIL_INPUT_CLOSES = `
  "$@" </dev/null &
  cat >/dev/null
  kill -KILL $(jobs -rp)
`;

/** Keeps the states that a reorg of the tests goes back to, and no others. */
const STATES_KEPT = 256;

/** Starts the node that the `@foundry-rs/anvil` package carries, on a free loopback port. */
export async function startAnvil(settings: readonly string[] = []): Promise<Anvil> {
  const options = ["--port", "0", "--no-mining", "--prune-history", String(STATES_KEPT)];
  const shell = ["-c", RUN_UNTIL_INPUT_CLOSES, "anvil", anvilBinary(), ...options, ...settings];
  const child = spawn("bash", shell, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = `http://${await addressOf(child)}`;

  async function call(method: string, ...params: unknown[]): Promise<unknown> {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  return {
    url,
    accounts: (await call("eth_accounts")) as Address[],
    call,
    head: async () => Number(await call("eth_blockNumber")),
    mine: async (count) => void (await call("anvil_mine", numberToHex(count))),
    reorg: async (depth) => void (await call("anvil_reorg", depth, [])),
    async stop() {
      child.stdin.end();
      await exited;
    },
  };
}

/**
 * Puts a contract on the chain that emits a `Transfer` from the caller for each pair of words, a
 * receiver and a value, that it is called with.
 */
export async function deployToken(anvil: Anvil): Promise<Address> {
  const [from] = anvil.accounts;
  const hash = await anvil.call("eth_sendTransaction", { from, data: tokenCode() });
  await anvil.mine(1);
  const receipt = await anvil.call("eth_getTransactionReceipt", hash);
  return (receipt as { contractAddress: Address }).contractAddress;
}

/** Adds one block with these transfers, a transaction for each run of transfers of one sender. */
export async function mineTransfers(
  anvil: Anvil,
  token: Address,
  transfers: readonly Transfer[],
): Promise<void> {
  for (let start = 0; start < transfers.length; ) {
    const from = transfers[start]?.from;
    const end = transfers.findIndex((transfer, index) => index > start && transfer.from !== from);
    const run = transfers.slice(start, end === -1 ? undefined : end);
    const words = run.map(({ to, value }) =>
      encodeAbiParameters([{ type: "address" }, { type: "uint256" }], [to, value]).slice(2),
    );
    const gas = numberToHex(100_000 + 5_000 * run.length);
    await anvil.call("eth_sendTransaction", { from, to: token, gas, data: `0x${words.join("")}` });
    start += run.length;
  }
  await anvil.mine(1);
}

/** Stands for "the rest of the calldata": a loop over pairs of words that ends with them. */
function tokenCode(): Hex {
  const code = [
    "5f", // The position in the calldata, from 0.
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
  const size = (code.length / 2).toString(16);
  return `0x60${size}8060095f395ff3${code}`;
}

function anvilBinary(): string {
  const platform = process.platform;
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const name = `@foundry-rs/anvil-${platform}-${architecture}`;
  const folder = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  return join(folder, "bin", platform === "win32" ? "anvil.exe" : "anvil");
}

function addressOf(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  if (child.stdout === null) throw new Error("The node's output is not read.");
  createInterface(child.stdout).on("line", (line) => {
    const address = READY.exec(line)?.[1];
    if (address !== undefined) resolve(address);
  });
  child.once("exit", (code) => reject(new Error(`anvil ended with ${code} before it listened.`)));
  return promise;
}
