import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { mayHold } from "./overlaps.ts";

const { hash } = new LedgerWorld().context();

describe("mayHold", () => {
  test("knows who is named, who is left out, and whose hash falls where", () => {
    const named = [{ any: [{ is: "in" as const, values: ["x"] }], negate: false }];
    expect([mayHold(named, "x", hash), mayHold(named, "y", hash)]).toEqual([true, false]);
    const others = [{ any: [{ is: "in" as const, values: ["x"] }], negate: true }];
    expect([mayHold(others, "x", hash), mayHold(others, "y", hash)]).toEqual([false, true]);
    const bucket = Number.parseInt(hash.sha256("x").slice(0, 8), 16) % 5;
    const hashed = (buckets: number[]) => [
      { any: [{ is: "hash" as const, modulus: 5, buckets }], negate: false },
    ];
    expect(mayHold(hashed([bucket]), "x", hash)).toBe(true);
    expect(mayHold(hashed([(bucket + 1) % 5]), "x", hash)).toBe(false);
  });

  test("takes a range for one that may hold anybody, as only the database has its order", () => {
    const range = [{ any: [{ is: "between" as const, from: "a", below: "b" }], negate: false }];
    const outside = range.map((part) => ({ ...part, negate: true }));
    expect([mayHold(range, "z", hash), mayHold(outside, "z", hash)]).toEqual([true, true]);
    expect(mayHold([], "z", hash)).toBe(true);
  });
});
