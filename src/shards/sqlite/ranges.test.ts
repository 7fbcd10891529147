import { describe, expect, test } from "vitest";
import { RowDigest } from "./ranges.ts";

describe("RowDigest", () => {
  const digestOf = (...batches: string[][]): string => {
    const digest = new RowDigest();
    for (const batch of batches) digest.add(batch.map((text) => [text]));
    const { rows, digest: text } = digest.result();
    return `${rows} ${text}`;
  };

  test("does not depend on the order of rows, nor on how they come", () => {
    const whole = digestOf(["a", "b", "c"]);
    expect(digestOf(["c", "a", "b"])).toBe(whole);
    expect(digestOf(["b"], [], ["c", "a"])).toBe(whole);
  });

  test("tells rows apart, and how often there is one", () => {
    const seen = ["", "a", "b", "ab", "ba", "a\u0000", "é", "1,2", "12,", "1.0", "'1'"];
    const digests = seen.map((text) => digestOf([text]));
    expect(new Set([...digests, digestOf(), digestOf(["a", "a"])]).size).toBe(seen.length + 2);
  });

  test("finds no two equal sums among many similar rows", () => {
    const texts = Array.from({ length: 20_000 }, (_, index) => `${index},'a',${index % 7}`);
    expect(new Set(texts.map((text) => digestOf([text]))).size).toBe(texts.length);
    const pairs = texts.slice(1).map((text, index) => digestOf([text, texts[index] ?? ""]));
    expect(new Set(pairs).size).toBe(pairs.length);
  });
});
