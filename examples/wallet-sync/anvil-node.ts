import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Address } from "viem";

/** A node with a chain of its own. */
export type AnvilNode = {
  readonly url: string;
  /** Accounts that the node signs for. */
  readonly accounts: readonly Address[];
  /** Adds blocks; all transactions that were sent are in the first of them. */
  mine(count: number): Promise<void>;
  /** The result of a call; throws what the node refuses. */
  call(method: string, ...params: unknown[]): Promise<unknown>;
};

const READY = /^Listening on (\S+)$/;

/** Ends the node when its standard input closes, which the end of this process does too. */
const RUN_UNTIL_INPUT_CLOSES = `
  "$@" </dev/null &
  cat >/dev/null
  kill -KILL $(jobs -rp)
`;

/** Starts a node of the package `@foundry-rs/anvil` on a free port; it mines when it is told to. */
export async function startAnvilNode(chainId: number): Promise<AnvilNode> {
  // Only the states that a rewrite may go back to are kept, as each takes memory.
  const options = ["--port", "0", "--no-mining", "--prune-history", "256"];
  const command = [anvilBinary(), ...options, "--chain-id", String(chainId)];
  const child = spawn("bash", ["-c", RUN_UNTIL_INPUT_CLOSES, "anvil", ...command], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on("line", (line) => {
      const address = READY.exec(line)?.[1];
      if (address !== undefined) resolve(`http://${address}`);
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`anvil ended with ${code}.`)));
  });
  const call = (method: string, ...params: unknown[]): Promise<unknown> =>
    callNode(url, method, params);
  return {
    url,
    accounts: (await call("eth_accounts")) as Address[],
    mine: async (count) => void (await call("anvil_mine", `0x${count.toString(16)}`)),
    call,
  };
}

/** Calls a node; throws what it refuses. */
export async function callNode(url: string, method: string, params: unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}

/** The program itself: the package's own command would stand between it and our signals. */
function anvilBinary(): string {
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${architecture}`;
  const folder = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  return join(folder, "bin", "anvil");
}
