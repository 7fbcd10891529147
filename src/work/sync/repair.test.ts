import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  segmentsOf,
  strip,
  syncWorld,
} from "../../../test/properties/sync-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { DECISION_EVENTS_MAX } from "../decision.ts";
import { excludeSegment, repairSync, retrySegment, verifySync } from "./repair.ts";

const FIXED = { to: 29, has: { head: false, hash: false, verify: true } };
const sync = "logs@wallet=a";
const error = { class: "user", message: "poison" };

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (thrown) {
    return thrown instanceof PawlError ? thrown.code : "another error";
  }
}

/** Three segments, of which the first has a block, 4, that could not be fetched. */
function poisoned(): LedgerWorld {
  const world = syncWorld({ ...FIXED, max_parallel: 1 });
  const [first] = claimSegments(world);
  if (first !== undefined) {
    endAttempt(world, first, { segment: { quarantined: [{ block: 4, error }] } });
  }
  fetchAll(world);
  return world;
}

function poison(world: LedgerWorld): number {
  return segmentsOf(world).find(({ from_block }) => from_block === 4)?.segment_index ?? -1;
}

describe("repairSync", () => {
  test("I47: opens exactly the range again, whatever it cuts through", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    const repaired = world.submit(repairSync({ sync, from_block: 3, to_block: 12 }));
    world.settle();

    expect(repaired).toMatchObject({ state: "RUNNING", segments: 2 });
    expect(onlySync(world)).toMatchObject({ synced_to: 2, state_version: repaired.state_version });
    expect(strip(world)).toEqual([
      "0-2 COMPLETE",
      "3-9 PENDING",
      "10-12 PENDING",
      "13-19 COMPLETE",
      "20-29 COMPLETE",
    ]);
    expect(claimSegments(world).every(({ segment }) => segment.undo)).toBe(true);
  });

  test("cuts one segment into three", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    world.submit(repairSync({ sync, from_block: 14, to_block: 15 }));
    expect(strip(world).slice(1, 4)).toEqual(["10-13 COMPLETE", "14-15 PENDING", "16-19 COMPLETE"]);
    fetchAll(world);
    world.settle();
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
  });

  test("I51: opens what is being fetched as a whole, once its run has ended", () => {
    const world = syncWorld(FIXED);
    const held = claimSegments(world);
    world.submit(repairSync({ sync, from_block: 5, to_block: 5 }));
    world.settle();
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", generation: 1, undo: 1 });
    for (const one of held) endAttempt(world, one);

    expect(strip(world)).toEqual(["0-9 PENDING", "10-19 COMPLETE", "20-29 PENDING"]);
    expect(claimSegments(world)[0]?.segment).toMatchObject({ from_block: 0, generation: 1 });
  });

  test("leaves what nobody has begun with as it is", () => {
    const world = syncWorld(FIXED);
    const before = world.pos;
    expect(world.submit(repairSync({ sync, from_block: 20, to_block: 25 })).segments).toBe(0);
    expect(world.pos).toBe(before);
  });

  test("refuses a range that is not planned, or is none", () => {
    const world = syncWorld(FIXED);
    const repair = (from_block: number, to_block: number) => () =>
      world.submit(repairSync({ sync, from_block, to_block }));
    expect(codeOf(repair(30, 40))).toBe("SELECTION_EMPTY");
    expect(codeOf(repair(9, 8))).toBe("INPUT_INVALID");
    expect(codeOf(() => syncWorld().submit(repairSync({ sync, from_block: 0, to_block: 1 })))).toBe(
      "SELECTION_EMPTY",
    );
  });

  test("opens many segments with several events, and refuses to stop too many runs", () => {
    const segments = { max: 1_000, min_size: 1 };
    const world = syncWorld({ ...FIXED, to: 999, segments, max_parallel: 1_000 });
    const all = { sync, from_block: 0, to_block: 999 };
    const held = claimSegments(world, 500);
    expect(codeOf(() => world.submit(repairSync(all)))).toBe("SELECTION_TOO_LARGE");
    for (const one of held) endAttempt(world, one);

    const { events } = world.evaluate(repairSync(all));
    expect(events.length).toBeLessThanOrEqual(DECISION_EVENTS_MAX);
    expect(world.submit(repairSync(all)).segments).toBe(500);
    expect(onlySync(world)).toMatchObject({ synced_to: -1, reopenings: 3, segments_complete: 0 });
  });
});

describe("retrySegment and excludeSegment", () => {
  test("keep a sync from being complete until what was set aside is resolved", () => {
    const world = poisoned();
    expect(onlySync(world)).toMatchObject({ state: "RUNNING", synced_to: 3 });

    world.submit(retrySegment({ sync, segment_index: poison(world) }));
    world.settle();
    const [again] = claimSegments(world);
    expect(again?.segment).toMatchObject({ from_block: 4, to_block: 4, was_quarantined: true });
    if (again !== undefined) endAttempt(world, again);

    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
  });

  test("record who let a block be missing, and why", () => {
    const world = poisoned();
    const segment_index = poison(world);
    world.submit(excludeSegment({ sync, segment_index, reason: "it never existed" }));
    world.settle();

    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
    expect(segmentsOf(world)[1]?.excluded).toMatchObject({ by: "ann", reason: "it never existed" });
  });

  test("refuse any other segment", () => {
    const world = poisoned();
    expect(codeOf(() => world.submit(retrySegment({ sync, segment_index: 1 })))).toBe(
      "STATE_ILLEGAL",
    );
    expect(codeOf(() => world.submit(retrySegment({ sync, segment_index: 99 })))).toBe(
      "SEGMENT_NOT_FOUND",
    );
  });
});

describe("verifySync", () => {
  test("verifies what is complete, as many at once as are fetched at once", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    expect(world.submit(verifySync({ sync, repair: false })).segments).toBe(3);
    world.settle();
    expect(onlySync(world)).toMatchObject({ verify_waiting: 1, verify_active: 2 });
    for (const one of claimSegments(world)) endAttempt(world, one);
    for (const one of claimSegments(world)) endAttempt(world, one);

    expect(segmentsOf(world).map(({ verification }) => verification?.status)).toEqual([
      "PASSED",
      "PASSED",
      "PASSED",
    ]);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", verify_active: 0 });
  });

  test("can be asked for again, but not of what is being verified", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    world.submit(verifySync({ sync, to_block: 9, repair: false }));
    world.settle();
    expect(codeOf(() => world.submit(verifySync({ sync, to_block: 9, repair: false })))).toBe(
      "SELECTION_EMPTY",
    );
    for (const one of claimSegments(world)) endAttempt(world, one);
    expect(world.submit(verifySync({ sync, to_block: 9, repair: true })).segments).toBe(1);
    world.settle();
    expect(claimSegments(world)).toHaveLength(1);
  });

  test("refuses a sync without the function", () => {
    const world = syncWorld({ to: 29, has: { head: false, hash: false, verify: false } });
    expect(codeOf(() => world.submit(verifySync({ sync, repair: false })))).toBe("STATE_ILLEGAL");
  });
});
