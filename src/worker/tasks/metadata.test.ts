import { expect, test } from "vitest";
import { md } from "../../define/metadata.ts";
import { isWebAddress, metadataValueOf, numberText } from "../../kernel/metadata-value.ts";
import { metadataOf } from "./outcome.ts";

/** What is kept of a fact. */
function kept(fact: unknown): unknown {
  const { value } = metadataOf({ metadata: { fact } });
  return value === undefined ? undefined : (value as { fact: unknown }).fact;
}

test("md.number keeps a number as it is, and every digit of a large one", () => {
  expect(kept(md.number(5, { unit: "rows" }))).toEqual({ type: "number", value: 5, unit: "rows" });
  expect(kept(md.number(5n))).toEqual({ type: "number", value: 5 });
  const large = 123_456_789_012_345_678_901n;
  expect(kept(md.number(large))).toEqual({ type: "number", value: "123456789012345678901" });
  expect(kept(md.number(Number.NaN))).toBeUndefined();
});

test("md.table has the columns of its rows unless told, and a cell for each", () => {
  const rows = [
    { region: "eu", rows: 5n },
    { region: "us", share: Number.NaN },
  ];
  expect(kept(md.table(rows))).toEqual({
    type: "table",
    columns: ["region", "rows", "share"],
    rows: [
      ["eu", 5, null],
      ["us", null, "NaN"],
    ],
  });
  expect(kept(md.table(rows, { columns: ["region"] }))).toMatchObject({ rows: [["eu"], ["us"]] });
  expect(kept(md.table([]))).toEqual({ type: "table", columns: [], rows: [] });
});

test("md.link, md.markdown and md.json are plain documents", () => {
  const url = "https://x.example/a";
  expect(kept(md.link(url))).toEqual({ type: "link", url });
  expect(kept(md.link(new URL(url), "a"))).toEqual({ type: "link", url, text: "a" });
  expect(kept(md.markdown("# a"))).toEqual({ type: "markdown", text: "# a" });
  const at = new Date(0);
  expect(kept(md.json({ at }))).toEqual({
    type: "json",
    value: { at: "1970-01-01T00:00:00.000Z" },
  });
});

test("what md makes is known again when it is shown, and nothing else is", () => {
  const made = [
    md.number(5, { unit: "rows" }),
    md.number(2n ** 70n),
    md.table([{ a: 1 }]),
    md.link("https://x.example", "x"),
    md.markdown("a"),
    md.json(null),
  ];
  for (const fact of made) {
    const again = kept(fact);
    expect(metadataValueOf(again as never)).toEqual(again);
  }
  const others = [
    null,
    5,
    "number",
    [],
    {},
    { type: "number" },
    { type: "number", value: "5.5" },
    { type: "number", value: 5, colour: "red" },
    { type: "number", value: 5, unit: 7 },
    { type: "table", columns: ["a"], rows: [1] },
    { type: "table", columns: [1], rows: [] },
    { type: "link", url: 5 },
    { type: "link", url: "x", text: 5 },
    { type: "markdown" },
    { type: "json" },
    { type: "order", value: 5 },
  ];
  for (const other of others) expect(metadataValueOf(other), JSON.stringify(other)).toBeNull();
});

test("numberText groups digits and adds the unit", () => {
  expect(numberText(1_234_567.25, "rows")).toBe("1,234,567.25 rows");
  expect(numberText("123456789012345678901", undefined)).toBe("123,456,789,012,345,678,901");
});

test("isWebAddress takes what a browser opens, and nothing that it would run", () => {
  for (const url of ["https://x.example", "HTTP://x"]) expect(isWebAddress(url)).toBe(true);
  for (const url of ["javascript:alert(1)", "data:text/html,x", "//x.example", "https://"]) {
    expect(isWebAddress(url), url).toBe(false);
  }
});

test("metadata that is a Map or was not awaited is not taken for none", () => {
  const faultsOf = (metadata: unknown): string[] => metadataOf({ metadata }).faults;
  expect(faultsOf(new Map([["rows", 1]]))).toEqual([
    "The metadata is not kept: a Map cannot be written as JSON: use Object.fromEntries(map).",
  ]);
  expect(faultsOf(Promise.resolve({ rows: 1 }))).toEqual([
    "The metadata is not kept: a promise cannot be written as JSON: await it.",
  ]);
  expect(metadataOf({ metadata: { rows: 1, ids: new Set([1]) } })).toEqual({
    value: { rows: 1 },
    faults: [
      'A fact of the metadata is not kept: "ids": a Set cannot be written as JSON: use [...set].',
    ],
  });
});
