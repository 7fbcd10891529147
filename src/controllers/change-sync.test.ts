import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  segmentsOf,
  strip,
  syncWorld,
} from "../../test/properties/sync-world.ts";
import { PawlError } from "../core/errors.ts";
import { addSync } from "./add-sync.ts";
import { advanceSync } from "./advance-sync.ts";
import { pauseSync, removeSync, resumeSync, retuneSync } from "./change-sync.ts";
import { DECISION_EVENTS_MAX } from "./decision.ts";

const FIXED = { to: 99, has: { head: false, hash: false, verify: true } };
const BY_NAME = "logs@wallet=a";

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : "another error";
  }
}

describe("pauseSync and resumeSync", () => {
  test("stop what runs, keep how far it got, and go on from there", () => {
    const world = syncWorld(FIXED);
    const [first] = claimSegments(world, 1);
    const paused = world.submit(pauseSync({ sync: BY_NAME, reason: "at night" }));
    world.settle();
    expect(paused).toMatchObject({ state: "PAUSED", name: "logs", target_key: "wallet=a" });
    expect(onlySync(world)).toMatchObject({ reason: "at night", segments_queued: 0 });
    const ended = { outcome: "CANCELLED", segment: { last_processed_block: 4 } } as const;
    if (first !== undefined) endAttempt(world, first, ended);
    expect(claimSegments(world)).toEqual([]);

    world.submit(resumeSync({ sync: BY_NAME, expected_state_version: paused.state_version }));
    world.settle();
    expect(claimSegments(world)[0]?.segment).toMatchObject({
      from_block: 0,
      last_processed_block: 4,
      generation: 1,
    });
  });

  test("I7: refuse a version that is not the current one, and a state that makes no sense", () => {
    const world = syncWorld(FIXED);
    const stale = { sync: BY_NAME, expected_state_version: 1 };
    expect(codeOf(() => world.submit(pauseSync(stale)))).toBe("STATE_VERSION_MISMATCH");
    expect(codeOf(() => world.submit(resumeSync({ sync: BY_NAME })))).toBe("STATE_ILLEGAL");
    expect(codeOf(() => world.submit(pauseSync({ sync: "logs@wallet=z" })))).toBe("SYNC_NOT_FOUND");
  });

  test("wait for the head again when nothing was planned before the pause", () => {
    const world = syncWorld();
    world.submit(pauseSync({ sync: BY_NAME }));
    expect(world.submit(resumeSync({ sync: BY_NAME })).state).toBe("PENDING");
  });

  test("stop more runs than one decision can hold with the next ones", () => {
    const world = syncWorld({
      ...FIXED,
      to: 999,
      max_parallel: 700,
      segments: { max: 700, min_size: 1 },
    });
    expect(onlySync(world).segments_queued).toBe(700);
    const { events } = world.evaluate(pauseSync({ sync: BY_NAME }));
    expect(events.length).toBeLessThanOrEqual(DECISION_EVENTS_MAX);

    world.submit(pauseSync({ sync: BY_NAME }));
    world.settle();

    expect(onlySync(world)).toMatchObject({ segments_queued: 0, segments_pending: 700 });
    const sync = onlySync(world);
    expect(world.read((rows) => advanceSync(rows, sync, world.context()))).toEqual([]);
  });
});

describe("removeSync", () => {
  test("ends a sync that the API added, whose target may be added anew", () => {
    const world = syncWorld({ ...FIXED, targets: [] });
    const { sync_id } = world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    world.settle();
    const held = claimSegments(world);
    world.submit(removeSync({ sync: sync_id }));
    for (const one of held) endAttempt(world, one, { outcome: "CANCELLED" });

    expect(onlySync(world)).toMatchObject({ state: "REMOVED", segments_running: 0 });
    expect(claimSegments(world)).toEqual([]);
    expect(codeOf(() => world.submit(removeSync({ sync: sync_id })))).toBe("STATE_ILLEGAL");
    const again = world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    expect(again.sync_id).not.toBe(sync_id);
  });

  test("refuses one that code names", () => {
    const world = syncWorld(FIXED);
    expect(codeOf(() => world.submit(removeSync({ sync: BY_NAME })))).toBe("DEFINITION_INVALID");
  });
});

describe("retuneSync", () => {
  test("changes how many segments run at once, and back to what the definition says", () => {
    const world = syncWorld(FIXED);
    world.submit(retuneSync({ sync: BY_NAME, max_parallel: 5 }));
    world.settle();
    expect(claimSegments(world)).toHaveLength(5);

    world.submit(retuneSync({ sync: BY_NAME, max_parallel: null, priority: 3 }));
    world.settle();
    expect(onlySync(world)).toMatchObject({ max_parallel: null, priority: 3, state_version: 4 });
    expect(codeOf(() => world.submit(retuneSync({ sync: BY_NAME })))).toBe("INPUT_INVALID");
  });

  test("does not touch what is complete", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    world.submit(retuneSync({ sync: BY_NAME, priority: 1 }));
    world.settle();
    expect(onlySync(world).state).toBe("COMPLETE");
    expect(strip(world).every((cell) => cell.endsWith("COMPLETE"))).toBe(true);
    expect(segmentsOf(world)).toHaveLength(10);
  });
});
