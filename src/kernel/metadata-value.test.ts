import { expect, test } from "vitest";
import { metadataValueOf } from "./metadata-value.ts";

function table(columns: number, rows: number) {
  return {
    type: "table",
    columns: Array.from({ length: columns }, (_, at) => `c${at}`),
    rows: Array.from({ length: rows }, () => []),
  };
}

test("a table has no more cells than can be written, however many its lists claim", () => {
  expect(metadataValueOf(table(100, 100))).toMatchObject({ type: "table" });
  expect(metadataValueOf(table(2_600, 2_600))).toBeNull();
});
