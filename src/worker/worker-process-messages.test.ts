import { describe, expect, test } from "vitest";
import { HeldTasks } from "./worker-process-messages.ts";

const ref = (task_key: number) => ({ run_pos: 7, task_key, attempt: 1 });
const CRASHED = { type: "crashed", reason: "it ended with the exit code 3." } as const;

/** A process that took three tasks under one lease and began these. */
function holding(...begun: number[]): HeldTasks {
  const held = new HeldTasks("w");
  held.hear({ type: "took", lease_id: "l", tasks: [ref(0), ref(1), ref(2)] });
  for (const key of begun) held.hear({ type: "began", task: ref(key) });
  return held;
}

const head = {
  probe_id: "p",
  attempt: 1,
  sync: "s",
  source: "o",
  outcome: { type: "released" },
} as const;

describe("HeldTasks", () => {
  test("I37: fails a look that was alone in a process that crashed, and gives all others back", () => {
    const looking = new HeldTasks("w");
    for (const id of [1, 2]) looking.hear({ type: "look", id, head });
    expect(looking.looksAfter(CRASHED)).toEqual({ probes: [], heads: [head, head] });
    looking.hear({ type: "looked", id: 2 });
    const failed = { outcome: { type: "failed", error: { class: "crash" } } };
    expect(looking.looksAfter(CRASHED).heads).toMatchObject([failed]);
    expect(looking.looksAfter({ type: "killed", reason: "it did not stop." }).heads).toEqual([
      head,
    ]);

    const besideTask = holding(0);
    besideTask.hear({ type: "look", id: 1, head });
    expect(besideTask.looksAfter(CRASHED).heads).toEqual([head]);
  });

  test("has nothing to say of a process that held nothing", () => {
    const held = holding(0, 1, 2);
    held.hear({ type: "settled", tasks: [ref(0), ref(1), ref(2)] });

    expect(new HeldTasks("w").reportAfter(CRASHED)).toBeNull();
    expect(held.reportAfter(CRASHED)).toBeNull();
  });

  test("I78: fails the one task that ran when its process crashed, and gives the others back", () => {
    const report = holding(1).reportAfter(CRASHED);

    expect(report).toMatchObject({ worker_id: "w", released_leases: ["l"] });
    expect(report?.results).toMatchObject([
      { task_key: 0, released: true },
      { task_key: 1, outcome: "FAILED", error: { class: "crash" } },
      { task_key: 2, released: true },
    ]);
    expect(report?.results[1]).not.toHaveProperty("released");
    expect(report?.results[1]?.error?.message).toContain("the exit code 3");
  });

  test("I78: counts those as lost that shared a process that crashed, with each other or a look", () => {
    const shared = holding(0, 1).reportAfter(CRASHED);
    expect(shared?.results.map(({ crashed = false }) => crashed)).toEqual([true, true, false]);
    expect(shared?.results[0]?.error?.message).toContain("beside another task");

    const besideLook = holding(0);
    besideLook.hear({ type: "look", id: 1, head });
    expect(besideLook.reportAfter(CRASHED)?.results[0]).toMatchObject({ crashed: true });
  });

  test("I78: suspects nothing that ran beside a suspect on trial, and all once that was over", () => {
    let now = 0;
    const held = new HeldTasks("w", () => now);
    held.hear({ type: "took", lease_id: "l", tasks: [ref(0)] });
    held.hear({ type: "took", lease_id: "m", tasks: [ref(1)], alone_ms: 1_000 });
    for (const key of [0, 1]) held.hear({ type: "began", task: ref(key) });
    now = 999;
    expect(held.reportAfter(CRASHED)?.results).toMatchObject([
      { task_key: 0, released: true },
      { task_key: 1, crashed: true, error: { class: "crash" } },
    ]);
    now = 1_000;
    expect(held.reportAfter(CRASHED)?.results).toMatchObject([
      { crashed: true },
      { crashed: true },
    ]);
  });

  test("I65: gives everything back of a process that did not stop in time", () => {
    const report = holding(0, 1).reportAfter({ type: "killed", reason: "it did not stop." });

    expect(report?.results.every(({ released }) => released === true)).toBe(true);
  });
});
