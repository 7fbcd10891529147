import { describe, expect, test } from "vitest";
import { nodeHash } from "../engine/node-hash.ts";
import { mayHold } from "./move-overlaps.ts";

describe("mayHold", () => {
  test("knows who is named, who is left out, and whose hash falls where", () => {
    const named = [{ any: [{ is: "in" as const, values: ["x"] }], negate: false }];
    expect([mayHold(named, "x", nodeHash), mayHold(named, "y", nodeHash)]).toEqual([true, false]);
    const others = [{ any: [{ is: "in" as const, values: ["x"] }], negate: true }];
    expect([mayHold(others, "x", nodeHash), mayHold(others, "y", nodeHash)]).toEqual([false, true]);
    const bucket = Number.parseInt(nodeHash.sha256("x").slice(0, 8), 16) % 5;
    const hashed = (buckets: number[]) => [
      { any: [{ is: "hash" as const, modulus: 5, buckets }], negate: false },
    ];
    expect(mayHold(hashed([bucket]), "x", nodeHash)).toBe(true);
    expect(mayHold(hashed([(bucket + 1) % 5]), "x", nodeHash)).toBe(false);
  });

  test("takes a range for one that may hold anybody, as only the database has its order", () => {
    const range = [{ any: [{ is: "between" as const, from: "a", below: "b" }], negate: false }];
    const outside = range.map((part) => ({ ...part, negate: true }));
    expect([mayHold(range, "z", nodeHash), mayHold(outside, "z", nodeHash)]).toEqual([true, true]);
    expect(mayHold([], "z", nodeHash)).toBe(true);
  });
});
