import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { ask, found, SensorWorld } from "../../test/properties/sensor-world.ts";
import { fetchAll, syncWorld } from "../../test/properties/sync-world.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EvaluationOutcome } from "../core/probe-protocol.ts";
import { pauseBackfill, resumeBackfill } from "./change-backfill.ts";
import { createBackfill } from "./create-backfill.ts";
import { evaluateSensor } from "./evaluate-sensor.ts";
import { type Notification, notificationsOf } from "./notification-of-event.ts";

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
  });

  test("tells nobody of the runs of a sync's segments", () => {
    const world = syncWorld({ to: 99, has: { head: false, hash: false, verify: false } });
    fetchAll(world);
    expect(world.events.some(({ type }) => type === "RunFinished")).toBe(true);
    expect(told(world)).toEqual([]);
  });
});
