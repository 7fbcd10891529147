import { expect, test } from "vitest";
import { fieldsText } from "./fields-text.ts";

test("fields are told name by name, with quotes only where they are needed", () => {
  const fields = { rows: 12, table: "orders", note: "not yet", where: { day: 1 }, empty: "" };
  expect(fieldsText(fields)).toBe('rows=12 table=orders note="not yet" where={"day":1} empty=""');
});

test("a text of several lines keeps them, after the rest", () => {
  expect(fieldsText({ stack: "Error\n  at a", code: 7 })).toBe("code=7\nstack: Error\n  at a");
});

test("what is no object is told as it is, and nothing as nothing", () => {
  expect(fieldsText([1, 2])).toBe("[1,2]");
  expect(fieldsText(null)).toBe("");
  expect(fieldsText({})).toBe("");
});
