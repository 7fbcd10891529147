/*
 * The shop whose orders are loaded: a stand-in for somebody's API. What it answers follows from the
 * day and the region alone, so everybody gets the same numbers, and check.ts can work them out.
 */

/** Where the shop sells. */
export const REGIONS = ["apac", "eu", "us"];

/** An order; money in cents, so that sums are exact. */
export type Order = { id: string; product: string; quantity: number; cents: number };

const PRODUCTS = ["anvil", "bellows", "chisel", "file", "hammer", "tongs"];
const PAGE_LINES = 12;
const ANSWER_MS = 20;

/** All orders of a day in a region. */
export function ordersOf(date: string, region: string): Order[] {
  const random = seededRandom(`${date}/${region}`);
  const count = 8 + Math.floor(random() * 20);
  return Array.from({ length: count }, (_, index) => {
    const quantity = 1 + Math.floor(random() * 5);
    return {
      id: `${date}-${region}-${index + 1}`,
      product: PRODUCTS[Math.floor(random() * PRODUCTS.length)] ?? "",
      quantity,
      cents: quantity * (500 + Math.floor(random() * 9_500)),
    };
  });
}

/** One page of a day's orders as lines of CSV. As shops do, it sends some orders twice. */
export async function fetchPage(
  date: string,
  region: string,
  page: number,
): Promise<{ lines: string[]; isLast: boolean }> {
  await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
  const sent = ordersOf(date, region).flatMap((order, index) =>
    index % 9 === 8 ? [order, order] : [order],
  );
  const first = page * PAGE_LINES;
  return {
    lines: sent.slice(first, first + PAGE_LINES).map(lineOf),
    isLast: first + PAGE_LINES >= sent.length,
  };
}

/** Whether the shop breaks down when this is asked for the first time: about one day in fifteen. */
export function isFlaky(date: string, region: string): boolean {
  return seededRandom(`flaky/${date}/${region}`)() < 1 / 15;
}

function lineOf({ id, product, quantity, cents }: Order): string {
  return [id, product, quantity, (cents / 100).toFixed(2)].join(",");
}

/** Numbers from 0 to 1 that follow from the seed: FNV-1a to begin with, then mulberry32. */
function seededRandom(seed: string): () => number {
  let state = 0x811c9dc5;
  for (const character of seed) {
    state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
