import { describe, expect, test } from "vitest";
import { moveSeed } from "./moves-seed.ts";

/** Seeds that found something once, and why they are kept. */
const NOTABLE: Readonly<Record<string, number>> = {
  "a frozen worker goes on with a quarantined segment": 106,
  "a quarantined segment when all were to be compared is compared once it is back": 483,
  "a segment whose removal was lost is copied again by a person and keeps its rows": 1318,
  "a frozen removal does not go on once its segment is copied again": 1570,
};
const FIRST = 1;
const LAST = 150;
const AT_ONCE = 25;

describe("moves between random topologies under random failures", () => {
  const groups = Array.from({ length: (LAST - FIRST + 1) / AT_ONCE }, (_, index) => ({
    from: FIRST + index * AT_ONCE,
    to: FIRST + (index + 1) * AT_ONCE - 1,
  }));

  test.each(groups)(
    "I29, I47, I49: every row comes to its shard once, seeds $from to $to",
    async ({ from, to }) => {
      for (let seed = from; seed <= to; seed++) {
        expect(await moveSeed(seed), `seed ${seed}`).toEqual([]);
      }
    },
    120_000,
  );

  test.each(Object.entries(NOTABLE))("I49: %s", async (_why, seed) => {
    expect(await moveSeed(seed)).toEqual([]);
  });
});
