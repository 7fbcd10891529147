import { describe, expect, test } from "vitest";
import { addMs, instantOf } from "../../kernel/instant.ts";
import { ALL_LENGTH_MAX, HeardNames, HELD_LENGTH_MAX } from "./heard-names.ts";

const NOW = instantOf(Date.UTC(2026, 2, 10));
const long = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`.padEnd(450, "x"));

/** How many characters of names are remembered. */
function held(heard: HeardNames): number {
  return [...heard.all().keys()].reduce((sum, name) => sum + name.length, 0);
}

describe("HeardNames", () => {
  test("remembers names for a minute after they were heard last", () => {
    const heard = new HeardNames();
    heard.hear("t", ["a", "b"], NOW);
    heard.hear("t", ["b"], addMs(NOW, 30_000));
    expect(heard.all()).toEqual(
      new Map([
        ["a", NOW],
        ["b", addMs(NOW, 30_000)],
      ]),
    );
    heard.hear("t", [], addMs(NOW, 61_000));
    expect([...heard.all().keys()]).toEqual(["b"]);
    heard.hear("u", ["c"], addMs(NOW, 200_000));
    expect([...heard.all().keys()]).toEqual(["c"]);
  });

  test("I64: keeps no more than its share of one token, and forgets none of the others for it", () => {
    const heard = new HeardNames();
    heard.hear("honest", ["sales"], NOW);
    for (let request = 0; request < 50; request++) {
      heard.hear("flood", long(10_000, `${request}-`), NOW);
    }
    expect(held(heard)).toBeLessThanOrEqual(HELD_LENGTH_MAX);
    expect(heard.all().has("sales")).toBe(true);
  });

  test("I64: keeps no more of all tokens than there is room for", () => {
    const heard = new HeardNames();
    for (let token = 0; token < 20; token++) heard.hear(`t${token}`, long(4_000, `${token}-`), NOW);
    expect(held(heard)).toBeLessThanOrEqual(ALL_LENGTH_MAX);
    expect(heard.all().size).toBeGreaterThan(10_000);
  });
});
