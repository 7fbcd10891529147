import { expect, test } from "vitest";
import { leastText } from "./concerns.ts";

test("a number that may be more says so, and none found so far is no number", () => {
  expect(leastText(1_200, false)).toBe("1,200");
  expect(leastText(200, true)).toBe("200+");
  expect(leastText(0, false)).toBe("0");
  expect(leastText(0, true)).toBe("?");
});
