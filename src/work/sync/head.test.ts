import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  seeHead,
  SOURCE,
  strip,
  SYNC,
  syncSpec,
  syncWorld,
} from "../../../test/properties/sync-world.ts";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import type { SyncSourceRow } from "./rows.ts";
import { addSync, setHead } from "./commands.ts";
import { msBetween } from "../../kernel/instant.ts";
import {
  anchorsFor,
  headMemoryOf,
  headProbeId,
  nextHeadAt,
  recordHead,
  sourceOfProbe,
} from "./head.ts";

function source(world: LedgerWorld): SyncSourceRow | null {
  return world.read((rows) => rows.syncSources.get(SYNC, SOURCE));
}

const anchor = (block: number, hash = `hash ${block}`) => ({ safe: { block, hash } });

describe("recordHead", () => {
  test("records a head that moved on, and nothing when it stands still, goes back or is not seen", () => {
    const world = syncWorld();
    expect(seeHead(world, 10, anchor(8))).toBe("recorded");
    expect(seeHead(world, 10, anchor(8))).toBe("unchanged");
    expect(seeHead(world, 7)).toBe("unchanged");
    const outcome = { type: "failed", error: { class: "timeout", message: "no" } } as const;
    expect(world.submit(recordHead({ sync: SYNC, source: SOURCE, outcome }))).toBe("unchanged");
    expect(source(world)).toMatchObject({ head: 10, moves: 1, anchors: [{ block: 8 }] });
  });

  test("records nothing of a look that was compared with what another look has changed", () => {
    const world = syncWorld();
    const look = (asOf: number, head: number, fork: { block: number | null } | null) => {
      const seen = { type: "seen", head, ...anchor(head - 2), fork } as const;
      return world.submit(recordHead({ sync: SYNC, source: SOURCE, outcome: seen, asOf }));
    };
    expect(look(0, 10, null)).toBe("recorded");
    const first = source(world)?.row_version ?? 0;
    expect(look(0, 20, null)).toBe("unchanged");
    expect(look(first, 15, { block: null })).toBe("recorded");
    expect(look(first, 16, { block: null })).toBe("unchanged");
    expect(look(source(world)?.row_version ?? 0, 16, null)).toBe("recorded");
    expect(source(world)).toMatchObject({ head: 16, moves: 2, rewrites: 1 });
  });

  test("records more that is safe under the same head, and plans nothing beyond it before", () => {
    const world = syncWorld({ finality: 6 });
    seeHead(world, 20, anchor(14));
    world.publish(syncSpec({ finality: 2 }));
    expect(onlySync(world)).toMatchObject({ planned_to: 14 });
    expect(seeHead(world, 20, anchor(18))).toBe("recorded");
    expect(seeHead(world, 20, anchor(18))).toBe("unchanged");
    expect(onlySync(world)).toMatchObject({ planned_to: 18 });
  });

  test("I48: has nothing fetched that no known hash is above, and takes the first under the same head", () => {
    const world = syncWorld({ finality: 12 });
    seeHead(world, 4);
    expect(source(world)).toMatchObject({ head: 4, anchors: [] });
    world.publish(syncSpec({ finality: 0 }));
    world.settle();
    expect(claimSegments(world)).toEqual([]);
    expect(seeHead(world, 4)).toBe("recorded");
    expect(claimSegments(world).map(({ segment }) => segment.anchor)).toEqual([
      { block: 4, hash: "hash 4" },
    ]);
  });

  test("keeps anchors that lie the closer the newer they are, and the first of all", () => {
    const world = syncWorld({ targets: [] });
    for (let head = 1; head <= 2_000; head++) seeHead(world, head, anchor(head));

    const blocks = source(world)?.anchors.map(({ block }) => block) ?? [];
    expect(blocks).toHaveLength(128);
    expect(blocks[0]).toBe(1);
    expect(blocks.slice(-60)).toEqual(Array.from({ length: 60 }, (_, index) => 1_941 + index));
    for (const [index, block] of blocks.entries()) {
      // However deep a fork is, not much more than what lies above it has to be fetched again.
      const above = blocks[index + 1] ?? block + 1;
      expect(above - block).toBeLessThanOrEqual(Math.max(1, (2_000 - block) / 4));
    }
  });

  test("I50: acts on a fork once, in every sync that has blocks above it", () => {
    const world = syncWorld({}, 29);
    const short = { name: SYNC, target: { wallet: "short" }, to_block: 9 };
    world.submit(addSync(short));
    world.settle();
    seeHead(world, 31, anchor(31));
    fetchAll(world);
    const forked = { fork: { block: 19 }, safe: null };
    expect(seeHead(world, 31, forked)).toBe("recorded");
    expect(seeHead(world, 31, forked)).toBe("unchanged");

    const [long, other] = world.syncs();
    expect(long).toMatchObject({ state: "RUNNING", synced_to: 19, rewrites_seen: 1 });
    expect(other).toMatchObject({ state: "COMPLETE", synced_to: 9, rewrites_seen: 1 });
    expect(source(world)).toMatchObject({ rewrites: 1, anchors: [] });
  });

  test("I50: sees a second rewrite, though the head has not moved since the first", () => {
    const world = syncWorld();
    seeHead(world, 19, anchor(19));
    seeHead(world, 29, anchor(29));
    fetchAll(world);
    seeHead(world, 29, { fork: { block: 19 }, ...anchor(29, "second") });
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 29 });
    expect(source(world)?.anchors.at(-1)).toEqual({ block: 29, hash: "second" });

    expect(seeHead(world, 29, { fork: { block: 19 }, ...anchor(29, "third") })).toBe("recorded");
    expect(onlySync(world)).toMatchObject({ state: "RUNNING", synced_to: 19, rewrites_seen: 2 });
  });

  test("I50: voids everything when no hash is known to hold", () => {
    const world = syncWorld({ from: 5 });
    seeHead(world, 29, anchor(29));
    fetchAll(world);
    seeHead(world, 20, { fork: { block: null } });

    expect(onlySync(world)).toMatchObject({ synced_to: 4, segments_complete: 0 });
    // The head is lower now: what lies above it waits until it is there again.
    fetchAll(world);
    expect(strip(world).at(-1)).toMatch(/PENDING$/);
    seeHead(world, 29);
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 29 });
  });

  test("I50: takes back runs of what lies beyond the head now, which nobody has begun with", () => {
    const world = syncWorld({ max_parallel: 4 });
    seeHead(world, 29, anchor(29));
    seeHead(world, 15, { fork: { block: 9 } });

    expect(claimSegments(world).map(({ segment }) => segment.from_block)).toEqual([0]);
    seeHead(world, 29);
    expect(claimSegments(world).map(({ segment }) => segment.from_block)).toEqual([10, 20]);
  });

  test("I50: opens any number of segments again, page by page, each of them once", () => {
    const world = syncWorld({ segments: { max: 900, min_size: 1 }, max_parallel: 1_000 });
    seeHead(world, 899, anchor(899));
    const held = claimSegments(world, 300);
    expect(held).toHaveLength(300);
    const before = world.pos;
    seeHead(world, 899, { fork: { block: 9 } });

    const reopened = world.events.slice(before).flatMap((event) => {
      return event.type === "SyncSegmentsReopened" ? [event.data] : [];
    });
    expect(reopened.map(({ rewrites_seen }) => rewrites_seen)).toEqual([null, 1]);
    expect(onlySync(world)).toMatchObject({ rewrites_seen: 1, segments_running: 10 });
    const opened = reopened.flatMap(({ segments }) => segments);
    expect(new Set(opened.map(({ segment_index }) => segment_index)).size).toBe(opened.length);
    expect(opened).toHaveLength(290);
  });
});

describe("a head that the source cannot have", () => {
  const IMPOSSIBLE = Number.MAX_SAFE_INTEGER - 1;

  test("I84: is refused and plans nothing, the first time and later", () => {
    const world = syncWorld();
    expect(() => seeHead(world, IMPOSSIBLE)).toThrow("more than 100000 new blocks in a second");
    expect(source(world)).toBeNull();
    seeHead(world, 99);
    world.pass(5_000);
    expect(() => seeHead(world, 99 + 600_000)).toThrow('The source "chain" of logs says');
    expect(() => seeHead(world, IMPOSSIBLE, { fork: { block: null } })).toThrow("not believed");
    expect(source(world)).toMatchObject({ head: 99, rewrites: 0 });
    expect(onlySync(world)).toMatchObject({ planned_to: 99 });
    expect(seeHead(world, 99 + 400_000)).toBe("recorded");
  });

  test("I84: is measured by what the definition says, and by the time since it was last seen", () => {
    const world = syncWorld({ head_rate_max: 1 }, 0);
    world.pass(1_000_000);
    expect(() => seeHead(world, 11_001)).toThrow("more than 1 new blocks in a second");
    expect(seeHead(world, 11_000)).toBe("recorded");
  });
});

describe("setHead", () => {
  const set = (world: LedgerWorld, head: number) => {
    world.submit(setHead({ sync: onlySync(world).sync_id, head, reason: "the node was wrong" }));
    world.settle();
  };

  test("I84: has a head believed that is not by itself", () => {
    const world = syncWorld({ has: { head: true, hash: false, verify: false } });
    set(world, 10_000_000_000_000);
    expect(source(world)).toMatchObject({ head: 10_000_000_000_000, rewrites: 0 });
    expect(onlySync(world)).toMatchObject({ planned_to: 10_000_000_000_000 });
  });

  test("I84: takes what was planned beyond it out of the plan, and plans what is there anew", () => {
    const world = syncWorld({ has: { head: true, hash: false, verify: false } });
    set(world, 10_000_000_000_000);
    set(world, 39);
    expect(strip(world)).toEqual([
      "0-9 PENDING",
      "10-19 PENDING",
      "20-29 PENDING",
      "30-39 PENDING",
    ]);
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 39 });
    expect(seeHead(world, 41)).toBe("recorded");
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 41 });
  });

  test("I84, I51: stops whoever works on what goes before it goes", () => {
    const world = syncWorld({ max_parallel: 5 }, 39);
    const held = claimSegments(world);
    expect(held).toHaveLength(4);
    set(world, 14);
    // Nothing goes while somebody may still store it, and nothing else is begun.
    expect(strip(world)).toHaveLength(4);
    expect(claimSegments(world)).toEqual([]);
    for (const one of held) endAttempt(world, one, { outcome: "CANCELLED" });
    expect(strip(world)).toEqual(["0-9 PENDING", "10-14 PENDING"]);
    // All hashes that were known were above: nothing is fetched before the next look knows one.
    expect(claimSegments(world)).toEqual([]);
    seeHead(world, 14);
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 14, planned_to: 14 });
    seeHead(world, 25);
    const again = claimSegments(world).map(({ segment }) => segment);
    expect(again[0]).toMatchObject({ from_block: 15 });
    expect(again.every(({ undo }) => undo)).toBe(true);
  });

  test("is refused for a range that has no head", () => {
    const world = syncWorld({ to: 29, has: { head: false, hash: false, verify: false } });
    expect(() => set(world, 5)).toThrow("has no head: its range is fixed");
  });
});

describe("a head's probe", () => {
  const NOW = "2026-03-10T00:00:00.000Z";
  const known = (block: number) => ({ block, hash: `h${block}` });
  const many = (count: number) => Array.from({ length: count }, (_, block) => known(block));

  test("names its sync and its source, whatever is in them", () => {
    const probe_id = headProbeId({ sync: "eth.transfers", source: "main:net:1" });
    const subject = "eth.transfers";
    expect(sourceOfProbe({ probe_id, subject })).toEqual({ sync: subject, source: "main:net:1" });
  });

  test("remembers nothing that it did not write", () => {
    const nothing = { looked_at: null, failures: 0, error: null };
    for (const value of [null, "text", { failures: -1 }]) {
      expect(headMemoryOf(value)).toEqual(nothing);
    }
  });

  test("waits twice as long after each failure, up to a minute", () => {
    const waits = [0, 1, 2, 3, 4, 5, 90].map((n) => msBetween(NOW, nextHeadAt(NOW, 5_000, n)));
    expect(waits).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
    expect(msBetween(NOW, nextHeadAt(NOW, 90_000, 3))).toBe(90_000);
  });

  test("is given the newest hashes first, and the oldest of all last", () => {
    expect(anchorsFor([])).toEqual([]);
    expect(anchorsFor(many(3))).toEqual([known(2), known(1), known(0)]);
    const given = anchorsFor(many(100));
    expect(given).toHaveLength(33);
    expect([given[0], given[31], given[32]]).toEqual([known(99), known(68), known(0)]);
  });
});
