import { expect, test } from "vitest";
import { ReadTurns } from "./read-turns.ts";

/** Asks for turns, and tells who has begun and how to end the oldest that has. */
function world(turns: number, each: number) {
  const readTurns = new ReadTurns(turns, each);
  const began: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (asker: string): Promise<void> =>
    readTurns.run(asker, () => {
      began.push(asker);
      return new Promise((resolve) => ends.push(resolve));
    });
  return { readTurns, began, ask, end: () => ends.shift()?.() };
}

test("I109: one asker has not all turns, and those who wait go round", async () => {
  const { began, ask, end } = world(3, 2);
  const asked = ["a", "a", "a", "a", "b", "b", "c"].map(ask);
  await expect.poll(() => began).toEqual(["a", "a", "b"]);
  for (const text of ["aabc", "aabca", "aabcab", "aabcaba"]) {
    end();
    await expect.poll(() => began.join("")).toBe(text);
  }
  for (let left = 0; left < 3; left++) end();
  await Promise.all(asked);
});

test("ends when nobody has or wants a turn", async () => {
  const { readTurns, began, ask, end } = world(1, 1);
  await readTurns.ended();
  const asked = [ask("a"), ask("b")];
  await expect.poll(() => began).toEqual(["a"]);
  let hasEnded = false;
  const ended = readTurns.ended().then(() => (hasEnded = true));
  end();
  await asked[0];
  await expect.poll(() => began).toEqual(["a", "b"]);
  expect(hasEnded).toBe(false);
  end();
  await Promise.all([...asked, ended]);
});

test("I109: between two turns the process hears what came in", async () => {
  const readTurns = new ReadTurns(1, 1);
  let heard = false;
  const first = readTurns.run("a", async () => undefined);
  const second = readTurns.run("a", async () => heard);
  setImmediate(() => (heard = true));
  await first;
  expect(await second).toBe(true);
});
