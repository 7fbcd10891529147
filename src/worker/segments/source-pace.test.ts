import { describe, expect, test } from "vitest";
import { SourcePace } from "./source-pace.ts";

/** Asks so often, each as soon as it may; every so many times the source complains. */
function ask(pace: SourcePace, times: number, complainsEvery: number): number {
  let now = 0;
  for (let at = 1; at <= times; at++) {
    now = Math.max(now, pace.nextAt());
    pace.started(now);
    const startedAt = now;
    now += 10;
    if (at % complainsEvery === 0) pace.throttled(startedAt, 0, now);
    else pace.succeeded(startedAt, now);
  }
  return now;
}

describe("the pace of a source", () => {
  test("stays bearable when one request in twenty is refused, however slow it is asked", () => {
    const pace = new SourcePace();
    const tookMs = ask(pace, 2_000, 20);
    expect(pace.intervalMs).toBeLessThan(2_000);
    expect(tookMs / 2_000).toBeLessThan(1_000);
  });

  test("comes back within minutes from the longest pause", () => {
    const pace = new SourcePace();
    for (let at = 1; at <= 20; at++) pace.slowDown(at, at);
    expect(pace.intervalMs).toBe(60_000);
    let now = 100;
    for (let at = 0; at < 10; at++) {
      now = Math.max(now, pace.nextAt());
      pace.started(now);
      pace.succeeded(now, now + 10);
    }
    expect(pace.intervalMs).toBeLessThan(2_000);
    expect(now).toBeLessThan(5 * 60_000);
  });

  test("does not take the time that a source was left alone for a time that it bore", () => {
    const pace = new SourcePace();
    pace.throttled(0, 600_000, 0);
    const before = pace.intervalMs;
    pace.succeeded(600_000, 600_500);
    expect(pace.intervalMs).toBe(before);
  });

  test("keeps what it was told at first, until it has asked for a while itself", () => {
    const pace = new SourcePace();
    pace.adopt({ intervalMs: 400, restsUntil: Number.NEGATIVE_INFINITY, workers: 2 });
    pace.succeeded(1_000, 1_010);
    expect(pace.intervalMs).toBe(400);
    pace.succeeded(2_900, 2_910);
    expect(pace.intervalMs).toBe(400);
    pace.succeeded(3_000, 3_010);
    expect(pace.intervalMs).toBeCloseTo(360, 0);
  });
});
