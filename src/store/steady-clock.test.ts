import { describe, expect, test } from "vitest";
import { SteadyClock } from "./steady-clock.ts";

describe("SteadyClock", () => {
  test("is its clock, as long as that goes on", () => {
    let elapsedMs = 0;
    const steady = new SteadyClock(() => elapsedMs);
    expect(steady.at(1_000)).toBe(1_000);
    elapsedMs = 500;
    expect(steady.at(1_500)).toBe(1_500);
    elapsedMs = 600;
    expect(steady.at(90_000)).toBe(90_000);
    expect(steady.aheadMs(90_000)).toBe(0);
  });

  test("I18: goes on, a little slower, when the clock is set back, until that has caught up", () => {
    let elapsedMs = 0;
    let clockMs = 3_600_000;
    const pass = (ms: number): void => {
      elapsedMs += ms;
      clockMs += ms;
    };
    const steady = new SteadyClock(() => elapsedMs);
    expect(steady.at(clockMs)).toBe(3_600_000);
    clockMs = 0;
    expect(steady.at(clockMs)).toBe(3_600_000);
    pass(10_000);
    expect(steady.at(clockMs)).toBe(3_609_000);
    expect(steady.aheadMs(clockMs)).toBe(3_599_000);
    for (let hour = 0; hour < 10; hour++) pass(3_600_000);
    expect(steady.at(clockMs)).toBe(clockMs);
  });

  test("takes an answer that came late for no clock that was set back", () => {
    let elapsedMs = 0;
    const steady = new SteadyClock(() => elapsedMs);
    steady.at(1_000);
    elapsedMs = 300;
    // Asked at 100 and answered at once, but it was on its way until 300.
    expect(steady.at(1_100, 100)).toBe(1_100);
    expect(steady.aheadMs(1_300)).toBe(0);
  });

  test("I18: goes on where every answer is late, and the clock was set back", () => {
    let elapsedMs = 0;
    const steady = new SteadyClock(() => elapsedMs);
    steady.at(1_000_000);
    for (let turn = 0; turn < 100; turn++) {
      elapsedMs += 10;
      steady.at(0, elapsedMs - 50);
    }
    expect(steady.at(0)).toBe(1_000_900);
  });

  test("loses nothing by being asked often", () => {
    let elapsedMs = 0;
    const steady = new SteadyClock(() => elapsedMs);
    steady.at(1_000_000);
    for (let turn = 0; turn < 10_000; turn++) {
      elapsedMs += 0.5;
      steady.at(0);
    }
    expect(steady.at(0)).toBeGreaterThanOrEqual(1_004_499);
  });

  test("I18: goes on under who tells it every millisecond what has been seen", () => {
    let elapsedMs = 0;
    const steady = new SteadyClock(() => elapsedMs);
    let seenMs = steady.at(1_000_000);
    for (let turn = 0; turn < 1_000; turn++) {
      elapsedMs += 1;
      steady.atLeast(seenMs);
      seenMs = steady.at(0);
    }
    expect(seenMs).toBe(1_000_900);
  });

  test("is never before what somebody has seen", () => {
    const steady = new SteadyClock(() => 0);
    steady.atLeast(5_000);
    expect(steady.at(1_000)).toBe(5_000);
    steady.atLeast(4_000);
    expect(steady.at(1_000)).toBe(5_000);
    expect(steady.at(6_000)).toBe(6_000);
  });
});
