import { expect, test } from "vitest";
import { z } from "zod";
import { type IsJson, projected, type SameFields } from "./admin-calls.ts";

const Fence = z.strictObject({ tenant: z.string(), shard: z.string().nullable() });

test("keeps the fields of a document and no other, however deep", () => {
  const wide = { tenant: "a", shard: null, until: "later" };
  const schema = z.tuple([
    z.strictObject({
      limit: z.int(),
      fences: z.array(Fence).exactOptional(),
      last: Fence.nullable().default(null),
    }),
    z.string(),
  ]);
  const sent = projected(schema, [{ limit: 1, fences: [wide], last: wide, more: 1 }, "b"]);
  const narrow = { tenant: "a", shard: null };
  expect(sent).toEqual([{ limit: 1, fences: [narrow], last: narrow }, "b"]);
  expect(schema.parse(sent)).toEqual(sent);
});

test("does not take a field that every object has for one of the document", () => {
  const value = JSON.parse('{"tenant":"a","shard":null,"constructor":1,"__proto__":2}') as object;
  expect(Object.entries(projected(Fence, value) as object)).toEqual([
    ["tenant", "a"],
    ["shard", null],
  ]);
});

test("tells types apart that differ in an optional field", () => {
  type Wide = { readonly a: readonly { readonly b?: string }[] };
  const same: SameFields<Wide, { a: { b: string }[] }> = true;
  const lacks: SameFields<Wide, { a: object[] }> = false;
  const deeper: SameFields<Wide, { a: { b: string; c?: string }[] }> = false;
  expect([same, lacks, deeper]).toEqual([true, false, false]);
});

test("tells what JSON can carry", () => {
  const json: IsJson<{ a: readonly { b: string | null }[] }> = true;
  const bytes: IsJson<{ a: Uint8Array }> extends true ? true : false = false;
  const big: IsJson<{ a: { b: bigint }[] }> extends true ? true : false = false;
  const open: IsJson<{ a: unknown }> extends true ? true : false = false;
  expect([json, bytes, big, open]).toEqual([true, false, false, false]);
});
