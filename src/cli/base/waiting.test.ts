import { describe, expect, test } from "vitest";
import { openProgress, progressLine, type ProgressState, openLiveView } from "./waiting.ts";
import { type Terminal, drawable } from "./terminal.ts";

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
    ).toBe("120/365 partitions (32%), 2 failed, 14.0/s, ETA 18s, paused");
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

  test("I99: says at once, and once, why work does not go on", () => {
    for (const json of [false, true]) {
      const { terminal, written: texts } = terminalOf(false, json);
      const progress = openProgress(terminal, "partitions");
      const paused = state({ done: 5, note: "paused (lunch)" });
      for (const each of [state({ done: 5 }), paused, paused, state({ done: 5 }), paused]) {
        progress.update(each);
      }
      const line = json
        ? '{"warning":"paused (lunch)"}\n'
        : "5/365 partitions (1%), paused (lunch)\n";
      expect(texts).toEqual([line, line]);
    }
  });
});

function terminalOf(isTTY: boolean, json = false) {
  const written: string[] = [];
  let now = 0;
  const write = (text: string) => written.push(text);
  const terminal: Terminal = {
    stdout: { write },
    stderr: { isTTY, columns: 11, write },
    json,
    colours: false,
    now: () => now,
  };
  return { terminal, written, pass: (ms: number) => (now += ms) };
}

describe("openLiveView", () => {
  test("draws over what it drew before when that has changed, in lines that fit", () => {
    const { terminal, written } = terminalOf(true);
    const view = openLiveView(terminal);
    view.show(["one", "two"], "", "");
    view.show(["one", "two"], "", "");
    view.show(["a line that is too long"], "", "");
    view.close();
    expect(written).toEqual(["one\ntwo\n", "\u001B[2A\u001B[0Ja line th…\n", "\u001B[1A\u001B[0J"]);
  });

  test("writes a line when something else begins, and now and then, where there is no terminal", () => {
    const { terminal, written, pass } = terminalOf(false);
    const view = openLiveView(terminal);
    view.show([], "1 row", "copy");
    view.show([], "2 rows", "copy");
    view.show([], "3 rows", "tail");
    pass(2_000);
    view.show([], "3 rows", "tail");
    view.show([], "4 rows", "tail");
    expect(written).toEqual(["1 row\n", "3 rows\n", "4 rows\n"]);
  });

  test("writes lines on a terminal that cannot draw over them", () => {
    const { terminal, written } = terminalOf(true);
    const dumb = { ...terminal, stderr: drawable(terminal.stderr, { TERM: "dumb" }) };
    openLiveView(dumb).show(["one", "two"], "one line", "copy");
    expect(written).toEqual(["one line\n"]);
    expect(drawable(terminal.stderr, { TERM: "xterm" })).toBe(terminal.stderr);
  });

  test("writes nothing where machines read", () => {
    const { terminal, written } = terminalOf(false, true);
    openLiveView(terminal).show(["one"], "one", "one");
    expect(written).toEqual([]);
  });
});
