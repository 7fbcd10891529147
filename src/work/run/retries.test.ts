import { expect, test, describe } from "vitest";
import { wish } from "../../../test/properties/backfill-world.ts";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { claimTasks } from "./claim.ts";
import { createBackfill } from "../backfill/create.ts";
import { requestRun } from "./request.ts";
import fc from "fast-check";
import {
  arm,
  beginCutover,
  catchUp,
  claimStep,
  endStep,
  type HeldStep,
  loseWorker,
  plan,
  say,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { LOST_ATTEMPTS_MAX, RetryPolicy } from "../definition/spec.ts";
import { runBackfill } from "../split/commands.ts";
import { retryDelayMs } from "./retries.ts";

test("I64: a claim takes few tasks that were tried before, whose checkpoints go with it, and ready ones beside", () => {
  const world = new LedgerWorld();
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  const asset = { partitions: { type: "static", keys }, retry: { jitter: 0, delay_ms: 1_000 } };
  world.publish({ asset_key: "a", ...asset }, { asset_key: "b", ...asset });
  const request = (asset_key: string, partition_keys: readonly string[]): void => {
    world.submit(requestRun({ request_id: asset_key, assets: [asset_key], partition_keys }));
  };
  request("a", keys);
  const error = { class: "user", message: "it was the first time." };
  for (const ref of refsOf(world.claim(["a"], 100))) {
    world.report({ ...ref, outcome: "FAILED", error });
  }
  world.pass(600_000);
  request("b", keys.slice(0, 5));

  const attempts = () => refsOf(world.claim(["a", "b"], 100)).map(({ attempt }) => attempt);
  const tried = (count: number): number[] => Array.from({ length: count }, () => 2);
  expect(attempts()).toEqual([...tried(16), 1, 1, 1, 1, 1]);
  expect([attempts(), attempts(), attempts()]).toEqual([tried(16), tried(8), []]);
});

test("I64: what backfills tried before leaves room for what was asked for by hand", () => {
  const world = new LedgerWorld();
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  const asset = { partitions: { type: "static", keys }, retry: { jitter: 0, delay_ms: 1_000 } };
  world.publish({ asset_key: "a", ...asset }, { asset_key: "b", ...asset });
  world.submit(createBackfill({ ...wish({ chunk_size: 40 }), retry: undefined }));
  world.settle();
  world.submit(requestRun({ request_id: "b", assets: ["b"], partition_keys: keys }));
  const error = { class: "user", message: "it was the first time." };
  for (const ref of refsOf(world.claim(["a", "b"], 100))) {
    world.report({ ...ref, outcome: "FAILED", error });
  }
  world.pass(600_000);
  const taken = world
    .claim(["a", "b"], 200)
    .map(({ asset_key, tasks }) => [asset_key, tasks.length]);
  expect(Object.fromEntries(taken)).toEqual({ a: 2, b: 14 });
});

describe("a step whose worker is lost again and again", () => {
  const lose = (world: LedgerWorld, held: HeldStep): void => {
    loseWorker(world, held);
    world.pass(300_000);
  };

  test("I78: has failed once that happened too often in a row", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    for (let lost = 1; lost < LOST_ATTEMPTS_MAX; lost++) lose(world, claimStep(world));
    expect(splitAt(world)).toMatchObject({ backfill_status: "running", step_state: "RUNNING" });
    lose(world, claimStep(world));
    expect(splitAt(world)).toMatchObject({ backfill_status: "failed", step_state: "FAILED" });
  });

  test("I78: begins the row anew when it follows writes and lasted", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world, { auto_cutover: false });
    let held = catchUp(world, split);
    for (let lost = 0; lost < 2 * LOST_ATTEMPTS_MAX; lost++) {
      world.pass(600_000);
      lose(world, held);
      held = claimStep(world);
    }
    expect(splitAt(world)).toMatchObject({ step: "tail", step_state: "RUNNING" });
  });

  test("I78: goes on for as long as it takes once its commit record stands", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    let held = beginCutover(world, split);
    say(world, held, "commit");
    for (let lost = 0; lost < 2 * LOST_ATTEMPTS_MAX; lost++) {
      lose(world, held);
      held = claimStep(world);
    }
    endStep(world, held);
    expect(splitAt(world)).toMatchObject({ phase: "reversible", committing: 0 });
  });

  test("I78: is not kept for who is alone while writes wait for it", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    let held = beginCutover(world, split);
    for (let lost = 0; lost < 3; lost++) {
      lose(world, held);
      if (lost < 2) held = claimStep(world);
    }
    const request = {
      worker_id: "w",
      lease_id: "l",
      slots: 5,
      assets: [held.asset_key],
      alone: false,
      code_version: null,
      wait_ms: 0,
    };
    const claimed = world.submit(claimTasks(request, Number.MAX_SAFE_INTEGER, () => 0));
    expect(claimed.suspects_wait).toBeUndefined();
    expect(claimed.tasks).toHaveLength(1);
  });
});

describe("retryDelayMs", () => {
  const policy = RetryPolicy.parse({ delay_ms: 1_000, factor: 2, max_delay_ms: 5_000, jitter: 0 });

  test("grows by the factor up to the longest delay", () => {
    const delays = [1, 2, 3, 4, 9].map((failures) => retryDelayMs(policy, failures, 0.5));
    expect(delays).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
  });

  test("is nothing when there is no delay, after any number of failures", () => {
    const none = { ...policy, delay_ms: 0, factor: 100 };
    expect(retryDelayMs(none, 1_000_000, 0.5)).toBe(0);
  });

  test("stays within the jitter, and is finite after any number of failures", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failures, random, jitter) => {
          const exact = retryDelayMs(policy, failures, 0.5);
          const delay = retryDelayMs({ ...policy, jitter }, failures, random);
          expect(delay).toBeGreaterThanOrEqual(Math.floor(exact * (1 - jitter)));
          expect(delay).toBeLessThanOrEqual(Math.ceil(exact * (1 + jitter)));
        },
      ),
    );
  });
});
