import { describe, expect, test } from "vitest";
import { LedgerWorld, refusalOf } from "../../../test/properties/ledger-world.ts";
import { collectStale } from "../asset/stale.ts";
import { tasksOfAsset } from "../run/tasks.ts";
import { requestRun } from "../run/request.ts";
import { resumeBackfill, retuneBackfill } from "./commands.ts";
import {
  type CreateBackfillInput,
  createBackfill,
  previewBackfill,
  retryBackfill,
} from "./create.ts";

const ERROR = { class: "error", message: "broken" };
const KEYS = ["1", "2", "3", "4", "5", "6"];
const before = (by: number) => ({ asset_key: "balance", mapping: { type: "offset", by } });

function published(more: object = {}, keys: readonly string[] = KEYS): LedgerWorld {
  const world = new LedgerWorld();
  const partitions = { type: "static", keys };
  const retry = { max_attempts: 1 };
  const balance = { asset_key: "balance", partitions, retry, upstream: [before(-1)], ...more };
  world.publish(balance);
  return world;
}

function wish(more: Partial<CreateBackfillInput> = {}): CreateBackfillInput {
  return {
    client_request_id: "r",
    assets: ["balance"],
    selector: { type: "all" },
    chunk_size: 2,
    max_concurrent_runs: 4,
    order: "ascending",
    priority: 0,
    allow_overlap: false,
    continue_on_failure: false,
    ...more,
  };
}

function created(world: LedgerWorld, more: Partial<CreateBackfillInput> = {}): string {
  const { backfill_id } = world.submit(createBackfill(wish(more)));
  world.settle();
  return backfill_id;
}

/** Does what can be done, and answers the partitions of each task in turn; those named fail. */
function work(world: LedgerWorld, failing: readonly string[] = []): string[] {
  const made: string[] = [];
  for (;;) {
    const groups = world.claim(["balance"]);
    if (groups.length === 0) return made;
    for (const { run_pos, tasks } of groups) {
      for (const { task_key, attempt, partition_keys } of tasks) {
        made.push(partition_keys.join());
        const ref = { run_pos, task_key, attempt };
        const fails = partition_keys.some((key) => failing.includes(key));
        world.report(
          fails ? { ...ref, outcome: "FAILED", error: ERROR } : { ...ref, outcome: "SUCCEEDED" },
        );
      }
    }
    world.settle();
  }
}

const state = (world: LedgerWorld) => world.backfills().map((each) => each.state);

describe("a backfill of what is made from its own earlier partitions", () => {
  test("I92: makes one partition after the other, chunk after chunk, however much may run at once", () => {
    const world = published();
    created(world);
    expect(world.backfills()[0]?.max_concurrent_runs).toBe(1);
    const claimed: string[][] = [];
    for (
      let groups = world.claim(["balance"]);
      groups.length > 0;
      groups = world.claim(["balance"])
    ) {
      claimed.push(groups.flatMap(({ tasks }) => tasks.flatMap((task) => task.partition_keys)));
      for (const { run_pos, tasks } of groups) {
        for (const { task_key, attempt } of tasks) {
          world.report({ run_pos, task_key, attempt, outcome: "SUCCEEDED" });
        }
      }
      world.settle();
    }
    expect(claimed).toEqual(KEYS.map((key) => [key]));
    expect(state(world)).toEqual(["SUCCEEDED"]);
  });

  test("I92: is held back by what failed, with the reason, until that was made", () => {
    const world = published();
    const backfill_id = created(world, { chunk_size: 3 });
    expect(work(world, ["2"])).toEqual(["1", "2"]);
    expect(world.backfills()[0]).toMatchObject({
      state: "PAUSED",
      reason:
        "balance 2 and 1 after it failed, and later partitions are made from what is before them. " +
        "Retry what failed, then resume",
      partitions_failed: 2,
    });
    // Resumed too soon, it says so again.
    world.submit(resumeBackfill({ backfill_id }));
    world.settle();
    expect(state(world)).toEqual(["PAUSED"]);
    world.submit(retryBackfill({ backfill_id, retry_request_id: "again", missing: false }));
    world.settle();
    expect(work(world)).toEqual(["2", "3"]);
    world.submit(resumeBackfill({ backfill_id }));
    world.settle();
    expect(work(world)).toEqual(["4", "5", "6"]);
    expect(state(world)).toEqual(["FAILED", "SUCCEEDED"]);
  });

  test("I92: says of a task that never ran which partition it waited for", () => {
    const world = published();
    const keys = ["1", "2", "3"];
    world.submit(requestRun({ request_id: "r", assets: ["balance"], partition_keys: keys }));
    world.settle();
    const [group] = world.claim(["balance"]);
    const [task] = group?.tasks ?? [];
    if (group === undefined || task === undefined) throw new Error("There is a task.");
    const { run_pos } = group;
    const { task_key, attempt } = task;
    world.report({ run_pos, task_key, attempt, outcome: "FAILED", error: ERROR });
    const states = world.read((rows) => {
      const asset = rows.runAssets.get(run_pos, 0);
      return asset === null ? [] : tasksOfAsset(rows, asset).map(({ error }) => error?.message);
    });
    expect(states).toEqual(["broken", "balance 1 failed", "balance 1 failed"]);
  });

  test("I92: goes on behind a partition for which there was nothing to do", () => {
    const world = published();
    created(world, { chunk_size: 6 });
    const [group] = world.claim(["balance"]);
    const { task_key = 0, attempt = 0 } = group?.tasks[0] ?? {};
    const error = { class: "skipped", message: "none" };
    world.report({ run_pos: group?.run_pos ?? 0, task_key, attempt, outcome: "SKIPPED", error });
    world.settle();
    expect(work(world)).toEqual(["2", "3", "4", "5", "6"]);
    expect(state(world)).toEqual(["SUCCEEDED"]);
  });

  test("I92: halves a batch oldest first, and keeps what is behind a failure back", () => {
    const world = published({ batch: true, bisect: true });
    const backfill_id = created(world, { chunk_size: 4 });
    expect(work(world, ["2"])).toEqual(["1,2,3,4", "1,2", "1", "2"]);
    expect(state(world)).toEqual(["PAUSED"]);
    world.submit(retryBackfill({ backfill_id, retry_request_id: "again", missing: false }));
    world.settle();
    expect(work(world)).toEqual(["2"]);
    world.submit(resumeBackfill({ backfill_id }));
    world.settle();
    expect(work(world)).toEqual(["3,4", "5,6"]);
  });

  test("I92: waits for several earlier partitions where it is made from several", () => {
    const days = { type: "daily", start: "2025-01-01", end: "2025-01-06" };
    const mapping = { type: "time_window", start_offset: -2, end_offset: -1 };
    const world = published({ partitions: days, upstream: [{ asset_key: "balance", mapping }] });
    created(world, { chunk_size: 10 });
    expect(work(world)).toEqual(["01", "02", "03", "04", "05"].map((day) => `2025-01-${day}`));
  });

  test("I92: takes a long chain that fails at its beginning", () => {
    const keys = Array.from({ length: 10_000 }, (_, index) => `k${index}`);
    const world = published({}, keys);
    created(world, { chunk_size: 10_000 });
    expect(work(world, ["k0"])).toEqual(["k0"]);
    expect(world.backfills()[0]).toMatchObject({ state: "FAILED", partitions_failed: 10_000 });
  });

  test("refuses the newest first and several chunks at once, also later", () => {
    const world = published();
    const newest = wish({ order: "descending" });
    for (const refused of [
      () => world.submit(createBackfill(newest)),
      () => world.submit(previewBackfill(newest)),
    ]) {
      expect(refusalOf(refused).message).toBe(
        "balance is made from its own earlier partitions, so the newest cannot be made first. " +
          "Leave the order out, or set it to ascending.",
      );
    }
    const backfill_id = created(world);
    const said = { backfill_id, max_concurrent_runs: 2 };
    expect(refusalOf(() => world.submit(retuneBackfill(said)))).toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("its chunks run one after the other; 2 at once cannot be."),
    });
    world.submit(retuneBackfill({ backfill_id, priority: 3 }));
    expect(world.backfills()[0]?.priority).toBe(3);
  });

  test("I92: makes none stale that comes after what was made again", () => {
    for (const batch of [false, true]) {
      const world = published({ batch });
      created(world, { chunk_size: 6 });
      work(world);
      created(world, {
        client_request_id: "again",
        selector: { type: "explicit", partition_keys: ["2"] },
      });
      expect(work(world)).toEqual(["2"]);
      const options = { budget: 100, limit: 100, from: { asset_index: 0, ordinal: 0 } };
      const stale = world.read((rows) =>
        collectStale(rows, ["balance"], { now: world.now }, options),
      );
      expect(Object.values(stale.reasons).every((count) => count === 0)).toBe(true);
    }
  });
});
