import { Console } from "node:console";
import { PassThrough } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { asOwnerOfLines, captureConsole, type LineKeeper } from "./console-lines.ts";

/** A console of one's own, what it shows, and tasks that keep what they write on it. */
function openConsole() {
  const output = new PassThrough();
  const own = new Console(output, output);
  captureConsole(own);
  const kept: [task: string, message: string, level: string][] = [];
  const task = (name: string): LineKeeper => ({
    log: (message, { level = "info" }) => void kept.push([name, message, level]),
  });
  return { own, task, kept, shown: () => String(output.read() ?? "") };
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
