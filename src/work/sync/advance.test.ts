import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  seeHead,
  segmentsOf,
  strip,
  syncSpec,
  syncWorld,
} from "../../../test/properties/sync-world.ts";
import { pauseSync, resumeSync } from "./commands.ts";
import fc from "fast-check";
import { planSegments, tilingFault } from "./advance.ts";

const FIXED = { to: 99, has: { head: false, hash: false, verify: true } };

describe("advanceSync", () => {
  test("I47: plans the whole history at once, in equal pieces that tile it", () => {
    const world = syncWorld({ finality: 5 }, 108);

    expect(onlySync(world)).toMatchObject({
      state: "RUNNING",
      planned_to: 103,
      segments_total: 10,
    });
    expect(segmentsOf(world).map(({ from_block, to_block }) => [from_block, to_block])).toEqual([
      [0, 10],
      [11, 21],
      [22, 32],
      [33, 43],
      [44, 53],
      [54, 63],
      [64, 73],
      [74, 83],
      [84, 93],
      [94, 103],
    ]);
  });

  test("plans nothing before the head is known and far enough", () => {
    const world = syncWorld({ from: 50, finality: 10 });
    expect(onlySync(world).state).toBe("PENDING");

    seeHead(world, 59);
    expect(onlySync(world).state).toBe("PENDING");

    seeHead(world, 60);
    expect(strip(world)).toEqual(["50-50 PENDING"]);
  });

  test("plans a fixed range without a head, and is complete at its end", () => {
    const world = syncWorld(FIXED);
    expect(onlySync(world).planned_to).toBe(99);

    fetchAll(world);

    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 99 });
  });

  test("follows the head that a complete range gets, although nobody has looked it up", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);

    world.publish(syncSpec({ to: null }));
    world.settle();
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", planned_to: 99 });

    world.publish(syncSpec({ to: 99 }));
    world.settle();
    expect(onlySync(world).state).toBe("FOLLOWING");
    seeHead(world, 120);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", planned_to: 99 });
  });

  test("cuts what a source gains at once into no more pieces than a history", () => {
    const world = syncWorld({ segments: { max: 10, min_size: 1 } }, 9);
    world.pass(60_000);
    seeHead(world, 1_000_009);
    const [first, ...others] = segmentsOf(world).filter(({ from_block }) => from_block > 9);
    expect(first).toMatchObject({ kind: "history", from_block: 10, to_block: 100_009 });
    expect(others).toHaveLength(9);
    expect(onlySync(world).planned_to).toBe(1_000_009);
  });

  test("asks for as many runs as may be at once, in the order that is wished", () => {
    const oldest = syncWorld(FIXED);
    expect(claimSegments(oldest).map(({ segment }) => segment.from_block)).toEqual([0, 10]);

    const newest = syncWorld({ ...FIXED, order: "newest_first" });
    expect(claimSegments(newest).map(({ segment }) => segment.from_block)).toEqual([90, 80]);
  });

  test("follows the head with pieces of tail, which swallow each other", () => {
    const world = syncWorld({ segments: { max: 2, min_size: 10 } }, 99);
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 99 });

    for (const head of [103, 104, 150]) {
      seeHead(world, head);
      expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", planned_to: head });
      fetchAll(world);
      expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: head });
    }

    expect(strip(world)).toEqual(["0-49 COMPLETE", "50-99 COMPLETE", "100-150 COMPLETE"]);
  });

  test("serves the tail before the history that still runs", () => {
    const world = syncWorld({ max_parallel: 1 }, 99);
    const [first] = claimSegments(world);
    seeHead(world, 101);
    if (first !== undefined) endAttempt(world, first);

    expect(claimSegments(world).map(({ segment }) => segment)).toMatchObject([
      { from_block: 100, to_block: 101, is_live: true },
    ]);
    expect(world.runs().at(-1)?.class).toBe(2);
  });

  test("leaves a slot to the head, however long the history takes", () => {
    const world = syncWorld({ max_parallel: 3 }, 99);
    const froms = () => claimSegments(world).map(({ segment }) => segment.from_block);
    expect(froms()).toEqual([0, 10]);

    seeHead(world, 101);
    expect(froms()).toEqual([100]);
    seeHead(world, 102);
    expect(froms()).toEqual([]);
    expect(onlySync(world)).toMatchObject({ segments_running: 3, segments_queued: 0 });
  });

  test("appends a long way as history, and is running again until that is there", () => {
    const world = syncWorld({}, 99);
    fetchAll(world);
    seeHead(world, 124);

    expect(onlySync(world)).toMatchObject({ state: "RUNNING", segments_total: 13 });
    expect(strip(world).slice(10)).toEqual([
      "100-108 PENDING",
      "109-116 PENDING",
      "117-124 PENDING",
    ]);
  });

  test("adds no more tails while four of them wait", () => {
    const world = syncWorld({}, 99);
    for (let head = 100; head < 110; head++) seeHead(world, head);

    expect(onlySync(world).planned_to).toBe(103);
  });

  test("goes on when the end of a fixed range is raised", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    world.publish(syncSpec({ ...FIXED, to: 104 }));
    world.settle();
    expect(onlySync(world)).toMatchObject({ state: "RUNNING", planned_to: 104 });

    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 104 });
  });

  test("runs an unsplittable sync in one piece, and appends only when nothing is open", () => {
    const world = syncWorld({ splittable: false, max_parallel: 5 }, 99);
    seeHead(world, 120);
    expect(strip(world)).toEqual(["0-99 PENDING"]);

    fetchAll(world);
    expect(strip(world)).toEqual(["0-99 COMPLETE", "100-120 COMPLETE"]);
  });

  test("I50: opens again only what lies above the fork, and says what is void", () => {
    const world = syncWorld({}, 99);
    seeHead(world, 100, { safe: { block: 100, hash: "x" } });
    fetchAll(world);
    seeHead(world, 101, { fork: { block: 84 } });

    const sync = onlySync(world);
    expect(sync).toMatchObject({ state: "RUNNING", synced_to: 84, rewrites_seen: 1 });
    expect(strip(world).slice(8)).toEqual([
      "80-84 COMPLETE",
      "85-89 PENDING",
      "90-99 PENDING",
      "100-100 PENDING",
      "101-101 PENDING",
    ]);
    const held = claimSegments(world);
    expect(held.every(({ segment }) => segment.undo === segment.from_block < 101)).toBe(true);
    for (const one of held) endAttempt(world, one);
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 101 });
  });

  test("I51: begins anew with what a rewrite met running only after the old run has ended", () => {
    const world = syncWorld({ max_parallel: 1 });
    seeHead(world, 99, { safe: { block: 99, hash: "x" } });
    const [old] = claimSegments(world);
    seeHead(world, 99, { fork: { block: 4 } });
    expect(claimSegments(world)).toEqual([]);

    if (old !== undefined) endAttempt(world, old, { outcome: "CANCELLED" });

    const [again] = claimSegments(world);
    expect(again?.segment.from_block).toBe(old?.segment.from_block);
    expect(again?.segment).toMatchObject({ generation: 1, undo: true });
  });

  test("keeps a sync paused that its source rewrites, and opens its segments all the same", () => {
    const world = syncWorld({}, 99);
    seeHead(world, 100, { safe: { block: 100, hash: "x" } });
    fetchAll(world);
    const { sync_id } = onlySync(world);
    world.submit(pauseSync({ sync: sync_id }));
    seeHead(world, 101, { fork: { block: 94 } });
    expect(onlySync(world)).toMatchObject({ state: "PAUSED", synced_to: 94 });
    expect(claimSegments(world)).toEqual([]);

    world.submit(resumeSync({ sync: sync_id }));
    world.settle();
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 101 });
  });

  test("I47: pauses, with the fault in words, what is whole by its counters but not by its rows", () => {
    const world = syncWorld({ ...FIXED, max_parallel: 1 });
    const { sync_id } = onlySync(world);
    for (let left = 9; left > 0; left--) {
      for (const one of claimSegments(world)) endAttempt(world, one);
    }
    world.read((rows) => {
      const segment = rows.segments.get(sync_id, 3);
      if (segment !== null) rows.segments.put({ ...segment, from_block: 31 });
    });
    fetchAll(world);

    expect(onlySync(world)).toMatchObject({
      state: "PAUSED",
      reason:
        "its segments do not tile 0 to 99: segment 3 (31 to 39) leaves a gap: 30 to 30 is nobody's",
    });
  });
});

describe("planSegments", () => {
  test("spreads what does not divide over the first segments", () => {
    expect(planSegments(100, 110, { max: 4, min_size: 1 })).toEqual([102, 105, 108, 110]);
  });

  test("makes fewer segments rather than smaller ones than are worth it", () => {
    expect(planSegments(0, 2_499, { max: 365, min_size: 1_000 })).toEqual([1_249, 2_499]);
    expect(planSegments(7, 9, { max: 365, min_size: 1_000 })).toEqual([9]);
  });

  test("I47: tiles any range, with sizes that differ by one block at most", () => {
    const numbers = fc.tuple(
      fc.nat(1_000_000),
      fc.nat(1_000_000),
      fc.integer({ min: 1, max: 400 }),
      fc.integer({ min: 1, max: 5_000 }),
    );
    fc.assert(
      fc.property(numbers, ([from, more, max, min_size]) => {
        const ends = planSegments(from, from + more, { max, min_size });
        const segments = ends.map((to_block, index) => ({
          segment_index: index,
          from_block: index === 0 ? from : (ends[index - 1] ?? 0) + 1,
          to_block,
        }));
        expect(tilingFault(segments, from, from + more)).toBeNull();
        const sizes = segments.map(({ from_block, to_block }) => to_block - from_block + 1);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        expect(ends.length).toBeLessThanOrEqual(max);
        if (ends.length > 1) expect(Math.min(...sizes)).toBeGreaterThanOrEqual(min_size);
      }),
    );
  });
});

function tiles(...bounds: readonly [from: number, to: number][]) {
  return bounds.map(([from_block, to_block], segment_index) => ({
    segment_index,
    from_block,
    to_block,
  }));
}

describe("tilingFault", () => {
  test("finds nothing wrong with what tiles the range", () => {
    expect(tilingFault(tiles([5, 5], [6, 9], [10, 20]), 5, 20)).toBeNull();
    expect(tilingFault([], 5, null)).toBeNull();
  });

  test("I47: names the segment where blocks are missing or had twice", () => {
    expect(tilingFault(tiles([0, 4], [6, 9]), 0, 9)).toBe(
      "segment 1 (6 to 9) leaves a gap: 5 to 5 is nobody's",
    );
    expect(tilingFault(tiles([0, 4], [4, 9]), 0, 9)).toBe(
      "segment 1 (4 to 9) begins before 5, where its neighbour ends",
    );
    expect(tilingFault(tiles([0, -1], [0, 9]), 0, 9)).toBe(
      "segment 0 (0 to -1) ends before it begins",
    );
  });

  test("I47: looks at both ends of the range", () => {
    expect(tilingFault(tiles([1, 9]), 0, 9)).toContain("0 to 0 is nobody's");
    expect(tilingFault(tiles([0, 8]), 0, 9)).toBe("the segments end at 8 and not at 9");
    expect(tilingFault(tiles([0, 8]), 0, null)).toBe("the segments end at 8 and not at -1");
  });
});
