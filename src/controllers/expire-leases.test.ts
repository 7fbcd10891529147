import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { addMs } from "../core/instant.ts";
import { expireLeases, expireUncovered, type HeldLease } from "./expire-leases.ts";
import { requestRun } from "./request-run.ts";

const from = (...keys: string[]) =>
  keys.map((asset_key) => ({ asset_key, mapping: { type: "all" } }));

/** Two tasks that run under one lease, and one that waits for both. */
function diamond(max_attempts: number): { world: LedgerWorld; lease: HeldLease } {
  const world = new LedgerWorld();
  const retry = { max_attempts, delay_ms: 0, jitter: 0 };
  world.publish(
    { asset_key: "left", retry },
    { asset_key: "right", retry },
    { asset_key: "bottom", retry, upstream: from("left", "right") },
  );
  world.submit(requestRun({ request_id: "r", assets: ["left", "right", "bottom"] }));
  const tasks = refsOf(world.claim(["left", "right", "bottom"]));
  const expires_at = addMs(world.now, 1_000);
  const deadline_at = addMs(world.now, 60_000);
  const lease = {
    lease_id: "lease",
    worker_id: "worker",
    expires_at,
    tasks: tasks.map((task) => ({ ...task, deadline_at })),
  };
  return { world, lease };
}

function expire(world: LedgerWorld, lease: HeldLease): string[] {
  const { events, ended } = world.read((rows) => expireLeases(rows, [lease], world.context()));
  world.record(events);
  return ended;
}

describe("expireLeases", () => {
  test("ends a lease at the very millisecond it runs out", () => {
    const { world, lease } = diamond(3);
    world.pass(999);
    expect(expire(world, lease)).toEqual([]);
    world.pass(1);
    expect(expire(world, lease)).toEqual(["lease"]);
    expect(world.runs()[0]?.tasks_retry_wait).toBe(2);
  });

  test("I39: skips what waits for two tasks once when both are lost for good", () => {
    const { world, lease } = diamond(1);
    world.pass(1_000);
    expire(world, lease);
    world.settle();

    const [run] = world.runs();
    expect(run?.state).toBe("FAILED");
    expect([run?.tasks_failed, run?.tasks_skipped]).toEqual([2, 1]);
  });

  test("takes back single tasks beyond their time from a lease that goes on", () => {
    const { world, lease } = diamond(3);
    world.pass(60_000);
    const renewed = { ...lease, expires_at: addMs(world.now, 1_000) };

    expect(expire(world, renewed)).toEqual([]);
    expect(world.runs()[0]?.tasks_retry_wait).toBe(2);
  });

  test("has nothing to add once it has decided", () => {
    const { world, lease } = diamond(3);
    world.pass(1_000);
    expire(world, lease);
    const again = world.read((rows) => expireLeases(rows, [lease], world.context()));
    expect(again.events).toEqual([]);
  });
});

describe("expireUncovered", () => {
  test("I41: takes back what no lease covers, and leaves what one does", () => {
    const { world, lease } = diamond(3);
    const [first] = lease.tasks;
    const covering = { ...lease, tasks: first === undefined ? [] : [first] };

    world.record(world.read((rows) => expireUncovered(rows, [covering], world.context())));

    expect(world.runs()[0]?.tasks_running).toBe(1);
    expect(world.runs()[0]?.tasks_retry_wait).toBe(1);
  });
});
