import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Order } from "./shop.ts";
import { placeOf } from "./warehouse.ts";

/** The orders in a file of CSV. Throws when a line is wrong, with what to do about it. */
export function readOrders(path: string): Order[] {
  const lines = readFileSync(placeOf(path), "utf8").trimEnd().split("\n");
  return lines.map((line, index) => {
    const [, id, product, quantity, amount] = /^([^,]+),([a-z]+),(\d+),([^,]*)$/.exec(line) ?? [];
    const place = `${relative(process.cwd(), placeOf(path))}, line ${index + 1}`;
    if (id === undefined || product === undefined || amount === undefined) {
      throw new Error(`${place}: expected id,product,quantity,amount, got "${line}". ${ADVICE}`);
    }
    if (!/^\d+\.\d\d$/.test(amount)) {
      throw new Error(`${place}: expected an amount like 12.50, got "${amount}". ${ADVICE}`);
    }
    return { id, product, quantity: Number(quantity), cents: Number(amount.replace(".", "")) };
  });
}

/** What people corrected by hand, if they did. */
export function readCorrections(date: string, region: string): Order[] {
  const path = `inbox/${date}-${region}.csv`;
  return existsSync(placeOf(path)) ? readOrders(path) : [];
}

const ADVICE = "Correct the line, save the file and retry what failed.";
