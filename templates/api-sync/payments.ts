import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Payment } from "./api.ts";

/* The copy: a table in one SQLite file. */

const data = process.env["DATA_DIR"] ?? join(import.meta.dirname, "data");
let opened: DatabaseSync | null = null;

/** Stores payments, so that storing them twice is storing them once. */
export function storePayments(payments: readonly Payment[]): void {
  const db = database();
  const upsert = db.prepare("insert or replace into payments values (?, ?, ?)");
  db.exec("begin immediate");
  try {
    for (const { number, customer, cents } of payments) upsert.run(number, customer, cents);
    db.exec("commit");
  } catch (error) {
    db.exec("rollback");
    throw error;
  }
}

/** How many payments with numbers from one to another are stored. */
export function countPayments(from: number, to: number): number {
  const count = "select count(*) as count from payments where number between ? and ?";
  return Number(database().prepare(count).get(from, to)?.["count"]);
}

/** Closes the file. */
export function closePayments(): void {
  opened?.close();
  opened = null;
}

function database(): DatabaseSync {
  if (opened === null) {
    mkdirSync(data, { recursive: true });
    // Several workers may store at once, and what is acknowledged must outlive the machine.
    opened = new DatabaseSync(join(data, "payments.sqlite"), { timeout: 10_000 });
    opened.exec(`
      pragma journal_mode = wal;
      pragma synchronous = full;
      create table if not exists payments (
        number integer primary key, customer text not null, cents integer not null
      ) strict`);
  }
  return opened;
}
