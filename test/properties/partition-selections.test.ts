import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { present } from "../../src/kernel/errors.ts";
import { epochMsOf, instantOf } from "../../src/kernel/instant.ts";
import { intersectIntervals } from "../../src/kernel/intervals.ts";
import type { Keyspace } from "../../src/kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../src/kernel/keyspace/keyspace-of.ts";
import {
  mapSelectionDownstream,
  upstreamOrdinals,
} from "../../src/kernel/keyspace/map-partitions.ts";
import { PartitionDefinition } from "../../src/kernel/keyspace/definition.ts";
import type { PartitionMapping } from "../../src/kernel/keyspace/mapping.ts";
import { resolveSelector } from "../../src/kernel/keyspace/resolve-selector.ts";
import { selectionsOverlap } from "../../src/kernel/keyspace/selection.ts";
import type { Selector } from "../../src/kernel/keyspace/selector.ts";
import {
  anyDefinition,
  dynamicKeys,
  keyspaceNow,
  listDefinition,
  NOW,
  shares,
  singleDefinition,
  some,
  timeDefinition,
} from "./partition-arbitraries.ts";

describe("selections", () => {
  const smallMulti = fc.constant(
    PartitionDefinition.parse({
      type: "multi",
      dimensions: {
        day: { type: "daily", start: "2012-06-01" },
        region: { type: "static", keys: ["us-east", "us-west", "eu", "a*b"] },
        size: { type: "integers", start: 0, end: 10, size: 3 },
      },
    }),
  );
  const filter: fc.Arbitrary<Extract<Selector, { type: "filter" }>> = fc
    .record(
      {
        day: fc.constantFrom("2012-06-0*", "2012-06-05", {
          start: "2012-06-03",
          end: "2012-06-10",
        }),
        region: fc.constantFrom("us-*", "?u", ["eu", "us-west"], "*", ["a*b"]),
        size: fc.constantFrom("0-2", ["3-5", "9-9"], { start: "3-5", end: "9-9" }, "*-?"),
      },
      { requiredKeys: [] },
    )
    .filter((dimensions) => Object.keys(dimensions).length > 0)
    .map((dimensions) => ({ type: "filter", dimensions }));

  test("holds exactly what a filter matches, ascending", () => {
    fc.assert(
      fc.property(
        smallMulti,
        filter,
        fc.nat(200),
        fc.nat(200),
        (definition, selector, offset, limit) => {
          const keyspace = keyspaceNow(definition);
          const selection = resolveSelector(definition, keyspace, selector);
          const expected: number[] = [];
          for (let ordinal = 0; ordinal < keyspace.count; ordinal++) {
            const values = keyspace.valuesAt(ordinal);
            const chosen = Object.entries(selector.dimensions).every(([name, pattern]) =>
              bruteMatches(keyspace, name, pattern, values[name] ?? ""),
            );
            expect(selection.contains(ordinal)).toBe(chosen);
            if (chosen) expected.push(ordinal);
          }
          expect(selection.count).toBe(expected.length);
          expect(selection.ordinals(0, keyspace.count)).toEqual(expected);
          expect(selection.ordinals(offset, limit)).toEqual(expected.slice(offset, offset + limit));
          for (const [index, ordinal] of expected.entries()) {
            expect(selection.ordinalAt(index)).toBe(ordinal);
          }
        },
      ),
    );
  });

  test("turns explicit keys into ascending ordinals without repeats", () => {
    fc.assert(
      fc.property(anyDefinition, shares, (definition, at) => {
        const keyspace = keyspaceNow(definition);
        const ordinals = some(keyspace, at);
        fc.pre(ordinals.length > 0);
        const selection = resolveSelector(definition, keyspace, {
          type: "explicit",
          partition_keys: ordinals.map((ordinal) => keyspace.keyAt(ordinal)),
        });
        const expected = [...new Set(ordinals)].toSorted((one, other) => one - other);
        expect(selection.ordinals(0, keyspace.count)).toEqual(expected);
      }),
    );
  });

  test("never denies an overlap that exists, and sees none where products share no value", () => {
    fc.assert(
      fc.property(smallMulti, filter, filter, shares, (definition, left, right, at) => {
        const keyspace = keyspaceNow(definition);
        const later = keyspaceOf(definition, dynamicKeys, instantOf(epochMsOf(NOW) + 3e8));
        const one = resolveSelector(definition, keyspace, left);
        const other = resolveSelector(definition, later, right);
        const keys = some(later, at).map((ordinal) => later.keyAt(ordinal));
        const third = resolveSelector(definition, later, {
          type: "explicit",
          partition_keys: keys,
        });
        for (const selection of [other, third]) {
          const shared = one
            .ordinals(0, one.count)
            .map((ordinal) => later.indexOf(keyspace.keyAt(ordinal)))
            .some((ordinal) => ordinal !== null && selection.contains(ordinal));
          const a = { definition, keyspace, selection: one };
          const b = { definition, keyspace: later, selection };
          expect(selectionsOverlap(a, b)).toBe(shared);
          expect(selectionsOverlap(b, a)).toBe(shared);
        }
      }),
    );
  });

  test("finds the same partitions after any dimension has grown, by their keys", () => {
    const days = { type: "daily", start: "2012-06-01" };
    const regions = { type: "static", keys: ["eu", "us", "asia"] };
    const definitions = [
      { a: days, b: regions },
      { a: regions, b: days },
      { a: days, b: regions, c: days },
    ].map((dimensions) => PartitionDefinition.parse({ type: "multi", dimensions }));
    const picks = fc.array(fc.nat(999), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(fc.constantFrom(...definitions), picks, picks, (definition, left, right) => {
        const keyspaces = [NOW, instantOf(epochMsOf(NOW) + 3e8)].map((now) =>
          keyspaceOf(definition, dynamicKeys, now),
        );
        const [one, other] = [left, right].map((at, index) => {
          const keyspace = present(keyspaces[index], "there are two");
          const partition_keys = at.map((pick) => keyspace.keyAt(pick % keyspace.count));
          const selector: Selector = { type: "explicit", partition_keys };
          return {
            partition_keys,
            of: {
              definition,
              keyspace,
              selection: resolveSelector(definition, keyspace, selector),
            },
          };
        });
        if (one === undefined || other === undefined) throw new Error("There are two.");
        const shared = one.partition_keys.some((key) => other.partition_keys.includes(key));
        expect(selectionsOverlap(one.of, other.of)).toBe(shared);
        expect(selectionsOverlap(other.of, one.of)).toBe(shared);
      }),
    );
  });
});

function bruteMatches(keyspace: Keyspace, name: string, pattern: unknown, value: string): boolean {
  if (Array.isArray(pattern)) return pattern.includes(value);
  if (typeof pattern === "string") {
    const source = pattern.replace(/[*?-]/g, (each) =>
      each === "*" ? ".*" : each === "?" ? "." : "-",
    );
    return new RegExp(`^(?:${source})$`).test(value);
  }
  const { start, end } = pattern as { start: string; end: string };
  const within = keyspace.dimensions.find((dimension) => dimension.name === name)?.keyspace;
  const at = within?.indexOf(value) ?? -1;
  return at >= (within?.indexOf(start) ?? 0) && at <= (within?.indexOf(end) ?? 0);
}

describe("mappings", () => {
  const offsets = fc
    .tuple(fc.integer({ min: -3, max: 3 }), fc.integer({ min: -3, max: 3 }))
    .map(([one, other]) => [Math.min(one, other), Math.max(one, other)] as const);

  test("maps a selection to exactly the windows made from it", () => {
    fc.assert(
      fc.property(timeDefinition, timeDefinition, offsets, shares, (down, up, [low, high], at) => {
        const mapping: PartitionMapping = {
          type: "time_window",
          start_offset: low,
          end_offset: high,
        };
        expectConsistent(mapping, down, up, at);
      }),
      { numRuns: 60 },
    );
  });

  test("maps a selection to exactly the partitions some places on", () => {
    fc.assert(
      fc.property(
        singleDefinition,
        fc.integer({ min: -5, max: 5 }),
        shares,
        (definition, by, at) => {
          expectConsistent({ type: "offset", by }, definition, definition, at);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("maps a selection to exactly the partitions with the same value in a dimension", () => {
    fc.assert(
      fc.property(listDefinition, listDefinition, shares, (one, other, at) => {
        const several = PartitionDefinition.parse({
          type: "multi",
          dimensions: { a: one, b: other },
        });
        expectConsistent({ type: "dimension", dimension: "b" }, several, other, at);
        expectConsistent({ type: "dimension", dimension: "a" }, one, several, at);
        expectConsistent({ type: "dimension", dimension: "a" }, several, several, at);
      }),
      { numRuns: 60 },
    );
  });

  /** What the inverse selects is what the forward mapping leads from, one by one. */
  function expectConsistent(
    mapping: PartitionMapping,
    down: PartitionDefinition,
    up: PartitionDefinition,
    at: readonly number[],
  ): void {
    const downstream = keyspaceNow(down);
    const upstream = keyspaceNow(up);
    fc.pre(downstream.count > 0 && upstream.count > 0 && downstream.count < 5_000);
    const [from = 0, to = from] = some(upstream, at.slice(0, 2)).toSorted(
      (one, other) => one - other,
    );
    const selector: Selector =
      up.type === "multi"
        ? { type: "explicit", partition_keys: [upstream.keyAt(from), upstream.keyAt(to)] }
        : { type: "range", start: upstream.keyAt(from), end: upstream.keyAt(to) };
    const selection = resolveSelector(up, upstream, selector);
    const expected: number[] = [];
    for (let ordinal = 0; ordinal < downstream.count; ordinal++) {
      const sources = upstreamOrdinals(mapping, downstream, upstream, ordinal);
      const chosen = selection.intervals ?? [];
      if (intersectIntervals(sources, chosen).length > 0) expected.push(ordinal);
    }
    if (expected.length === 0) {
      expect(() =>
        mapSelectionDownstream(
          mapping,
          { definition: up, keyspace: upstream, selector },
          { definition: down, keyspace: downstream },
        ),
      ).toThrow("No downstream partition");
      return;
    }
    const mapped = mapSelectionDownstream(
      mapping,
      { definition: up, keyspace: upstream, selector },
      { definition: down, keyspace: downstream },
    );
    const resolved = resolveSelector(down, downstream, mapped);
    expect(resolved.ordinals(0, downstream.count)).toEqual(expected);
  }
});
