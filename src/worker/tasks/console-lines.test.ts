import { Console } from "node:console";
import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  asOwnerOfLines,
  captureConsole,
  type LineKeeper,
  ownerOfLines,
  type TaskOutput,
} from "./console-lines.ts";

/** A console of one's own, what it shows, and tasks that keep what they write on it. */
function openConsole() {
  const output = new PassThrough();
  const own = new Console(output, output);
  const before = { ...own };
  const release = captureConsole(own);
  const kept: [task: string, message: string, level: string][] = [];
  const task = (name: string, wished: TaskOutput = "keep-and-show"): LineKeeper => ({
    output: wished,
    log: (message, { level = "info" }) => kept.push([name, message, level]) > 0,
  });
  return { own, before, release, task, kept, shown: () => String(output.read() ?? "") };
}

test("what tasks write on the console is kept with each of them, and shown", async () => {
  const { own, task, kept, shown } = openConsole();
  const work = async (name: string): Promise<void> => {
    own.log("%s begins", name);
    await nextTurn();
    await nextTurn().then(() => own.info("in between", { name }));
    own.log(name, "ends");
  };

  own.log("beside all tasks");
  await Promise.all([
    asOwnerOfLines(task("a"), () => work("a")),
    asOwnerOfLines(task("b"), () => work("b")),
  ]);

  for (const name of ["a", "b"]) {
    expect(kept.filter(([owner]) => owner === name)).toEqual([
      [name, `${name} begins`, "info"],
      [name, `in between { name: '${name}' }`, "info"],
      [name, `${name} ends`, "info"],
    ]);
  }
  const text = shown();
  expect(text).toContain("beside all tasks\n");
  for (const [, message] of kept) expect(text).toContain(`${message}\n`);
});

test("the method says the level, also where another one writes by it", () => {
  const { own, task, kept } = openConsole();

  asOwnerOfLines(task("a"), () => {
    own.debug("1");
    own.warn("2");
    own.error(new Error("3"));
    own.assert(false, "4");
    own.table([{ five: 5 }]);
    own.dir({ six: { more: { still: { deep: 6 } } } }, { depth: 0 });
    own.dirxml("seven", { at: 7 });
  });

  const levels = ["debug", "warn", "error", "warn", "info", "info", "info"];
  expect(kept.map(([, , level]) => level)).toEqual(levels);
  expect(kept.slice(5).map(([, message]) => message)).toEqual([
    "{ six: [Object] }",
    "seven { at: 7 }",
  ]);
  expect(kept[2]?.[1]).toMatch(/^Error: 3\n +at /);
  expect(kept[4]?.[1]).toContain("five");
});

test("what is shown of what is kept is the task's wish", () => {
  const { own, task, kept, shown } = openConsole();

  asOwnerOfLines(task("a", "keep"), () => own.log("a"));
  asOwnerOfLines(task("b", "show"), () => own.log("b"));
  asOwnerOfLines({ output: "keep", log: () => false }, () => own.log("c"));

  expect(kept).toEqual([["a", "a", "info"]]);
  expect(shown()).toBe("b\nc\n");
});

test("the console is as it was when the last that captured it has let go", () => {
  const { own, before, release, task, kept } = openConsole();
  const releaseAgain = captureConsole(own);

  releaseAgain();
  releaseAgain();
  asOwnerOfLines(task("a"), () => own.log("still kept"));
  release();
  asOwnerOfLines(task("a"), () => own.log("only shown"));

  expect(kept.map(([, message]) => message)).toEqual(["still kept"]);
  expect({ ...own }).toEqual(before);
});

test("who has put a method over a captured one keeps it, and each line is kept once", () => {
  const { own, release, task, kept, shown } = openConsole();
  const captured = own.log.bind(own);
  const over = (...said: unknown[]): void => captured("over:", ...said);
  own.log = over;

  release();
  expect(Reflect.get(own, "log")).toBe(over);
  const releaseAgain = captureConsole(own);
  asOwnerOfLines(task("a"), () => own.log("a line"));
  releaseAgain();

  expect(kept).toEqual([["a", "a line", "info"]]);
  expect(shown()).toBe("over: a line\n");
  expect(ownerOfLines()).toBeNull();
});
