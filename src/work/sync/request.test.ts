import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  claimSegments,
  endAttempt,
  onlySync,
  seeHead,
  segmentsOf,
  SYNC,
  syncSpec,
  syncWorld,
} from "../../../test/properties/sync-world.ts";
import { LOST_ATTEMPTS_MAX } from "../definition/spec.ts";
import { workNameOf } from "./spec.ts";
import { cancelRun } from "../run/cancel.ts";
import { pauseSync, resumeSync } from "./commands.ts";
import { claimTasks, repeatClaim } from "../run/claim.ts";
import { expireUncovered } from "../run/expire-leases.ts";
import { requestRun } from "../run/request.ts";

const FIXED = { to: 99, has: { head: false, hash: false, verify: true } };
const error = { class: "user", message: "no" };

describe("claiming segments", () => {
  test("tells a worker all that it needs to know of a segment", () => {
    const world = syncWorld({ ...FIXED, request_size: 7, quarantine_after: 3, stall_after_ms: 5 });
    const [held] = claimSegments(world, 1);
    expect(held).toMatchObject({ stall_after_ms: 5, asset_key: "sync:logs", batch: false });
    expect(held?.tasks).toEqual([
      { task_key: 0, attempt: 1, partition_keys: [], checkpoint: null },
    ]);
    expect(held?.segment).toEqual({
      sync_id: onlySync(world).sync_id,
      sync: "logs",
      target: { wallet: "a" },
      source: "chain",
      segment_index: 0,
      generation: 0,
      purpose: "fetch",
      from_block: 0,
      to_block: 9,
      last_processed_block: null,
      undo: false,
      is_live: false,
      splittable: true,
      was_quarantined: false,
      quarantine_after: 3,
      request_size: 7,
      requests_per_second: null,
    });
  });

  test("I48: tells the lowest known hash that a rewrite of the segment would change", () => {
    const world = syncWorld({ max_parallel: 10 });
    for (const block of [14, 29, 44]) seeHead(world, block, { safe: { block, hash: `h${block}` } });
    const anchors = claimSegments(world).map(({ segment: { to_block, anchor } }) => [
      to_block,
      anchor?.hash,
    ]);
    expect(anchors).toEqual([
      [14, "h14"],
      [29, "h29"],
      [44, "h44"],
    ]);
  });

  test("tells no hash that nobody compares any more", () => {
    const own = { to: 44, segments: { max: 1, min_size: 1 } };
    const world = syncWorld(own, 50);
    seeHead(world, 51, { safe: { block: 51, hash: "h51" } });
    world.publish(syncSpec({ ...own, has: { head: false, hash: true, verify: true } }));
    world.settle();
    expect(claimSegments(world).map(({ segment }) => segment.anchor)).toEqual([undefined]);
  });

  test("tells what an earlier run knew of the blocks that the next one goes on behind", () => {
    const world = syncWorld({ max_parallel: 1 }, 29);
    const { sync_id: sync } = onlySync(world);
    const [held] = claimSegments(world);
    world.submit(pauseSync({ sync }));
    if (held !== undefined) {
      const segment = { last_processed_block: 5, end_hash: "h", rows: 100 };
      endAttempt(world, held, { outcome: "CANCELLED", segment });
    }
    world.submit(resumeSync({ sync }));
    world.settle();

    const [again] = claimSegments(world);
    expect(again?.segment).toMatchObject({
      generation: 1,
      last_processed_block: 5,
      end_hash: "h",
      rows: 100,
    });
  });

  test("I43: lets a retry wait for a slot, so that no more run than may", () => {
    const world = syncWorld(FIXED);
    const failed = claimSegments(world);
    for (const one of failed) endAttempt(world, one, { outcome: "FAILED", error });
    expect(onlySync(world)).toMatchObject({ status: "FAILED", segments_failed: 2 });
    const running = claimSegments(world);
    expect(running).toHaveLength(2);
    world.pass(1_000);
    expect(claimSegments(world)).toEqual([]);

    const [first] = running;
    if (first !== undefined) endAttempt(world, first);
    expect(claimSegments(world)).toHaveLength(1);
    expect(onlySync(world).segments_running).toBe(2);
  });

  test("begins with no new segment while too many wait for their retry", () => {
    const world = syncWorld({ ...FIXED, segments: { max: 100, min_size: 1 } });
    for (;;) {
      const held = claimSegments(world);
      if (held.length === 0) break;
      for (const one of held) endAttempt(world, one, { outcome: "FAILED", error });
    }
    // One of two that were begun together may be the seventeenth.
    expect(onlySync(world)).toMatchObject({ segments_failed: 17, segments_queued: 0 });
  });

  test("gives a segment back to whoever comes next when its worker was lost", () => {
    const world = syncWorld(FIXED);
    const [lost] = claimSegments(world, 1);
    world.submit((rows, context) => ({
      events: expireUncovered(rows, [], null, context).events,
      result: null,
    }));
    world.settle();
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", error_class: "lease-lost" });
    if (lost !== undefined) expect(endAttempt(world, lost)).toBe("lost");
    world.pass(1_000);

    const again = claimSegments(world).find(({ segment }) => segment.segment_index === 0);
    expect(again?.run_id).toBe(lost?.run_id);
    expect(again?.tasks[0]?.attempt).toBe(2);
  });

  test("I78: sets a segment aside that was lost with its worker too often in a row", () => {
    const world = syncWorld(FIXED);
    const lose = () => {
      claimSegments(world, 1);
      world.submit((rows, context) => ({
        events: expireUncovered(rows, [], null, context).events,
        result: null,
      }));
      world.settle();
      world.pass(300_000);
    };
    for (let lost = 1; lost < LOST_ATTEMPTS_MAX; lost++) lose();
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", retry_count: 9 });
    lose();
    expect(segmentsOf(world)[0]).toMatchObject({
      status: "QUARANTINED",
      error_message:
        "10 attempts in a row were lost with their worker; the last: its lease was lost",
    });
  });

  test("I49: goes on before the first block that was quarantined, when only the row remembers it", () => {
    const world = syncWorld(FIXED);
    const [held] = claimSegments(world, 1);
    const segment = { last_processed_block: 8, quarantined: [{ block: 3, error }] };
    if (held !== undefined) endAttempt(world, held, { outcome: "CANCELLED", segment });
    const again = claimSegments(world).find((one) => one.segment.segment_index === 0);
    expect(again?.segment).toMatchObject({ generation: 1, last_processed_block: 2 });
  });

  test("repeats a claim whose answer was lost, but for what was opened again meanwhile", () => {
    const world = syncWorld({ has: { head: true, hash: true, verify: true } });
    seeHead(world, 99, { safe: { block: 99, hash: "x" } });
    const held = claimSegments(world);
    const refs = held.map(({ run_pos, tasks: [task] }) => ({
      run_pos,
      task_key: 0,
      attempt: task?.attempt ?? 0,
    }));
    expect(world.read((rows) => repeatClaim(refs)(rows)).result).toEqual({ groups: held });

    seeHead(world, 99, { fork: { block: 9 } });
    const { result } = world.read((rows) => repeatClaim(refs)(rows));
    expect(result.groups.map(({ segment }) => segment?.from_block)).toEqual([0]);
  });

  test("takes no more of the lowest class than a worker has slots for it", () => {
    const world = syncWorld({ max_parallel: 4 }, 99);
    const [first] = claimSegments(world, 1);
    seeHead(world, 101);
    if (first !== undefined) endAttempt(world, first);
    world.publish({ asset_key: "a" });
    world.submit(requestRun({ request_id: "r", assets: ["a"] }));
    const taken = (backfill_slots: number | undefined) =>
      world
        .evaluate(
          claimTasks({
            worker_id: "w",
            lease_id: "l",
            slots: 4,
            assets: ["a", workNameOf(SYNC)],
            code_version: null,
            wait_ms: 0,
            ...(backfill_slots === undefined ? {} : { backfill_slots }),
          }),
        )
        .result.groups.map(({ segment }) => segment?.is_live ?? "asset");

    expect(taken(0)).toEqual(["asset", true]);
    expect(taken(1)).toEqual(["asset", true, false]);
    expect(taken(undefined)).toEqual(["asset", true, false, false]);
  });

  test("takes nothing of a sync whose limit others of its name have not reached", () => {
    const world = new LedgerWorld();
    world.publish(
      syncSpec({ ...FIXED, targets: [{ wallet: "a" }, { wallet: "b" }], max_parallel: 1 }),
    );
    world.settle();
    expect(claimSegments(world).map(({ segment }) => segment.target["wallet"])).toEqual(["a", "b"]);
    expect(claimSegments(world)).toEqual([]);
  });

  test("runs a segment again that a person cancelled", () => {
    const world = syncWorld(FIXED);
    const run_id = segmentsOf(world)[0]?.run_id ?? "";
    world.submit(cancelRun({ run_id }));
    world.settle();
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", generation: 1 });
    expect(segmentsOf(world)[0]?.run_id).not.toBe(run_id);
  });
});
