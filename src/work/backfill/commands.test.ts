import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { cancelBackfill, pauseBackfill, resumeBackfill, retuneBackfill } from "./commands.ts";
import { createBackfill } from "./create.ts";

/** A backfill of six chunks, three of them active. */
function running(): { world: LedgerWorld; backfill_id: string } {
  const world = new LedgerWorld();
  const partitions = { type: "static", keys: ["1", "2", "3", "4", "5", "6"] };
  world.publish({ asset_key: "a", partitions });
  const { backfill_id } = world.submit(
    createBackfill({
      client_request_id: "r",
      assets: ["a"],
      selector: { type: "all" },
      chunk_size: 1,
      max_concurrent_runs: 3,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
      continue_on_failure: false,
    }),
  );
  world.settle();
  return { world, backfill_id };
}

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : "another error";
  }
}

describe("cancelBackfill", () => {
  test("I76: cancels the runs that one decision has room for, and the controller the others", () => {
    const world = new LedgerWorld();
    const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
    world.publish({ asset_key: "a", partitions: { type: "static", keys } });
    const { backfill_id } = world.submit(
      createBackfill({
        client_request_id: "r",
        assets: ["a"],
        selector: { type: "all" },
        chunk_size: 3,
        max_concurrent_runs: 10,
        order: "ascending",
        priority: 0,
        allow_overlap: false,
        continue_on_failure: false,
      }),
    );
    world.settle();
    world.room = { rows: 6, bytes: 1_000 };
    world.submit(cancelBackfill({ backfill_id, now: true }));
    const cancelled = () => world.events.filter(({ type }) => type === "RunCancelRequested").length;
    expect(cancelled()).toBe(2);
    world.settle();
    expect(cancelled()).toBe(4);
    expect(world.backfills()[0]?.state).toBe("CANCELLED");
  });
});

describe("pauseBackfill and resumeBackfill", () => {
  test("I31: plan nothing from the pause to the resume, then the first unplanned chunk", () => {
    const { world, backfill_id } = running();
    world.submit(pauseBackfill({ backfill_id }));
    for (const ref of refsOf(world.claim(["a"]))) world.report({ ...ref, outcome: "SUCCEEDED" });
    world.settle();
    expect(world.runs()).toHaveLength(3);
    expect(world.backfills()[0]?.state).toBe("PAUSED");

    world.submit(resumeBackfill({ backfill_id }));
    world.settle();
    expect(world.runs().map(({ chunk_index }) => chunk_index)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("I7: refuse a version that is not the current one, with both versions", () => {
    const { world, backfill_id } = running();
    const stale = { backfill_id, expected_state_version: 1 };
    expect(codeOf(() => world.submit(pauseBackfill(stale)))).toBe("STATE_VERSION_MISMATCH");
    expect(codeOf(() => world.submit(resumeBackfill({ backfill_id })))).toBe("STATE_ILLEGAL");
    expect(world.backfills()[0]?.state_version).toBe(2);
  });
});

describe("resumeBackfill", () => {
  test("starts a follower only when the backfill before it has ended", () => {
    const { world, backfill_id } = running();
    const follower = world.submit(
      createBackfill({
        client_request_id: "follower",
        assets: ["a"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 1,
        order: "ascending",
        priority: 0,
        allow_overlap: true,
        continue_on_failure: false,
        after_backfill_id: backfill_id,
      }),
    );
    const resume = resumeBackfill({ backfill_id: follower.backfill_id });
    expect(codeOf(() => world.submit(resume))).toBe("STATE_ILLEGAL");

    world.submit(cancelBackfill({ backfill_id, now: true }));
    world.settle();
    expect(world.backfills().map(({ state }) => state)).toEqual(["CANCELLED", "PENDING"]);
    world.submit(resume);
    expect(world.backfills()[1]?.state).toBe("RUNNING");
  });
});

describe("cancelBackfill", () => {
  test("goes on until every run is cancelled, however many there are", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "integers", start: 1, end: 600 } });
    const { backfill_id } = world.submit(
      createBackfill({
        client_request_id: "r",
        assets: ["a"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 600,
        order: "ascending",
        priority: 0,
        allow_overlap: false,
        continue_on_failure: false,
      }),
    );
    world.settle();
    world.submit(cancelBackfill({ backfill_id, now: true }));
    expect(world.runs().some((run) => run.cancel_requested_at === null)).toBe(true);

    world.settle();
    expect(new Set(world.runs().map(({ state }) => state))).toEqual(new Set(["CANCELLED"]));
    expect(world.backfills()[0]?.state).toBe("CANCELLED");
  });

  test("may be asked to hurry later, and once more without effect", () => {
    const { world, backfill_id } = running();
    world.claim(["a"]);
    world.submit(cancelBackfill({ backfill_id, reason: "wrong" }));
    const hurried = world.submit(cancelBackfill({ backfill_id, now: true }));
    expect(hurried).toEqual({ backfill_id, state: "CANCELLING", state_version: 4 });
    expect(world.runs().every((run) => run.cancel_requested_at !== null)).toBe(true);
    expect(world.backfills()[0]?.reason).toBe("wrong");

    const before = world.pos;
    expect(world.submit(cancelBackfill({ backfill_id, now: true }))).toEqual(hurried);
    expect(world.pos).toBe(before);
  });

  test("cancels every active run at once, also those beyond a lowered concurrency", () => {
    const { world, backfill_id } = running();
    world.submit(retuneBackfill({ backfill_id, max_concurrent_runs: 1 }));

    world.submit(cancelBackfill({ backfill_id, now: true }));
    world.settle();

    expect(world.runs().map(({ state }) => state)).toEqual(["CANCELLED", "CANCELLED", "CANCELLED"]);
    expect(world.backfills()[0]?.state).toBe("CANCELLED");
    expect(world.backfills()[0]?.partitions_cancelled).toBe(6);
  });

  test("lets active runs end when nobody is in a hurry", () => {
    const { world, backfill_id } = running();
    world.submit(cancelBackfill({ backfill_id }));
    world.settle();
    expect(world.backfills()[0]?.state).toBe("CANCELLING");

    for (const ref of refsOf(world.claim(["a"]))) world.report({ ...ref, outcome: "SUCCEEDED" });
    world.settle();
    expect(world.backfills()[0]?.state).toBe("CANCELLED");
    expect(world.backfills()[0]?.chunks_succeeded).toBe(3);
  });
});
