import { taskOf } from "./task-blocks.ts";
import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { addMs, msBetween } from "../../kernel/instant.ts";
import { LOST_ATTEMPTS_MAX } from "../definition/spec.ts";
import {
  type AssetPlace,
  expireLeases,
  expireUncovered,
  type HeldLease,
  type Uncovered,
} from "./expire-leases.ts";
import { requestRun } from "./request.ts";

const error = { class: "user", message: "no" };

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

  test("I76: takes back what one decision has room for, at least one task, and keeps the lease", () => {
    const { world, lease } = diamond(3);
    world.pass(1_000);
    world.room = { rows: 1, bytes: 1 };
    expect(expire(world, lease)).toEqual([]);
    expect(world.runs()[0]?.tasks_retry_wait).toBe(1);
    expect(expire(world, lease)).toEqual(["lease"]);
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

/** A world with one task, and what loses, fails or looks at it. */
function oneTask(retry: object) {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a", retry: { delay_ms: 1_000, jitter: 0, ...retry } });
  world.submit(requestRun({ request_id: "r", assets: ["a"] }));
  const claim = () => {
    world.pass(3_600_000);
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("There is nothing to claim.");
    return ref;
  };
  const settled = () => {
    world.settle();
    return world.runs()[0];
  };
  const lose = () => {
    const task = { ...claim(), deadline_at: addMs(world.now, 60_000) };
    expire(world, { lease_id: "l", worker_id: "w", expires_at: world.now, tasks: [task] });
    return settled();
  };
  const fail = (more: object = {}) => {
    world.report({ ...claim(), outcome: "FAILED", error, ...more });
    return settled();
  };
  const task = () => world.read((rows) => taskOf(rows, world.runs()[0]?.run_pos ?? 0, 0));
  return { world, claim, lose, fail, task };
}

describe("attempts that are lost with their worker", () => {
  test("I78: leave the task all the tries that its own failures have", () => {
    const { lose, fail, task } = oneTask({ max_attempts: 2 });
    for (let lost = 1; lost <= 4; lost++) {
      expect(lose()?.state).toBe("RUNNING");
      expect(task()).toMatchObject({ state: "RETRY_WAIT", failures: 0, lost_attempts: lost });
    }
    expect(fail()?.state).toBe("RUNNING");
    expect(task()).toMatchObject({ attempt: 5, failures: 1 });
    expect(fail()?.state).toBe("FAILED");
  });

  test("I78: have a bound of their own, also where failures have none", () => {
    const { lose } = oneTask({ max_attempts: null });
    for (let lost = 1; lost < LOST_ATTEMPTS_MAX; lost++) expect(lose()?.state).toBe("RUNNING");
    const run = lose();
    expect(run?.state).toBe("FAILED");
    expect(run?.first_error).toEqual({
      class: "lease-lost",
      message:
        "10 attempts in a row were lost with their worker; the last: worker w was not heard of in time",
    });
  });

  test("I78: are as many as the policy says, or without end", () => {
    const two = oneTask({ max_lost_attempts: 2 });
    expect([two.lose()?.state, two.lose()?.state]).toEqual(["RUNNING", "FAILED"]);
    const endless = oneTask({ max_lost_attempts: null });
    for (let lost = 0; lost < 30; lost++) expect(endless.lose()?.state).toBe("RUNNING");
  });

  test("I78: are counted anew after one that came to an end of its own, but not after one given back", () => {
    const { lose, fail, task } = oneTask({ max_attempts: null, max_lost_attempts: 2 });
    lose();
    fail({ released: true });
    expect(task()).toMatchObject({ lost_attempts: 1, failures: 0 });
    fail();
    expect(task()).toMatchObject({ lost_attempts: 0, failures: 1 });
    expect(lose()?.state).toBe("RUNNING");
    expect(lose()?.state).toBe("FAILED");
  });

  test("I38: are the last ones where a policy allows a single attempt", () => {
    const { lose } = oneTask({ max_attempts: 1 });
    expect(lose()?.state).toBe("FAILED");
  });

  test("I38: wait longer each time, at the time that the event says", () => {
    const { world, lose, task } = oneTask({});
    const waits = [1, 2, 3].map(() => {
      lose();
      return msBetween(world.now, task()?.retry_at ?? world.now);
    });
    expect(waits).toEqual([1_000, 2_000, 4_000]);
  });

  test("an attempt that took longer than it may is a failure, and not lost", () => {
    const { world, claim, task } = oneTask({});
    const held = { ...claim(), deadline_at: world.now };
    const expires_at = addMs(world.now, 1_000);
    expire(world, { lease_id: "l", worker_id: "w", expires_at, tasks: [held] });
    expect(task()).toMatchObject({ failures: 1, lost_attempts: 0, error: { class: "timeout" } });
  });

  test("older events, which do not say how many were lost, count as failures as they did", () => {
    const { world, lose, task } = oneTask({});
    lose();
    const again = new LedgerWorld();
    again.record(
      world.events.map((event) => {
        if (event.type !== "TaskLeaseExpired") return event;
        const { lost_attempts: _, ...result } = event.data.result;
        return { ...event, data: { ...event.data, result } };
      }),
    );
    expect(task()).toMatchObject({ failures: 0, lost_attempts: 1 });
    const runPos = again.runs()[0]?.run_pos ?? 0;
    expect(again.read((rows) => taskOf(rows, runPos, 0))).toMatchObject({
      failures: 1,
      lost_attempts: 0,
    });
  });
});

describe("expireUncovered", () => {
  test("I41: takes back what no lease covers, and leaves what one does", () => {
    const { world, lease } = diamond(3);
    const [first] = lease.tasks;
    const covering = { ...lease, tasks: first === undefined ? [] : [first] };

    world.record(
      world.read((rows) => expireUncovered(rows, [covering], null, world.context())).events,
    );

    expect(world.runs()[0]?.tasks_running).toBe(1);
    expect(world.runs()[0]?.tasks_retry_wait).toBe(1);
  });

  test("I76: goes through what runs decision by decision, and leaves nothing out", () => {
    const world = new LedgerWorld();
    const keys = Array.from({ length: 600 }, (_, index) => String(index));
    world.publish({ asset_key: "a", partitions: { type: "static", keys } });
    for (const request_id of ["r", "s"]) {
      const half = keys.slice(request_id === "r" ? 0 : 300, request_id === "r" ? 300 : 600);
      world.submit(requestRun({ request_id, assets: ["a"], partition_keys: half }));
    }
    world.submit(requestRun({ request_id: "all", assets: ["a"], partition_keys: keys }));
    world.claim(["a"], 600);
    world.room = { rows: 100, bytes: 100_000 };
    let place: AssetPlace | null = null;
    const taken: number[] = [];
    do {
      const after: AssetPlace | null = place;
      const found: Uncovered = world.read((rows) =>
        expireUncovered(rows, [], after, world.context()),
      );
      world.record(found.events);
      taken.push(found.events.length);
      place = found.next;
    } while (place !== null);

    expect(Math.max(...taken)).toBeLessThanOrEqual(100);
    expect(world.runs().map(({ tasks_running }) => tasks_running)).toEqual([0, 0, 0]);
    expect(taken.reduce((sum, count) => sum + count, 0)).toBe(600);
  });
});
