import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CreateForm,
  type DimensionWish,
  EMPTY_FORM,
  formOfQuery,
  keysIn,
  ONLY,
  OUTCOMES,
  pastedKeys,
  queryOfForm,
  REASONS,
} from "./create-form.ts";

const form = (fields: Partial<CreateForm>): CreateForm => ({ ...EMPTY_FORM, ...fields });
const of = (query: string): CreateForm => formOfQuery(new URLSearchParams(query));

const text = fc.string({ unit: "grapheme", maxLength: 12 });
const key = text.map((each) => keysIn(each)[0] ?? "k");
const wish: fc.Arbitrary<DimensionWish> = fc.oneof(
  fc.record({ mode: fc.constant("range" as const), start: text, end: text }),
  fc.record({
    mode: fc.constant("values" as const),
    values: fc.uniqueArray(text, { maxLength: 4 }),
  }),
  fc.record({ mode: fc.constant("pattern" as const), pattern: text }),
);
const selector: fc.Arbitrary<Partial<CreateForm>> = fc.oneof(
  fc.constant({}),
  fc.record({ kind: fc.constant("range" as const), start: text, end: text }),
  fc.record({
    kind: fc.constant("keys" as const),
    keys: fc.uniqueArray(key, { maxLength: 5 }).map((keys) => keys.join("\n")),
  }),
  fc.record({
    kind: fc.constant("filter" as const),
    filter: fc.dictionary(text, wish, { maxKeys: 3, noNullPrototype: true }),
  }),
  fc.constant({ kind: "all" as const }),
  fc.record({
    kind: fc.constant("stale" as const),
    reasons: fc.subarray([...REASONS]),
    limit: text,
  }),
  fc.record({
    kind: fc.constant("left" as const),
    of: text,
    outcomes: fc.subarray([...OUTCOMES]),
  }),
);
const anyForm = fc
  .record({
    assets: fc.uniqueArray(key, { maxLength: 3 }),
    only: fc.constantFrom(null, ...ONLY),
    chunk_size: text,
    concurrency: text,
    order: fc.constantFrom("ascending" as const, "descending" as const),
    priority: text,
    failure_limit: text,
    attempts: text,
    retry_delay_ms: text,
    start_at: text,
    window: text,
    labels: text,
    config: text,
    after: text,
    allow_overlap: fc.boolean(),
    continue_on_failure: fc.boolean(),
  })
  .chain((options) => selector.map((chosen) => form({ ...options, ...chosen })));

describe("the address of a plan", () => {
  test("holds everything that was filled in", () => {
    fc.assert(
      fc.property(anyForm, (filled) => {
        const query = queryOfForm(filled).toString();
        expect(formOfQuery(new URLSearchParams(query))).toEqual(filled);
      }),
      { numRuns: 500 },
    );
  });

  test("is the same again after it was read and written, whatever was in it", () => {
    const names = ["asset", "start", "end", "keys", "filter", "all", "stale", "reasons", "of"];
    // Not `String` of an object, which one with a field `toString` of its own does not survive.
    const plain = fc.jsonValue({ maxDepth: 0 }).map(String);
    const value = fc.oneof(
      text,
      fc.json(),
      fc.constant("1"),
      fc.constant("[object Object]"),
      plain,
    );
    const pair = fc.tuple(fc.constantFrom(...names, "chunk_size", "order", "limit"), value);
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 6 }), (pairs) => {
        const once = queryOfForm(formOfQuery(new URLSearchParams(pairs))).toString();
        expect(queryOfForm(of(once)).toString()).toBe(once);
      }),
      { numRuns: 1_000 },
    );
  });

  test("leaves out what is as it would be anyway", () => {
    expect(queryOfForm(EMPTY_FORM).toString()).toBe("");
    expect(
      queryOfForm(of("asset=sales&chunk_size=10&concurrency=2&order=ascending")).toString(),
    ).toBe("asset=sales");
  });

  test("says a range, keys, a filter, everything and what is stale in the way others link to it", () => {
    expect(of("asset=a&asset=b&start=2026-01-01&end=2026-01-31")).toEqual(
      form({ assets: ["a", "b"], kind: "range", start: "2026-01-01", end: "2026-01-31" }),
    );
    expect(of(`keys=${encodeURIComponent('["x","y"]')}`)).toEqual(
      form({ kind: "keys", keys: "x\ny" }),
    );
    const filter = {
      date: { start: "2026-01-01", end: "2026-01-31" },
      region: ["eu"],
      tier: "gold*",
    };
    expect(of(`filter=${encodeURIComponent(JSON.stringify(filter))}`).filter).toEqual({
      date: { mode: "range", start: "2026-01-01", end: "2026-01-31" },
      region: { mode: "values", values: ["eu"] },
      tier: { mode: "pattern", pattern: "gold*" },
    });
    expect(of("all=1").kind).toBe("all");
    expect(of("stale=1&reasons=CODE_CHANGED")).toEqual(
      form({ kind: "stale", reasons: ["CODE_CHANGED"] }),
    );
    expect(of("of=bf_1&outcomes=FAILED,SKIPPED")).toEqual(
      form({ kind: "left", of: "bf_1", outcomes: ["FAILED", "SKIPPED"] }),
    );
  });
});

describe("keysIn", () => {
  test("takes a key a line, once each", () => {
    expect(keysIn(" a \r\n\n b,c\nb,c\n")).toEqual(["a", "b,c"]);
  });
});

describe("pastedKeys", () => {
  test("understands a JSON list, and leaves all else as it is", () => {
    expect(pastedKeys('["a", "b"]')).toBe("a\nb");
    expect(pastedKeys("[a, b]")).toBe("[a, b]");
  });
});
