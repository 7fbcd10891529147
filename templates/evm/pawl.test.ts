import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { TransferPage } from "./transfers.ts";

// Before the project is loaded, so that the test leaves its data alone and asks no node.
const folder = await mkdtemp(join(tmpdir(), "transfers-"));
process.env["DATA_DIR"] = folder;
process.env["RPC_URL"] = "";
const { rpcUrl } = await import("./pawl.config.ts");
const { closeTransfers, countTransfers, storeTransfers } = await import("./transfers.ts");
after(async () => {
  closeTransfers();
  await rm(folder, { recursive: true });
});

/** A page with one transfer in each of these blocks. */
function pageOf(blocks: readonly number[], undo: TransferPage["undo"] = null): TransferPage {
  const address = `0x${"ab".repeat(20)}` as const;
  const hash = `0x${"cd".repeat(32)}` as const;
  const logs = blocks.map((blockNumber) => ({
    address,
    eventName: "Transfer" as const,
    args: { from: address, to: address, value: 1n },
    topics: [hash] as [typeof hash],
    data: hash,
    blockNumber,
    blockHash: hash,
    transactionHash: hash,
    transactionIndex: 0,
    logIndex: 0,
  }));
  return { logs, undo };
}

test("stores a transfer once, however often its page comes", () => {
  storeTransfers(pageOf([1, 2, 3]));
  storeTransfers(pageOf([1, 2, 3]));
  assert.equal(countTransfers(1, 3), 3);
});

test("deletes what a rewrite of the chain has made void", () => {
  storeTransfers(pageOf([3], { from: 2, to: 3 }));
  assert.equal(countTransfers(1, 3), 2);
});

test("says what to set where no node is named", () => {
  assert.throws(rpcUrl, /Set RPC_URL to the address of an Ethereum node/);
});
