import { partitionAt } from "../asset/partition-blocks.ts";
import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { CANCEL_GRACE_MS, cancelRun } from "./cancel.ts";
import { requestRun } from "./request.ts";

/** A run with one task, which a worker has. */
function running(): { world: LedgerWorld; run_id: string } {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a" });
  const { run_id } = world.submit(requestRun({ request_id: "r", assets: ["a"] }));
  return { world, run_id };
}

describe("cancelRun", () => {
  test("closes a task that waits for its next attempt, under a key of its own", () => {
    const { world, run_id } = running();
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    world.report({ ...ref, outcome: "FAILED" });

    world.submit(cancelRun({ run_id }));
    world.settle();

    expect(world.runs()[0]?.state).toBe("CANCELLED");
    const keys = world.events.map(({ idempotency_key }) => idempotency_key);
    expect(new Set(keys).size).toBe(keys.length);
  });

  test("I40: lets a running task end until the grace time is over, then closes it", () => {
    const { world, run_id } = running();
    world.claim(["a"]);
    world.submit(cancelRun({ run_id }));

    world.pass(CANCEL_GRACE_MS - 1);
    world.settle();
    expect(world.runs()[0]?.state).toBe("RUNNING");
    world.pass(1);
    world.settle();
    expect(world.runs()[0]?.state).toBe("CANCELLED");
  });

  test("I76: closes what still runs after the grace time as far as one decision has room", () => {
    const world = new LedgerWorld();
    const assets = ["a", "b", "c"];
    const partitions = { type: "static", keys: ["1", "2", "3"] };
    world.publish(...assets.map((asset_key) => ({ asset_key, batch: true, partitions })));
    const partition_keys = ["1", "2", "3"];
    const { run_id } = world.submit(requestRun({ request_id: "r", assets, partition_keys }));
    world.claim(assets);
    world.submit(cancelRun({ run_id }));
    world.pass(CANCEL_GRACE_MS);
    world.room = { rows: 6, bytes: 1_000 };
    world.settle();

    expect(world.runs()[0]).toMatchObject({ state: "CANCELLED", tasks_cancelled: 3 });
    const closings = world.events.filter(({ type }) => type === "TasksFinished");
    expect(closings).toHaveLength(2);
  });

  test("writes tasks that are closed alike as one entry, however many there are", () => {
    const world = new LedgerWorld();
    const keys = Array.from({ length: 10_000 }, (_, index) => String(index));
    world.publish({ asset_key: "a", partitions: { type: "integers", start: 0, end: 10_000 } });
    const { run_id } = world.submit(
      requestRun({ request_id: "r", assets: ["a"], partition_keys: keys }),
    );
    world.claim(["a"], 400);
    world.submit(cancelRun({ run_id, reason: "r".repeat(300) }));
    const sizes = world.events.slice(-1).map(({ data }) => JSON.stringify(data).length);
    expect(Math.max(...sizes)).toBeLessThan(2_000);

    world.pass(CANCEL_GRACE_MS);
    world.settle();

    expect(world.runs()[0]).toMatchObject({ state: "CANCELLED", tasks_cancelled: 10_000 });
    expect(world.read((rows) => partitionAt(rows, "a", "399"))).toMatchObject({
      last_attempt_outcome: "CANCELLED",
    });
    expect(world.read((rows) => partitionAt(rows, "a", "400"))).toBeNull();
  });

  test("records nothing when it is asked again", () => {
    const { world, run_id } = running();
    world.claim(["a"]);
    world.submit(cancelRun({ run_id }));
    expect(world.evaluate(cancelRun({ run_id })).events).toEqual([]);
  });
});
