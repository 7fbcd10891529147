import Database from "better-sqlite3";
import type { SyncTarget } from "../../src/work/sync/spec.ts";
import type { LogPage } from "../../src/evm/index.ts";
import type { TRANSFER } from "./anvil.ts";
import { rowOf, type TransferRow } from "./chain-rows.ts";

/** A page as it was stored. */
export type StoredPage = {
  wallet: string;
  from: number;
  to: number;
  undoTo: number | null;
  isLive: boolean;
};

/** Where workers store transfers and tests read them, each wallet of each network by itself. */
export interface TransferTable {
  /** Stores a page, deletes what is void, and remembers that it did, in one transaction. */
  store(target: SyncTarget, page: LogPage<typeof TRANSFER>): { rows: number };
  count(target: SyncTarget, range: { from: number; to: number }): number;
  /** What is stored, in the order of the chain. */
  rows(target: SyncTarget, to?: number): TransferRow[];
  /** Every page that was ever stored, in that order. */
  pages(target: SyncTarget): StoredPage[];
  close(): void;
}

// Logs are told apart by the hash of their block: rows of a fork that is gone stay until somebody
// deletes them, and are seen.
const TABLES = `
  create table if not exists transfer (
    network text,
    wallet text,
    block integer,
    block_hash text,
    log_index integer,
    row text,
    primary key (network, wallet, block, block_hash, log_index)
  ) without rowid;
  create table if not exists page (
    number integer primary key,
    network text,
    wallet text,
    "from" integer,
    "to" integer,
    undo_to integer,
    is_live integer
  );
`;

const UNDO = `
  delete from transfer
  where network = @network and wallet = @wallet and block between @from and @undoTo
`;

const INSERT = `
  insert into transfer values (@network, @wallet, @block, @blockHash, @logIndex, @row)
  on conflict do update set row = excluded.row
`;

const INSERT_PAGE = `
  insert into page (network, wallet, "from", "to", undo_to, is_live)
  values (@network, @wallet, @from, @to, @undoTo, @isLive)
`;

const COUNT = `
  select count(*) from transfer
  where network = @network and wallet = @wallet and block between @from and @to
`;

const ROWS = `
  select row from transfer
  where network = @network and wallet = @wallet and block <= @to
  order by block, log_index
`;

const PAGES = `
  select wallet, "from", "to", undo_to, is_live from page
  where network = @network and wallet = @wallet
  order by number
`;

/** Opens the table in a file, which several processes may do at once. */
export function openTransferTable(file: string): TransferTable {
  const db = new Database(file, { timeout: 10_000 });
  db.pragma("journal_mode = wal");
  // Processes are killed, not the machine: what is committed stays.
  db.pragma("synchronous = off");
  db.exec(TABLES);
  const undo = db.prepare(UNDO);
  const insert = db.prepare(INSERT);
  const insertPage = db.prepare(INSERT_PAGE);
  const count = db.prepare(COUNT).pluck();
  const rows = db.prepare(ROWS).pluck();
  const pages = db.prepare(PAGES);

  function store(target: SyncTarget, page: LogPage<typeof TRANSFER>): { rows: number } {
    const place = placeOf(target);
    const { from, to, isLive } = page;
    const undoTo = page.undo?.to ?? null;
    if (page.undo !== null) undo.run({ ...place, from: page.undo.from, undoTo });
    for (const log of page.logs) {
      const row = rowOf(log);
      const { block, blockHash, logIndex } = row;
      insert.run({ ...place, block, blockHash, logIndex, row: JSON.stringify(row) });
    }
    insertPage.run({ ...place, from, to, undoTo, isLive: Number(isLive) });
    return { rows: page.logs.length };
  }

  return {
    store: (target, page) => db.transaction(store).immediate(target, page),
    count: (target, range) => count.get({ ...placeOf(target), ...range }) as number,
    rows(target, to = Number.MAX_SAFE_INTEGER) {
      const found = rows.all({ ...placeOf(target), to }) as string[];
      return found.map((row) => JSON.parse(row) as TransferRow);
    },
    pages(target) {
      type Page = Pick<StoredPage, "wallet" | "from" | "to"> & {
        undo_to: number | null;
        is_live: number;
      };
      const found = pages.all(placeOf(target)) as Page[];
      return found.map(({ wallet, from, to, undo_to, is_live }) => {
        return { wallet, from, to, undoTo: undo_to, isLive: is_live === 1 };
      });
    },
    close: () => void db.close(),
  };
}

function placeOf({ network = "", wallet = "" }: SyncTarget): { network: string; wallet: string } {
  return { network, wallet };
}
