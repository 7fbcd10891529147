import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { shardOf } from "../../../test/shards/moves-tables.ts";
import { misplacedScope, movingPairs, pairScope, scopeOf } from "./lanes.ts";
import { compareText } from "../../kernel/table.ts";
import { type Scope, type ScopeTest, type Topology, shardsOf } from "../shard/spec.ts";

const SHARDS = ["a", "b", "c"];
const VALUES = Array.from({ length: 60 }, (_, index) => `t${index}`);

const shard = fc.constantFrom(...SHARDS);
const topology: fc.Arbitrary<Topology> = fc.oneof(
  fc.record({
    by: fc.constant("tenant" as const),
    tenants: fc.dictionary(fc.constantFrom(...VALUES), shard, { maxKeys: 20 }),
    default: shard,
  }),
  fc.record({
    by: fc.constant("hash" as const),
    buckets: fc.array(shard, { minLength: 1, maxLength: 12 }),
  }),
  fc
    .record({
      bounds: fc.uniqueArray(fc.constantFrom(...VALUES), { maxLength: 6 }),
      shards: fc.array(shard, { minLength: 7, maxLength: 7 }),
    })
    .map(({ bounds, shards }) => ({
      by: "range" as const,
      ranges: [...bounds.toSorted(compareText), null].map((below, index) => ({
        below,
        shard: shards[index] ?? "a",
      })),
    })),
);

/** What a database does with a scope; null for a NULL. */
function isIn(scope: Scope, value: string | null): boolean {
  return scope.every(({ any, negate }) => {
    const passes = value !== null && any.some((each) => passesTest(each, value));
    return passes !== negate;
  });
}

function passesTest(given: ScopeTest, value: string): boolean {
  switch (given.is) {
    case "in":
      return given.values.includes(value);
    case "between":
      return (
        (given.from === null || compareText(value, given.from) >= 0) &&
        (given.below === null || compareText(value, given.below) < 0)
      );
    case "hash": {
      const number = Number.parseInt(
        createHash("sha256").update(value).digest("hex").slice(0, 8),
        16,
      );
      return given.buckets.includes(number % given.modulus);
    }
  }
}

describe("scopeOf", () => {
  test("I53: every value belongs to exactly one shard", () => {
    fc.assert(
      fc.property(topology, fc.constantFrom(...VALUES), (given, value) => {
        const owners = shardsOf(given).filter((name) => isIn(scopeOf(given, name), value));
        expect(owners).toEqual([shardOf(given, value)]);
      }),
    );
  });

  test("gives a NULL to the default shard, and by hash or range to none", () => {
    const byTenant = { by: "tenant", tenants: { x: "a" }, default: "b" } as const;
    expect(isIn(scopeOf(byTenant, "b"), null)).toBe(true);
    expect(isIn(scopeOf(byTenant, "a"), null)).toBe(false);
    const byHash = { by: "hash" as const, buckets: ["a"] };
    expect(isIn(scopeOf(byHash, "a"), null)).toBe(false);
    const byRange = { by: "range" as const, ranges: [{ below: null, shard: "a" }] };
    expect(isIn(scopeOf(byRange, "a"), null)).toBe(false);
  });
});

describe("movingPairs and pairScope", () => {
  test("I47: the lanes cover exactly the values whose shard differs, each once", () => {
    fc.assert(
      fc.property(topology, topology, fc.constantFrom(...VALUES), (from, to, value) => {
        const lanes = movingPairs(from, to).filter((pair) =>
          isIn(pairScope(from, to, pair), value),
        );
        const [before, after] = [shardOf(from, value), shardOf(to, value)];
        expect(lanes).toEqual(before === after ? [] : [{ from: before, to: after }]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("leave out pairs that can have no rows", () => {
    const buckets = { by: "hash" as const, buckets: ["a", "b", "a", "b"] };
    const one = { by: "hash" as const, buckets: ["a", "b", "a", "c"] };
    expect(movingPairs(buckets, one)).toEqual([{ from: "b", to: "c" }]);
    expect(movingPairs(buckets, { by: "hash", buckets: ["a", "b"] })).toEqual([]);
    const half = { by: "range" as const, ranges: [bound("100", "a"), bound(null, "b")] };
    const more = {
      by: "range" as const,
      ranges: [bound("100", "a"), bound("200", "c"), bound(null, "b")],
    };
    expect(movingPairs(half, more)).toEqual([{ from: "b", to: "c" }]);
    const tenants = { by: "tenant" as const, tenants: { x: "b" }, default: "a" };
    const moved = { by: "tenant" as const, tenants: { x: "c" }, default: "a" };
    expect(movingPairs(tenants, moved)).toEqual([{ from: "b", to: "c" }]);
    expect(pairScope(tenants, moved, { from: "b", to: "c" })).toEqual([
      { any: [{ is: "in", values: ["x"] }], negate: false },
    ]);
  });

  test("go along all pairs where two hashes have numbers of buckets without a common divisor", () => {
    const two = { by: "hash" as const, buckets: ["a", "b"] };
    const three = { by: "hash" as const, buckets: ["a", "b", "c"] };
    expect(movingPairs(two, three)).toHaveLength(4);
  });
});

function bound(below: string | null, name: string): { below: string | null; shard: string } {
  return { below, shard: name };
}

describe("misplacedScope", () => {
  test("I53: names exactly what is on a shard and does not belong there", () => {
    fc.assert(
      fc.property(topology, shard, fc.constantFrom(...VALUES), (given, name, value) => {
        const scope = misplacedScope([given], name);
        const isMisplaced = scope !== null && isIn(scope, value);
        expect(isMisplaced).toBe(shardOf(given, value) !== name);
      }),
    );
  });

  test("lets what stays where it was belong to either topology", () => {
    fc.assert(
      fc.property(
        topology,
        topology,
        shard,
        fc.constantFrom(...VALUES),
        (from, to, name, value) => {
          const scope = misplacedScope([from, to], name);
          const isMisplaced = scope !== null && isIn(scope, value);
          expect(isMisplaced).toBe(![shardOf(from, value), shardOf(to, value)].includes(name));
        },
      ),
    );
  });
});
