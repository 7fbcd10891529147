import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cursorOf, keyOfCursor } from "./cursor.ts";

describe("cursors", () => {
  test("stand for the key they were made of", () => {
    const text = fc.string({ unit: "grapheme" }).filter((each) => !each.includes("\0"));
    fc.assert(
      fc.property(fc.maxSafeInteger(), text, (pos, name) => {
        expect(keyOfCursor(cursorOf([pos, name]), ["int", "text"])).toEqual([pos, name]);
      }),
    );
  });

  test("of another list, or of nobody, are refused", () => {
    const others = [cursorOf(["a"]), cursorOf([1, 2]), cursorOf([]), "", "!", "bnVsbA"];
    for (const cursor of others) {
      expect(() => keyOfCursor(cursor, ["int"]), cursor).toThrow("Start again without a cursor");
    }
    expect(() => keyOfCursor(cursorOf(["a\0"]), ["text"])).toThrow("Start again");
  });
});
