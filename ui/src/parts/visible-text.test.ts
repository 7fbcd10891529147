import { describe, expect, test } from "vitest";
import { clippedText, visibleJson, visibleText } from "./visible-text.ts";

describe("text of the ledger", () => {
  test("shows marks that turn the direction by their codes", () => {
    expect(visibleText("a\u202Egnp.exe")).toBe("a⟨U+202E⟩gnp.exe");
    expect(visibleText("zero\u200Bwidth\uFEFF")).toBe("zero⟨U+200B⟩width⟨U+FEFF⟩");
  });

  test("keeps letters of every script, line breaks and tabs", () => {
    expect(visibleText("مرحبا\n\tשלום 👩🏽")).toBe("مرحبا\n\tשלום 👩🏽");
  });

  test("has them as escapes in JSON, which stays what it was", () => {
    const value = { key: "a\u202Eb" };
    expect(visibleJson(value)).toContain("\\u202e");
    expect(JSON.parse(visibleJson(value))).toEqual(value);
  });

  test("is cut where it is too long", () => {
    expect(clippedText("abcdef", 3)).toBe("abc…");
    expect(clippedText("abc", 3)).toBe("abc");
  });
});
