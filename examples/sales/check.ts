import { readCorrections } from "./order-file.ts";
import { type Order, ordersOf, REGIONS } from "./shop.ts";
import { monthlySales, orderTotals } from "./warehouse.ts";

/*
 * Works out from the shop's orders and the inbox what every month must come to, and compares it with
 * the tables that the backfill made. Not a cent more, not an order less.
 */

type Totals = { orders: number; cents: number };

const FIRST_DAY = Date.UTC(2025, 0, 1);
const DAYS = 90;

function expectedOrders(date: string, region: string): Order[] {
  const corrections = readCorrections(date, region);
  const corrected = new Set(corrections.map(({ id }) => id));
  return [...ordersOf(date, region).filter(({ id }) => !corrected.has(id)), ...corrections];
}

function expectedTotals(): Map<string, Totals> {
  const months = new Map<string, Totals>();
  for (let day = 0; day < DAYS; day++) {
    const date = new Date(FIRST_DAY + day * 86_400_000).toISOString().slice(0, 10);
    const totals = months.get(date.slice(0, 7)) ?? { orders: 0, cents: 0 };
    for (const region of REGIONS) {
      for (const { cents } of expectedOrders(date, region)) {
        totals.orders++;
        totals.cents += cents;
      }
    }
    months.set(date.slice(0, 7), totals);
  }
  return months;
}

function line(name: string, made: Totals, expected: Totals): boolean {
  const isRight = made.orders === expected.orders && made.cents === expected.cents;
  const columns = [made.orders, expected.orders, made.cents, expected.cents].map((each) =>
    String(each).padStart(10),
  );
  console.log(name.padEnd(8) + columns.join("") + (isRight ? "  ok" : "  WRONG"));
  return isRight;
}

const expected = expectedTotals();
const made = new Map(monthlySales().map((month) => [month.month, month]));
const nothing: Totals = { orders: 0, cents: 0 };

console.log("            orders  expected     cents  expected");
const rows = [...expected].map(([month, totals]) =>
  line(month, made.get(month) ?? nothing, totals),
);
const all = [...expected.values()].reduce((sum, { orders, cents }) => ({
  orders: sum.orders + orders,
  cents: sum.cents + cents,
}));
rows.push(line("orders", orderTotals(), all));
if (rows.includes(false)) process.exitCode = 1;
