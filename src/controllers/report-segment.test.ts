import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  onlySync,
  segmentsOf,
  syncWorld,
} from "../../test/properties/sync-world.ts";
import { eventBody } from "../core/events/event-body.ts";

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
