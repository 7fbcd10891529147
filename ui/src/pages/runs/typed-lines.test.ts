import { expect, test } from "vitest";
import { labelsOf, linesOf } from "./typed-lines.ts";

test("lines are trimmed, and empty ones are left out", () => {
  expect(linesOf(" a \n\n b\r\n")).toEqual(["a", "b"]);
});

test("labels are split at the first equals sign", () => {
  expect(labelsOf("team = data\nformula=a=b\nurgent")).toEqual({
    team: "data",
    formula: "a=b",
    urgent: "",
  });
});
