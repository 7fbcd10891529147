import { describe, expect, test } from "vitest";
import { RequestSize } from "./request-size.ts";

function succeed(size: RequestSize, times: number): void {
  for (let at = 0; at < times; at++) size.succeeded(size.value ?? 1);
}

describe("RequestSize", () => {
  test("follows a suggestion that is really smaller", () => {
    const size = new RequestSize();
    size.tooLarge(10_000, 2_000);

    expect(size.value).toBe(2_000);
  });

  test.each([null, 10_000, 20_000, 0, -5, Number.NaN, Number.POSITIVE_INFINITY])(
    "halves what was asked for with the suggestion %s",
    (suggested) => {
      const size = new RequestSize();
      size.tooLarge(10_000, suggested);

      expect(size.value).toBe(5_000);
    },
  );

  test("does not follow suggestions step by step that do not hold", () => {
    const size = new RequestSize();
    const seen = [10_000];
    while ((seen.at(-1) ?? 0) > 100) {
      const asked = seen.at(-1) ?? 0;
      size.tooLarge(asked, asked - 1);
      seen.push(size.value ?? 0);
    }

    expect(seen.length).toBeLessThan(20);
  });

  test("counts requests once that were too large together", () => {
    const size = new RequestSize(1_000);
    for (let at = 0; at < 8; at++) size.tooLarge(1_000, null);

    expect(size.value).toBe(500);
  });

  test("never goes below one block", () => {
    const size = new RequestSize(2);
    for (let at = 0; at < 5; at++) size.tooLarge(size.value ?? 0, null);

    expect(size.value).toBe(1);
  });

  test("grows by a quarter after eight successes in a row at its full size", () => {
    const size = new RequestSize(100);
    for (let at = 0; at < 100; at++) size.succeeded(99);
    expect(size.value).toBe(100);
    succeed(size, 7);
    expect(size.value).toBe(100);
    succeed(size, 1);
    expect(size.value).toBe(125);
  });

  test("stays below a size that failed until after a long run of successes", () => {
    const size = new RequestSize(1_000);
    size.tooLarge(1_000, null);
    succeed(size, 63);
    expect(size.value).toBe(999);
    succeed(size, 1);
    expect(size.value).toBe(1_248);
  });

  test("goes back to what was proven when a little more was too much", () => {
    const size = new RequestSize(100);
    succeed(size, 8);
    expect(size.value).toBe(125);
    size.tooLarge(125, null);
    expect(size.value).toBe(100);
    size.tooLarge(100, null);
    expect(size.value).toBe(50);
  });

  test("goes back to what was proven when a little more was not answered, and stays there", () => {
    const size = new RequestSize(100);
    succeed(size, 8);
    expect(size.unanswered(100)).toBe(false);
    expect(size.value).toBe(125);
    expect(size.unanswered(125)).toBe(true);
    expect(size.value).toBe(100);
    expect(size.unanswered(100)).toBe(false);
    succeed(size, 63);
    expect(size.value).toBe(100);
    succeed(size, 1);
    expect(size.value).toBe(125);
  });
});
