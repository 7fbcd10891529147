import { mkdirSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import type { Order } from "./shop.ts";

/*
 * The tables that the assets make, in one SQLite file. Every function here replaces the whole of one
 * partition in one transaction: done twice, or done again after a crash, it gives the same rows.
 */

const TABLES = `
  create table if not exists orders (
    order_id text primary key,
    date text not null,
    region text not null,
    product text not null,
    quantity integer not null,
    cents integer not null
  ) strict;
  create index if not exists orders_of_partition on orders (date, region);
  create table if not exists daily_sales (
    date text primary key,
    orders integer not null,
    cents integer not null
  ) strict;
  create table if not exists monthly_sales (
    month text primary key,
    days integer not null,
    orders integer not null,
    cents integer not null
  ) strict;
`;

/** What a month came to. */
export type MonthlySales = { month: string; days: number; orders: number; cents: number };

let opened: DatabaseSync | null = null;

/** The path of something in this project. */
export function placeOf(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}

/** Replaces the orders of one day and region. */
export function replaceOrders(date: string, region: string, orders: readonly Order[]): void {
  inTransaction((db) => {
    db.prepare("delete from orders where date = ? and region = ?").run(date, region);
    const insert = db.prepare("insert into orders values (?, ?, ?, ?, ?, ?)");
    for (const { id, product, quantity, cents } of orders) {
      insert.run(id, date, region, product, quantity, cents);
    }
  });
}

/** How many regions have orders on a day. */
export function regionsOn(date: string): number {
  const sql = "select count(distinct region) as regions from orders where date = ?";
  return warehouse().prepare(sql).get(date)?.["regions"] as number;
}

/** Replaces the sums of one day. */
export function sumDay(date: string): void {
  const sql = `
    insert or replace into daily_sales
    select date, count(*), sum(cents) from orders where date = ? group by date
  `;
  warehouse().prepare(sql).run(date);
}

/** How many days of a month are summed up. */
export function daysOf(month: string): number {
  const sql = "select count(*) as days from daily_sales where substr(date, 1, 7) = ?";
  return warehouse().prepare(sql).get(month)?.["days"] as number;
}

/** Replaces the sums of one month, and gives them. */
export function sumMonthOf(month: string): MonthlySales {
  const sql = `
    insert or replace into monthly_sales
    select substr(date, 1, 7) as month, count(*), sum(orders), sum(cents)
    from daily_sales where substr(date, 1, 7) = ? group by month
    returning *
  `;
  return warehouse().prepare(sql).get(month) as MonthlySales;
}

/** All months there are. */
export function monthlySales(): MonthlySales[] {
  return warehouse().prepare("select * from monthly_sales order by month").all() as MonthlySales[];
}

/** How many orders there are, and what they come to. */
export function orderTotals(): { orders: number; cents: number } {
  const sql = "select count(*) as orders, coalesce(sum(cents), 0) as cents from orders";
  return warehouse().prepare(sql).get() as { orders: number; cents: number };
}

function inTransaction(change: (db: DatabaseSync) => void): void {
  const db = warehouse();
  db.exec("begin immediate");
  try {
    change(db);
    db.exec("commit");
  } catch (error) {
    db.exec("rollback");
    throw error;
  }
}

function warehouse(): DatabaseSync {
  if (opened === null) {
    mkdirSync(placeOf("data"), { recursive: true });
    opened = new DatabaseSync(placeOf("data/sales.sqlite"), { timeout: 5_000 });
    opened.exec(TABLES);
  }
  return opened;
}
