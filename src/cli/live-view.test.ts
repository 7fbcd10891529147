import { describe, expect, test } from "vitest";
import { openLiveView } from "./live-view.ts";
import { drawable, type Terminal } from "./terminal.ts";

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
