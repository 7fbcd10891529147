import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { ask, found, SensorWorld } from "../../../test/properties/sensor-world.ts";
import { fetchAll, syncWorld } from "../../../test/properties/sync-world.ts";
import type { RecordedEvent } from "../envelope.ts";
import type { EvaluationOutcome } from "../probe-protocol.ts";
import { pauseBackfill, resumeBackfill } from "../backfill/commands.ts";
import { createBackfill } from "../backfill/create.ts";
import { evaluateSensor } from "../sensor/evaluate.ts";
import {
  isOfBackfillRun,
  type Notification,
  notificationsOf,
  notificationTypeOf,
} from "./notification.ts";
import { templateNames } from "./template.ts";
import {
  claimMoveSteps,
  endMoveStep,
  moveAt,
  moveWorld,
  planned,
  workOff,
} from "../../../test/properties/move-world.ts";
import {
  arm,
  beginCutover,
  bringOver,
  claimStep,
  endStep,
  FINAL,
  plan,
  say,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { pauseMove, startMove } from "../move/commands.ts";
import { completeSplit, resumeSplit, rollbackSplit, runBackfill } from "../split/commands.ts";

/** What there is to tell of everything that happened. */
function told(world: LedgerWorld): Notification[] {
  const events = world.events.map(({ pos, type, data }) => {
    return { pos, type, data: JSON.stringify(data), occurred_at: world.now } as RecordedEvent;
  });
  return world
    .read((rows) => notificationsOf(rows, events))
    .flatMap((notification) => notification ?? []);
}

function types(world: LedgerWorld): string[] {
  return told(world).map(({ type }) => type);
}

/** Fields of a notification, and those that templates may name: the same, or one of them is forgotten. */
function expectNamed({ type, data }: Notification): void {
  const named = templateNames([type]).map((name) => name.split(".")[0] ?? "");
  // Made when it is sent, or only in a digest, or only of some of a subject's notifications.
  const sometimes = ["type", "timestamp", "title", "link", "failures"];
  const ofSome = ["step", "direction", "segment_index"];
  const missing = Object.keys(data).filter((field) => !named.includes(field));
  expect(missing, `${type} has what no template can name`).toEqual([]);
  const left = [...new Set(named)].filter((name) => !Object.hasOwn(data, name));
  expect(
    left.filter((name) => ![...sometimes, ...ofSome].includes(name)),
    type,
  ).toEqual([]);
}

describe("notificationsOf", () => {
  test("tells of a stretch of skipped times as one, with the schedule's assets and labels", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a" });
    const labels = { team: "web" };
    const catchup = { max_catchup_ticks: 0, asset_selection: ["a"], labels };
    world.publish({ kind: "schedule", name: "hourly", cron: "0 * * * *", ...catchup });
    world.pass(1_000 * 3_600_000);
    world.settle();
    const skipped = told(world);
    expect(skipped.length).toBeLessThan(10);
    // The last of the thousand is on time, and triggered.
    expect(skipped.reduce((sum, { data }) => sum + Number(data["count"]), 0)).toBe(999);
    expect(skipped[0]).toMatchObject({
      type: "schedule.skipped",
      assets: ["a"],
      data: { name: "hourly", reason: "catchup_window", labels },
    });
    for (const each of skipped) expectNamed(each);
  });

  test("tells of what a schedule skips, and not of what it triggers", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a" });
    const rest = { overlap: "skip", asset_selection: ["a"] };
    world.publish({ kind: "schedule", name: "hourly", cron: "0 * * * *", ...rest });
    world.pass(3_600_000);
    world.settle();
    expect(told(world)).toEqual([]);
    world.pass(3_600_000);
    world.settle();
    expect(told(world)).toMatchObject([
      { type: "schedule.skipped", data: { reason: "overlap", count: 1 } },
    ]);
  });

  test("tells when a sensor fails and when it is well again, and of nothing between", () => {
    const world = new LedgerWorld();
    world.publish({ kind: "sensor", name: "look", mode: "poll" });
    const [sensor] = world.read((rows) => rows.sensors.find([], [{ cell: "name" }], 1));
    const evaluate = (poll_epoch: number, cursor: string | null, isGood: boolean) => {
      const { result } = world.evaluate((rows) => ({
        events: [],
        result: rows.sensors.get(sensor?.sensor_id ?? ""),
      }));
      const outcome: EvaluationOutcome = isGood
        ? { type: "evaluated", cursor, run_requests: [] }
        : { type: "failed", error: { class: "user", message: "away" } };
      world.submit(
        evaluateSensor({
          sensor_id: result?.sensor_id ?? "",
          source: { type: "poll", poll_epoch },
          cursor: result?.cursor ?? null,
          expected_state_version: result?.state_version ?? null,
          outcome,
        }),
      );
    };
    evaluate(1, "c1", true);
    evaluate(2, null, false);
    evaluate(3, null, false);
    evaluate(4, "c2", true);
    evaluate(5, "c3", true);
    expect(types(world)).toEqual(["sensor.error", "sensor.recovered"]);
    expect(told(world)[0]?.data).toMatchObject({ name: "look", error: { message: "away" } });
    for (const each of told(world)) expectNamed(each);
  });

  test("tells of work that a sensor asked for and was refused, polled or sent, and when it goes on", () => {
    const world = new SensorWorld();
    const wanted = ask({ asset_selection: ["p"], partition_keys: ["z"] });
    world.look("c1", wanted);
    world.receive("m");
    world.evaluated("m", found(null, wanted));
    expect(told(world)).toMatchObject(
      ["look", "hook"].map((name) => ({
        type: "sensor.error",
        data: { name, error: { message: expect.stringContaining('"z"') as string } },
      })),
    );
    world.publish({ asset_key: "p", partitions: { type: "static", keys: ["x", "y", "z"] } });
    world.look("c1", wanted);
    expect(types(world).at(-1)).toBe("sensor.recovered");
  });

  test("does not tell of a healthy backfill that somebody pauses", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "static", keys: ["x", "y"] } });
    const { backfill_id } = world.submit(
      createBackfill({
        client_request_id: "r",
        assets: ["a"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 1,
        order: "ascending",
        priority: 0,
        allow_overlap: false,
        continue_on_failure: false,
      }),
    );
    world.settle();
    world.submit(pauseBackfill({ backfill_id }));
    expect(types(world)).toEqual([]);
    const error = { class: "user", message: "no" };
    for (const ref of refsOf(world.claim(["a"]))) {
      world.report({ ...ref, outcome: "FAILED", final: true, error });
    }
    world.settle();
    world.submit(resumeBackfill({ backfill_id }));
    world.submit(pauseBackfill({ backfill_id }));
    expect(types(world)).toEqual(["backfill.paused", "run.failed", "backfill.paused"]);
    for (const each of told(world)) expectNamed(each);
  });

  test("tells the runs of a backfill from those of their own", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a" });
    world.publish({ kind: "schedule", name: "hourly", cron: "0 * * * *", asset_selection: ["a"] });
    world.pass(3_600_000);
    world.settle();
    const backfill = {
      client_request_id: "r",
      assets: ["a"],
      selector: { type: "all" },
      chunk_size: 1,
      max_concurrent_runs: 1,
      order: "ascending",
      priority: 0,
      allow_overlap: true,
      continue_on_failure: false,
    } as const;
    for (const ref of refsOf(world.claim(["a"]))) world.report({ ...ref, outcome: "SUCCEEDED" });
    world.settle();
    world.publish({ asset_key: "b", partitions: { type: "static", keys: ["x"] } });
    world.submit(createBackfill({ ...backfill, assets: ["b"] }));
    world.settle();
    for (const ref of refsOf(world.claim(["b"]))) world.report({ ...ref, outcome: "SUCCEEDED" });
    world.settle();
    const ends = world.events
      .filter(({ type }) => type === "RunFinished")
      .map(({ pos, type, data }) => {
        return { pos, type, data: JSON.stringify(data), occurred_at: world.now } as RecordedEvent;
      });
    expect(ends.map(isOfBackfillRun)).toEqual([false, true]);
  });

  test("tells nobody of the runs of a sync's segments", () => {
    const world = syncWorld({ to: 99, has: { head: false, hash: false, verify: false } });
    fetchAll(world);
    expect(world.events.some(({ type }) => type === "RunFinished")).toBe(true);
    expect(told(world)).toEqual([]);
  });
});

/** What there is to tell of everything that happened. */
function toldOfShards(world: LedgerWorld): Notification[] {
  const events = world.events.map(({ pos, type, data }) => {
    return { pos, type, data: JSON.stringify(data), occurred_at: world.now } as RecordedEvent;
  });
  const all = world.read((rows) => notificationsOf(rows, events));
  // What is told is known by the event alone, so that what nobody asked for is not looked up.
  for (const [index, notification] of all.entries()) {
    const event = events[index];
    if (notification === null || event === undefined) continue;
    expect(notificationTypeOf(event)).toBe(notification.type);
    expectNamed(notification);
  }
  return all.flatMap((notification) => notification ?? []);
}

function typesOfShards(world: LedgerWorld): string[] {
  return toldOfShards(world).map(({ type }) => type);
}

describe("what there is to tell of a split", () => {
  test("is that it is caught up, cut over and completed, and not what leads there", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world, { description: "more room" });
    bringOver(world, split);
    world.submit(completeSplit({ split, reason: "it went well" }));
    world.settle();
    endStep(world, claimStep(world));
    expect(typesOfShards(world)).toEqual(["split.caught_up", "split.cut_over", "split.completed"]);
    expect(toldOfShards(world)[1]).toMatchObject({
      timestamp: world.now,
      assets: [],
      data: {
        split_id: split,
        description: "more room",
        source: "a",
        target: "b",
        tenants: ["t1"],
        phase: "completed",
        outcome: "cut_over",
        direction: "forward",
        error: null,
      },
    });
  });

  test("is which way it was cut over", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    world.submit(rollbackSplit({ split }));
    world.settle();
    const cutback = claimStep(world);
    say(world, cutback, "commit");
    endStep(world, cutback);
    endStep(world, claimStep(world));
    const [, , back, last] = toldOfShards(world);
    expect(back).toMatchObject({ type: "split.cut_over", data: { direction: "back" } });
    expect(last?.type).toBe("split.rolled_back");
  });

  test("is that a cutover could not be had, once", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    endStep(world, beginCutover(world, split), FINAL);
    expect(typesOfShards(world)).toEqual(["split.caught_up", "split.fell_back"]);
    expect(toldOfShards(world)[1]?.data).toMatchObject({ reason: "no luck", error: FINAL.error });
  });

  test("is that a step failed for good, each time", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    expect(toldOfShards(world)).toMatchObject([
      {
        type: "split.failed",
        data: { split_id: split, step: "copy", phase: "backfill", error: { message: "no luck" } },
      },
    ]);
    world.submit(resumeSplit({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    expect(typesOfShards(world)).toEqual(["split.failed", "split.failed"]);
  });

  test("is that a commit record could not be carried out", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const cutover = beginCutover(world, split);
    say(world, cutover, "commit");
    endStep(world, cutover, FINAL);
    expect(typesOfShards(world)).toEqual(["split.caught_up", "split.cut_over", "split.failed"]);
  });
});

describe("what there is to tell of a move", () => {
  test("is that it is complete", () => {
    const world = moveWorld();
    const move = planned(world);
    world.submit(startMove({ move }));
    workOff(world);
    expect(toldOfShards(world)).toMatchObject([
      { type: "move.completed", data: { move_id: move, state: "COMPLETE", segments_total: 8 } },
    ]);
  });

  test("is which segment was quarantined", () => {
    const world = moveWorld();
    const move = planned(world);
    workOff(world);
    world.submit(startMove({ move }));
    world.settle();
    for (const look of claimMoveSteps(world)) endMoveStep(world, look);
    const [first] = claimMoveSteps(world, 1);
    if (first === undefined) throw new Error("Nothing is copied.");
    endMoveStep(world, first, FINAL);
    expect(toldOfShards(world)).toMatchObject([
      { type: "move.poisoned", data: { segment_index: first.step.index, segments_poisoned: 1 } },
    ]);
  });

  test("is that it paused by itself, and not that somebody paused it", () => {
    const world = moveWorld();
    const move = planned(world);
    for (const survey of claimMoveSteps(world, 1)) endMoveStep(world, survey, FINAL);
    expect(moveAt(world, move).state).toBe("PAUSED");
    const [paused] = toldOfShards(world);
    expect(paused).toMatchObject({ type: "move.paused", data: { move_id: move } });
    expect(paused?.data["reason"]).toContain("failed: no luck");
    const other = planned(world);
    world.submit(pauseMove({ move: other }));
    expect(typesOfShards(world)).toEqual(["move.paused"]);
  });
});
