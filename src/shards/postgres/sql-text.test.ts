import { describe, expect, test } from "vitest";
import { fieldCount, lastRow } from "./sql-text.ts";

describe("lastRow", () => {
  test("gives nothing for no rows", () => {
    expect(lastRow(Buffer.alloc(0))).toBeNull();
  });

  test("reads the only row and the last of several", () => {
    expect(lastRow(Buffer.from("1\ta\n"))).toEqual(["1", "a"]);
    expect(lastRow(Buffer.from("1\ta\n2\tb\n33\t\n"))).toEqual(["33", ""]);
  });

  test("reads what is escaped, NULL and letters of several bytes", () => {
    const row = String.raw`a\tb\nc\\d` + "\t" + String.raw`\N` + "\té\t" + String.raw`\\N` + "\n";
    expect(lastRow(Buffer.from(`x\ty\tz\tw\n${row}`))).toEqual(["a\tb\nc\\d", null, "é", "\\N"]);
  });
});

describe("fieldCount", () => {
  test.each([
    ["()", 1],
    ["(1,a)", 2],
    ["(,,)", 3],
    [String.raw`("a,b","c""d,","e\"f\\",g)`, 4],
  ])("counts the fields of %s", (row, count) => {
    expect(fieldCount(row)).toBe(count);
  });
});
