import { describe, expect, test } from "vitest";
import { openProgress, progressLine, type ProgressState } from "./progress.ts";
import type { Terminal } from "./terminal.ts";

function state(fields: Partial<ProgressState> = {}): ProgressState {
  return { total: 365, done: 0, failed: 0, ratePerSecond: null, etaMs: null, note: "", ...fields };
}

describe("progressLine", () => {
  test("says what is known and leaves out the rest", () => {
    expect(progressLine(state({ done: 120 }), "partitions")).toBe("120/365 partitions (32%)");
    expect(
      progressLine(
        state({ done: 120, failed: 2, ratePerSecond: 14, etaMs: 18_000, note: "paused" }),
        "partitions",
      ),
    ).toBe("120/365 partitions (32%), 2 failed, 14.0/s, 18s left, paused");
  });
});

describe("openProgress", () => {
  function written(json: boolean): string[] {
    const texts: string[] = [];
    let now = 0;
    const stream = { write: (text: string) => texts.push(text) };
    const terminal: Terminal = {
      stdout: stream,
      stderr: stream,
      json,
      colours: false,
      now: () => now,
    };
    const progress = openProgress(terminal, "partitions");
    for (const [at, done] of [
      [0, 0],
      [1_999, 5],
      [2_000, 6],
      [3_000, 7],
      [4_100, 6],
      [6_200, 9],
    ] as const) {
      now = at;
      progress.update(state({ done }));
    }
    progress.close();
    return texts;
  }

  test("writes a line every two seconds, and only when something has moved", () => {
    expect(written(false)).toEqual(["6/365 partitions (1%)\n", "9/365 partitions (2%)\n"]);
  });

  test("writes nothing where machines read", () => {
    expect(written(true)).toEqual([]);
  });
});
