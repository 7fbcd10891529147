import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { LogPage } from "pawl/evm";
import { parseAbiItem } from "viem/utils";

/* The copy: a table in one SQLite file. */

/** The event that is kept. */
export const TRANSFER = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);

/** A page of such events, as far as it is stored. */
export type TransferPage = Pick<LogPage<typeof TRANSFER>, "undo" | "logs">;

const data = process.env["DATA_DIR"] ?? join(import.meta.dirname, "data");
let opened: DatabaseSync | null = null;

/** Stores a page and deletes what a rewrite of the chain has made void, all or nothing. */
export function storeTransfers({ undo, logs }: TransferPage): void {
  const db = database();
  const insert = db.prepare("insert or replace into transfers values (?, ?, ?, ?, ?, ?)");
  db.exec("begin immediate");
  try {
    if (undo !== null) {
      db.prepare("delete from transfers where block between ? and ?").run(undo.from, undo.to);
    }
    for (const { blockNumber, logIndex, transactionHash, args } of logs) {
      // A number of 256 bits is kept as a text.
      const value = args.value.toString();
      insert.run(blockNumber, logIndex, transactionHash, args.from, args.to, value);
    }
    db.exec("commit");
  } catch (error) {
    db.exec("rollback");
    throw error;
  }
}

/** How many transfers of some blocks are stored. */
export function countTransfers(from: number, to: number): number {
  const count = "select count(*) as count from transfers where block between ? and ?";
  return Number(database().prepare(count).get(from, to)?.["count"]);
}

/** Closes the file. */
export function closeTransfers(): void {
  opened?.close();
  opened = null;
}

function database(): DatabaseSync {
  if (opened === null) {
    mkdirSync(data, { recursive: true });
    // Several workers may store at once, and what is acknowledged must outlive the machine.
    opened = new DatabaseSync(join(data, "transfers.sqlite"), { timeout: 10_000 });
    opened.exec(`
      pragma journal_mode = wal;
      pragma synchronous = full;
      create table if not exists transfers (
        block integer not null, log_index integer not null, transaction_hash text not null,
        sender text not null, receiver text not null, value text not null,
        primary key (block, log_index)
      ) strict, without rowid`);
  }
  return opened;
}
