import { expect, test } from "vitest";
import { cutInMiddle } from "./map-axes.tsx";

test("a label that is too long keeps its beginning and its end", () => {
  expect(cutInMiddle("eu-west-1", 9)).toBe("eu-west-1");
  expect(cutInMiddle("customer-0000000001", 9)).toBe("cust…0001");
  expect(cutInMiddle("customer-0000000002", 10)).toBe("custo…0002");
});
