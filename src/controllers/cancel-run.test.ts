import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { CANCEL_GRACE_MS, cancelRun } from "./cancel-run.ts";
import { requestRun } from "./request-run.ts";

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

  test("records nothing when it is asked again", () => {
    const { world, run_id } = running();
    world.claim(["a"]);
    world.submit(cancelRun({ run_id }));
    expect(world.evaluate(cancelRun({ run_id })).events).toEqual([]);
  });
});
