import { describe, expect, test } from "vitest";
import { type Variant, combined, VARIANTS } from "../broken-shards.ts";
import { explore, MODEL_LIMITS } from "./explore.ts";
import { add, insert, remove, takenBack, worldOf } from "./model-scenarios.ts";
import type { World } from "./model-world.ts";

// Goal: nothing is lost or doubled, whatever meets. Method: the shipped steps run against a model of
// two shards in every order in which their calls can meet writers, kills, frozen coordinators,
// fences that run out and answers that are lost; every moment is checked.

const THERE = ["arm", "copy", "tail", "cutover"] as const;
const BACK = [...THERE, "reverse", "cutback", "discard"] as const;

/** Explores a world that is sound, and says how much of it there was. */
async function isSound(world: World): Promise<void> {
  const { broken, ends } = await explore(world, null, MODEL_LIMITS);
  expect(broken).toBeNull();
  expect(ends).toBeGreaterThan(0);
}

/** What the exploration of a broken world finds first. */
async function found(world: World, variant: Variant): Promise<string> {
  return (await explore(world, variant, MODEL_LIMITS)).broken?.what ?? "nothing";
}

describe("every interleaving of a split", () => {
  test("I53, I54, I55: with updates of two rows", () =>
    isSound(worldOf({ keys: ["a", "b"], writers: [[add("a"), add("b")]], steps: THERE })));

  test("I54: with a transaction over two rows", () =>
    isSound(worldOf({ keys: ["a", "b"], writers: [[add("b", "a")]], steps: THERE })));

  test("I54: with an insert and a deletion", () =>
    isSound(worldOf({ keys: ["b"], writers: [[insert("a"), remove("b")]], steps: THERE })));

  test("I54: with two writers of one row, one of which takes its change back", () =>
    isSound(worldOf({ keys: ["a"], writers: [[add("a")], [takenBack("a")]], steps: THERE })));

  test("I54: with a writer of another tenant", () =>
    isSound(
      worldOf({ keys: ["a"], writers: [[add("a")]], others: [[insert("x")]], steps: THERE }),
    ));

  test("I55: with fences that run out or cannot be had", () =>
    isSound(
      worldOf({
        keys: ["a"],
        writers: [[add("a")]],
        steps: THERE,
        left: { expiries: 1, timeouts: 1, kills: 1 },
      }),
    ));

  test("I55, I57: with a commit record whose answer is lost, and a kill", () =>
    isSound(
      worldOf({ keys: ["a"], writers: [[add("a")]], steps: THERE, left: { losses: 1, kills: 1 } }),
    ));

  test("I57: with a kill at any call", () =>
    isSound(
      worldOf({ keys: ["a", "b"], writers: [[add("a")]], steps: THERE, left: { kills: 1 } }),
    ));

  test("I57: with two kills at any calls", () =>
    isSound(worldOf({ keys: ["a"], writers: [[add("a")]], steps: THERE, left: { kills: 2 } })));

  test("I56, I57: there and back, with a kill at any call", () =>
    isSound(worldOf({ keys: ["a"], writers: [[add("a")]], steps: BACK, left: { kills: 1 } })));

  test("I56: there and back, with updates all the way", () =>
    isSound(worldOf({ keys: ["a"], writers: [[add("a"), add("a")]], steps: BACK })));

  test("I56, I57: rolled back before the cutover and begun again, with a kill at any call", () =>
    isSound(
      worldOf({
        keys: ["a"],
        writers: [[add("a")]],
        steps: ["arm", "copy", "discard", ...THERE],
        left: { kills: 1 },
      }),
    ));

  test("I57: finished and removed, with a kill at any call", () =>
    isSound(
      worldOf({
        keys: ["a"],
        writers: [[add("a")]],
        steps: [...THERE, "reverse", "finish", "remove"],
        left: { kills: 1 },
      }),
    ));
});

describe("every interleaving with a frozen coordinator", () => {
  test("I57: refuses what it does when it thaws", () =>
    isSound(worldOf({ keys: ["a"], writers: [[add("a")]], steps: THERE, left: { freezes: 1 } })));
});

describe("a broken split", () => {
  const { NO_VERIFICATION } = VARIANTS;
  const updates = (): World => worldOf({ keys: ["a", "b"], writers: [[add("a")]], steps: THERE });

  test.each([VARIANTS.SKIPS_FAST_FORWARD, VARIANTS.TWO_SNAPSHOTS])(
    "is found out: $name",
    async (variant) => {
      expect(await found(updates(), variant)).toContain("VERIFICATION_FAILED");
      expect(await found(updates(), combined(variant, NO_VERIFICATION))).toContain("I55");
    },
  );

  test("is found out: changes by id, where a later id is seen first", async () => {
    const late = (): World =>
      worldOf({ keys: ["a", "b"], writers: [[add("a")], [add("b")]], steps: THERE });
    const variant = VARIANTS.ID_AFTER_LAST;
    expect(await found(late(), variant)).toContain("VERIFICATION_FAILED");
    expect(await found(late(), combined(variant, NO_VERIFICATION))).toContain("I55");
    // One writer after the other commits in the order of its ids, and nothing is wrong.
    expect(await found(updates(), variant)).toBe("nothing");
  });

  test("is found out: writes are stopped only after the last drain", async () => {
    expect(await found(updates(), VARIANTS.NO_WAITING)).toContain("I55 the shards differ");
  });

  test("is found out: changes of other tenants are not passed", async () => {
    const others = worldOf({
      keys: ["a"],
      writers: [],
      others: [[insert("x"), insert("y"), insert("z")]],
      steps: THERE,
    });
    expect(await found(others, VARIANTS.STUCK_CURSOR)).toContain("goes on for ever");
  });

  test("is found out: the commit record is made without holding the fences", async () => {
    expect(await found(updates(), VARIANTS.NO_HOLD)).toContain("I55 the fence is not held");
  });

  test("is found out: the target opens before the source has moved", async () => {
    expect(await found(updates(), VARIANTS.OPENS_FIRST)).toContain("I53 both shards serve");
  });

  test("is found out: a stale coordinator is not refused", async () => {
    const left = { freezes: 1 };
    const world = worldOf({ keys: ["a"], writers: [[add("a")]], steps: THERE, left });
    expect(await found(world, VARIANTS.NOT_FENCED)).toMatch(/^I5[3-7]/);
  });
});
