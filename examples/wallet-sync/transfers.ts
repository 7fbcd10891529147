import { mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { LogPage } from "pawl/evm";
import { DATA, type TRANSFER } from "./networks.ts";

/*
 * The table of transfers, in one SQLite file. A page is stored in one transaction: what is void is
 * deleted, and each row takes the place of one with the same key, so that a page that is stored again
 * after a crash gives the same rows.
 */

const TABLE = `
  create table if not exists transfers (
    network text not null,
    block integer not null,
    log_index integer not null,
    wallet text not null,
    block_hash text not null,
    transaction_hash text not null,
    sender text not null,
    receiver text not null,
    value text not null, -- A number of 256 bits.
    primary key (network, block, log_index, wallet)
  ) strict, without rowid;
`;

const INSERT = `
  insert or replace into transfers
  values (:network, :block, :log_index, :wallet, :block_hash, :transaction_hash, :sender, :receiver, :value)
`;

const DELETE = `
  delete from transfers
  where network = :network and wallet = :wallet and block between :from and :to
`;

const COUNT = `
  select count(*) from transfers
  where network = :network and wallet = :wallet and block between :from and :to
`;

const UP_TO = `
  select block, log_index, block_hash, transaction_hash, sender, receiver, value from transfers
  where network = :network and wallet = :wallet and block <= :to
  order by block, log_index
`;

/** What a target of the sync is: one wallet on one network. */
export type Target = { network: string; wallet: string };

/** A transfer of a wallet, as it is stored. */
export type Transfer = {
  block: number;
  log_index: number;
  block_hash: string;
  transaction_hash: string;
  sender: string;
  receiver: string;
  value: string;
};

let opened: Database.Database | null = null;

/** Stores a page of logs, and deletes the rows that it makes void. */
export function storePage({ network, wallet }: Target, page: LogPage<typeof TRANSFER>): void {
  const db = database();
  const insert = db.prepare(INSERT);
  const store = db.transaction(() => {
    if (page.undo !== null) db.prepare(DELETE).run({ network, wallet, ...page.undo });
    for (const { blockNumber, blockHash, transactionHash, logIndex, args } of page.logs) {
      insert.run({
        network,
        block: blockNumber,
        log_index: logIndex,
        wallet,
        block_hash: blockHash,
        transaction_hash: transactionHash,
        sender: args.from,
        receiver: args.to,
        value: args.value.toString(),
      });
    }
  });
  store.immediate();
}

/** How many transfers of a wallet are stored of these blocks. */
export function countTransfers(
  { network, wallet }: Target,
  { from, to }: { from: number; to: number },
): number {
  return database().prepare(COUNT).pluck().get({ network, wallet, from, to }) as number;
}

/** The transfers of a wallet that are stored, up to a block. */
export function transfersUpTo({ network, wallet }: Target, to: number): Transfer[] {
  return database().prepare(UP_TO).all({ network, wallet, to }) as Transfer[];
}

function database(): Database.Database {
  if (opened === null) {
    mkdirSync(DATA, { recursive: true });
    opened = new Database(join(DATA, "transfers.sqlite"), { timeout: 10_000 });
    // Rows that are acknowledged must outlive the machine: Pawl does not ask for them again.
    opened.pragma("journal_mode = wal");
    opened.pragma("synchronous = full");
    opened.exec(TABLE);
  }
  return opened;
}
