import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  onlySync,
  segmentsOf,
  syncWorld,
  fetchAll,
  type Held,
  seeHead,
  strip,
  syncSpec,
} from "../../../test/properties/sync-world.ts";
import { eventBody } from "../envelope.ts";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { cancelRun } from "../run/cancel.ts";
import { repairSync, verifySync } from "./repair.ts";

const FIXED = {
  to: 9,
  segments: { max: 1, min_size: 1 },
  has: { head: false, hash: false, verify: false },
};
const error = { class: "user", message: "no" };

describe("checkSegmentReport", () => {
  test.each([
    ["did not reach the last block", { segment: { last_processed_block: 8 } }],
    ["stored nothing", { segment: { last_processed_block: null } }],
    ["is about other blocks", { segment: { last_processed_block: 10 } }],
  ])("I48: takes a success that %s for a failure", (_, own) => {
    const world = syncWorld(FIXED);
    const [held] = claimSegments(world);
    if (held !== undefined) endAttempt(world, held, own);

    expect(onlySync(world)).toMatchObject({ state: "RUNNING", synced_to: -1, segments_failed: 1 });
    expect(segmentsOf(world)[0]).toMatchObject({ status: "FAILED", error_class: "incomplete" });
  });

  test("keeps what is said of very many blocks short enough for the events about them", () => {
    const world = syncWorld({ ...FIXED, to: 20_000 });
    const [held] = claimSegments(world);
    const quarantined = Array.from({ length: 10_000 }, (_, index) => ({
      block: 2 * index,
      error: { class: "user", message: "no".repeat(140) },
    }));
    if (held !== undefined) endAttempt(world, held, { segment: { quarantined } });

    expect(onlySync(world).segments_quarantined).toBe(10_000);
    for (const event of world.events) expect(() => eventBody(event)).not.toThrow();
  });

  test("counts no further than numbers go, whatever functions say", () => {
    const world = syncWorld({ ...FIXED, segments: { max: 2, min_size: 1 } });
    const most = Number.MAX_SAFE_INTEGER;
    const segment = { rows: most, blocks: most, work_ms: most };
    for (const held of claimSegments(world)) endAttempt(world, held, { segment });

    const counted = { rows_stored: most, work_blocks: most, work_ms: most };
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", ...counted });
  });

  test("takes a skip for a failure", () => {
    const world = syncWorld(FIXED);
    const [held] = claimSegments(world);
    if (held !== undefined) endAttempt(world, held, { outcome: "SKIPPED" });
    expect(segmentsOf(world)[0]).toMatchObject({ status: "FAILED", error_class: "incomplete" });
  });

  test("keeps how far an attempt got, whatever its end, and drops blocks that are not its own", () => {
    const world = syncWorld(FIXED);
    const [held] = claimSegments(world);
    const quarantined = [11, 2, 2].map((block) => ({ block, error }));
    const segment = { last_processed_block: 4, quarantined, rows: 7 };
    if (held !== undefined) endAttempt(world, held, { outcome: "FAILED", error, segment });

    expect(segmentsOf(world)[0]).toMatchObject({
      status: "FAILED",
      last_processed_block: 4,
      set_aside: [{ block: 2 }],
      rows_stored: 7,
      retry_count: 1,
    });
    expect(onlySync(world)).toMatchObject({ status: "FAILED", retry_count: 1, rows_stored: 7 });
  });

  test("lets a stalled attempt wait as if nothing had been tried wrongly", () => {
    const world = syncWorld(FIXED);
    const [held] = claimSegments(world);
    const stalled = { class: "stalled", message: "no progress" };
    if (held !== undefined) {
      endAttempt(world, held, {
        outcome: "FAILED",
        error: stalled,
        segment: { last_processed_block: 2 },
      });
    }
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", last_processed_block: 2 });
    world.pass(1_000);
    expect(claimSegments(world)[0]?.segment.last_processed_block).toBe(2);
  });
});

const FIXED_RANGE = { to: 29, has: { head: false, hash: false, verify: true } };
const failure = { class: "user", message: "cannot be read" };

/** Three segments of ten blocks, all of them being fetched. */
function running(own: object = {}): { world: LedgerWorld; held: Held[] } {
  const world = syncWorld({ ...FIXED_RANGE, max_parallel: 3, ...own });
  return { world, held: claimSegments(world) };
}

function heldAt(held: readonly Held[], fromBlock: number): Held {
  const one = held.find(({ segment }) => segment.from_block === fromBlock);
  if (one === undefined) throw new Error(`Nothing is held from ${fromBlock} on.`);
  return one;
}

describe("segmentEnd", () => {
  test("I48: moves the prefix only when what lies before is complete too", () => {
    const { world, held } = running();
    endAttempt(world, heldAt(held, 10));
    expect(onlySync(world).synced_to).toBe(-1);

    endAttempt(world, heldAt(held, 0));
    expect(onlySync(world).synced_to).toBe(19);
  });

  test("I47: cuts out the blocks that could not be fetched, also when they are neighbours", () => {
    const { world, held } = running();
    const quarantined = [9, 4, 5].map((block) => ({ block, error: failure }));
    endAttempt(world, heldAt(held, 0), { segment: { quarantined } });

    expect(strip(world)).toEqual([
      "0-3 COMPLETE",
      "4-4 QUARANTINED",
      "5-5 QUARANTINED",
      "6-8 COMPLETE",
      "9-9 QUARANTINED",
      "10-19 RUNNING",
      "20-29 RUNNING",
    ]);
    expect(onlySync(world)).toMatchObject({ synced_to: 3, segments_quarantined: 3 });
  });

  test("sets aside as a whole what should not be tried again", () => {
    const { world, held } = running();
    endAttempt(world, heldAt(held, 0), { outcome: "FAILED", final: true, error: failure });

    expect(segmentsOf(world)[0]).toMatchObject({
      status: "QUARANTINED",
      error_message: "cannot be read",
      was_quarantined: 1,
    });
  });

  test("keeps the number of a block that is quarantined again", () => {
    const world = syncWorld({ ...FIXED_RANGE, to: 0 });
    const [only] = claimSegments(world);
    if (only !== undefined)
      endAttempt(world, only, { segment: { quarantined: [{ block: 0, error: failure }] } });

    expect(segmentsOf(world)).toMatchObject([{ segment_index: 0, status: "QUARANTINED" }]);
  });

  test("lets a cancelled segment wait for another run, from where it got to", () => {
    const { world, held } = running();
    const first = heldAt(held, 0);
    world.submit(cancelRun({ run_id: first.run_id, reason: "too early" }));
    endAttempt(world, first, { outcome: "CANCELLED", segment: { last_processed_block: 3 } });

    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", generation: 1 });
    expect(segmentsOf(world)[0]?.reason).toBe("too early");
    const again = heldAt(claimSegments(world), 0);
    expect(again.segment).toMatchObject({ generation: 1, last_processed_block: 3, undo: false });
    expect(again.run_id).not.toBe(first.run_id);
  });

  test("tries again in a while when the source has another block in the place of its last", () => {
    const world = syncWorld();
    seeHead(world, 9, { safe: { block: 9, hash: "new" } });
    const [only] = claimSegments(world);
    if (only !== undefined) endAttempt(world, only, { segment: { end_hash: "old" } });

    expect(segmentsOf(world)[0]).toMatchObject({
      status: "FAILED",
      error_class: "rewritten",
      error_message: "block 9 has the hash new, and had old when it was fetched",
    });
    expect(claimSegments(world)).toEqual([]);
    world.pass(60_000);
    const [again] = claimSegments(world);
    if (again !== undefined) endAttempt(world, again, { segment: { end_hash: "new" } });
    expect(onlySync(world)).toMatchObject({ state: "FOLLOWING", synced_to: 9 });
  });

  test("I37: is complete where nobody looks for rewrites any more, which would end its tries", () => {
    const world = syncWorld();
    seeHead(world, 9, { safe: { block: 9, hash: "old" } });
    const [only] = claimSegments(world);
    world.publish(syncSpec({ has: { head: true, hash: false, verify: true } }));
    if (only !== undefined) endAttempt(world, only, { segment: { end_hash: "new" } });
    expect(segmentsOf(world)[0]).toMatchObject({ status: "COMPLETE", end_hash: "new" });
  });

  test("fetches again what did not pass its verification, where that was asked", () => {
    const world = syncWorld(FIXED_RANGE);
    fetchAll(world);
    const { sync_id: sync } = onlySync(world);
    world.submit(verifySync({ sync, from_block: 10, to_block: 10, repair: true }));
    world.submit(verifySync({ sync, from_block: 20, repair: false }));
    world.settle();
    const verification = { ok: false, note: "3 rows too few" };
    for (const one of claimSegments(world)) {
      expect(one.segment.purpose).toBe("verify");
      endAttempt(world, one, { segment: { verification } });
    }

    expect(strip(world)).toEqual(["0-9 COMPLETE", "10-19 PENDING", "20-29 COMPLETE"]);
    expect(segmentsOf(world)[2]?.verification).toMatchObject({ status: "FAILED" });
    expect(onlySync(world)).toMatchObject({ state: "RUNNING", synced_to: 9 });
    const [again] = claimSegments(world);
    expect(again?.segment).toMatchObject({ purpose: "fetch", undo: true, generation: 1 });
  });

  test("I51: does not mind a verification whose segment was opened again meanwhile", () => {
    const world = syncWorld(FIXED_RANGE);
    fetchAll(world);
    const { sync_id: sync } = onlySync(world);
    world.submit(verifySync({ sync, repair: true }));
    world.settle();
    const held = claimSegments(world);
    world.submit(repairSync({ sync, from_block: 5, to_block: 12 }));
    world.settle();
    for (const one of held) {
      endAttempt(world, one, { segment: { verification: { ok: false, note: null } } });
    }

    expect(strip(world)).toEqual([
      "0-4 COMPLETE",
      "5-9 PENDING",
      "10-12 PENDING",
      "13-19 COMPLETE",
      "20-29 COMPLETE",
    ]);
    expect(onlySync(world)).toMatchObject({ verify_active: 1, verify_waiting: 0 });
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", verify_active: 0 });
  });
});
