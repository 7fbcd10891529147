import { taskOf } from "./task-blocks.ts";
import { partitionAt } from "../asset/partition-blocks.ts";
import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { addMs } from "../../kernel/instant.ts";
import { DURATION_MS_MAX } from "../definition/spec.ts";
import { HeartbeatRequest } from "./protocol.ts";
import { requestRun } from "./request.ts";

const NUMBERS = { type: "static", keys: ["1", "2", "3"] };
const IDENTITY = { type: "identity" };

/** A run of some assets over some keys. */
function run(world: LedgerWorld, assets: readonly string[], keys: readonly string[]): void {
  world.submit(requestRun({ request_id: "r", assets, partition_keys: keys }));
}

describe("reportTasks", () => {
  test("I76: records as many results as one decision has room for, at least one", () => {
    const world = new LedgerWorld();
    const batches = ["a", "b", "c", "d"];
    world.publish(...batches.map((asset_key) => ({ asset_key, batch: true, partitions: NUMBERS })));
    run(world, batches, ["1", "2", "3"]);
    const refs = refsOf(world.claim(batches));
    const results = refs.map((ref) => ({ ...ref, outcome: "SUCCEEDED" as const }));
    world.room = { rows: 8, bytes: 1_000 };
    expect(world.report(...results)).toEqual(["recorded", "recorded"]);
    world.room = { rows: 1, bytes: 1 };
    expect(world.report(...results)).toEqual(["lost", "lost", "recorded"]);
    world.room = { rows: 8, bytes: 1_000 };
    expect(world.report(...results)).toEqual(["lost", "lost", "lost", "recorded"]);
    world.settle();
    expect(world.runs()[0]?.state).toBe("SUCCEEDED");
  });

  test("I35: loses the report of an attempt that is not the current one, and keeps the others", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1", "2"]);
    const [one, other] = refsOf(world.claim(["a"]));
    if (one === undefined || other === undefined) throw new Error("Too little was claimed.");

    const verdicts = world.report(
      { ...one, attempt: 2, outcome: "SUCCEEDED" },
      { ...other, outcome: "SUCCEEDED" },
      { ...other, outcome: "FAILED" },
    );

    expect(verdicts).toEqual(["lost", "recorded", "lost"]);
  });

  test("takes a skip with its reason for done", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1"]);
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");

    const error = { class: "skipped", message: "no rows" };
    world.report({ ...ref, outcome: "SKIPPED", error });
    expect(world.read((rows) => taskOf(rows, ref.run_pos, ref.task_key))?.error).toEqual(error);
    world.settle();

    expect(world.runs()[0]?.state).toBe("SUCCEEDED");
  });

  test("I39: releases, after a partly failed batch, what needs only the keys that are there", () => {
    const world = new LedgerWorld();
    const shifted = { type: "offset", by: -1 };
    world.publish(
      { asset_key: "batch", partitions: NUMBERS, batch: true },
      {
        asset_key: "same",
        partitions: NUMBERS,
        upstream: [{ asset_key: "batch", mapping: IDENTITY }],
      },
      {
        asset_key: "later",
        partitions: NUMBERS,
        upstream: [{ asset_key: "batch", mapping: shifted }],
      },
    );
    run(world, ["batch", "same", "later"], ["1", "2", "3"]);
    const [ref] = refsOf(world.claim(["batch"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");

    const exceptions = [{ index: 1, outcome: "FAILED" as const, error: null }];
    world.report({ ...ref, outcome: "SUCCEEDED", exceptions, final: true });
    const groups = world.claim(["same", "later"]);
    const keysOf = (asset: string): string[] =>
      groups
        .filter(({ asset_key }) => asset_key === asset)
        .flatMap(({ tasks }) => tasks.flatMap(({ partition_keys }) => partition_keys));

    expect(keysOf("same")).toEqual(["1", "3"]);
    // The one for 3 is made from 2, which failed; the one for 1 needs nothing of this run.
    expect(keysOf("later")).toEqual(["1"]);
  });

  test("gives a released task back at once, without counting the attempt", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS, retry: { max_attempts: 1 } });
    run(world, ["a"], ["1"]);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const [ref] = refsOf(world.claim(["a"]));
      expect(ref?.attempt).toBe(attempt);
      if (ref !== undefined) world.report({ ...ref, outcome: "FAILED", released: true });
    }
  });
});

describe("a task that is given back", () => {
  test("leaves no attempt on its partitions", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1"]);
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");

    world.report({ ...ref, outcome: "FAILED", released: true });

    expect(world.read((rows) => partitionAt(rows, "a", "1"))).toBeNull();
  });
});

describe("a wait that the function asked for", () => {
  test("is cut to ten years", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1"]);
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");

    world.report({ ...ref, outcome: "FAILED", retry_after_ms: Number.MAX_SAFE_INTEGER });

    const task = world.read((rows) => taskOf(rows, ref.run_pos, ref.task_key));
    expect(task?.retry_at).toBe(addMs(world.now, DURATION_MS_MAX));
  });
});

describe("HeartbeatRequest", () => {
  test.each([
    [3, 10, true],
    [0, null, true],
    [0.5, 1, false],
    [1, 2.5, false],
    [-1, 1, false],
  ])("takes progress in whole numbers from 0: %d of %d", (done, total, taken) => {
    const ref = { run_pos: 1, task_key: 0, attempt: 1 };
    const request = {
      worker_id: "w",
      leases: [],
      tasks: [{ ...ref, progress: { done, total, note: null } }],
    };
    expect(HeartbeatRequest.safeParse(request).success).toBe(taken);
  });
});

describe("keys that attempts add", () => {
  const FILES = { asset_key: "files", partitions: { type: "dynamic", name: "files" } };

  function worldWithFiles(): LedgerWorld {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS, batch: false }, FILES);
    run(world, ["a"], ["1", "2", "3"]);
    return world;
  }

  const adding = (...keys: string[]) => [{ definition: "files", keys }];
  const keysOf = (world: LedgerWorld): string[] =>
    world.read((rows) =>
      rows.dynamicKeys
        .find([{ cell: "definition", is: "=", value: "files" }], [{ cell: "ordinal" }], 100)
        .map(({ partition_key }) => partition_key),
    );
  const typesSince = (world: LedgerWorld, pos: number) =>
    world.events.slice(pos).map(({ type }) => type);

  test("I93: are recorded in the decision that records the success, each once", () => {
    const world = worldWithFiles();
    const [one, other, third] = refsOf(world.claim(["a"]));
    if (one === undefined || other === undefined || third === undefined) throw new Error("none");
    const before = world.pos;
    const verdicts = world.report(
      { ...one, outcome: "SUCCEEDED", added_keys: [...adding("x", "y"), ...adding("x", "z")] },
      { ...other, outcome: "SUCCEEDED", added_keys: adding("y", "w") },
      { ...third, outcome: "SUCCEEDED", added_keys: adding("x") },
    );
    expect(verdicts).toEqual(["recorded", "recorded", "recorded"]);
    expect(keysOf(world)).toEqual(["x", "y", "z", "w"]);
    expect(typesSince(world, before)).toEqual([
      "PartitionKeysAdded",
      "PartitionKeysAdded",
      "TasksFinished",
    ]);
    const again = { ...one, outcome: "SUCCEEDED" as const, added_keys: adding("late") };
    expect(world.report(again)).toEqual(["lost"]);
    expect(keysOf(world)).not.toContain("late");
  });

  test("I93: are not those of an attempt that failed, was skipped, cancelled or lost", () => {
    const world = worldWithFiles();
    const [one, other, third] = refsOf(world.claim(["a"]));
    if (one === undefined || other === undefined || third === undefined) throw new Error("none");
    world.report(
      { ...one, outcome: "FAILED", added_keys: adding("x") },
      { ...other, outcome: "SKIPPED", added_keys: adding("y") },
      { ...third, outcome: "CANCELLED", added_keys: adding("z") },
      { ...third, attempt: 7, outcome: "SUCCEEDED", added_keys: adding("w") },
    );
    expect(keysOf(world)).toEqual([]);
  });

  test("I93: that cannot be added make the attempt fail with the reason, and no other", () => {
    const world = worldWithFiles();
    const [one, other, third] = refsOf(world.claim(["a"]));
    if (one === undefined || other === undefined || third === undefined) throw new Error("none");
    const misspelt = [...adding("x"), { definition: "file", keys: ["y"] }];
    const many = Array.from({ length: 2 }, (_, part) =>
      adding(...Array.from({ length: 6_000 }, (__, n) => `${part}-${n}`)),
    ).flat();
    const verdicts = world.report(
      { ...one, outcome: "SUCCEEDED", added_keys: misspelt },
      { ...other, outcome: "SUCCEEDED", added_keys: adding("z") },
    );
    expect(verdicts).toEqual(["recorded", "recorded"]);
    world.report({ ...third, outcome: "SUCCEEDED", added_keys: many });
    expect(keysOf(world)).toEqual(["z"]);
    const errorOf = (ref: typeof one) =>
      world.read((rows) => taskOf(rows, ref.run_pos, ref.task_key))?.error;
    expect(errorOf(one)).toMatchObject({ class: "input" });
    expect(errorOf(one)?.message).toContain('No asset has the dynamic partitions "file"');
    expect(errorOf(one)?.message).toContain("files");
    expect(errorOf(third)?.message).toContain("12000 keys are to be added to files at once");
  });

  test("I76: take their part of the room of a decision", () => {
    const world = worldWithFiles();
    const refs = refsOf(world.claim(["a"]));
    world.room = { rows: 10, bytes: 1_000 };
    const results = refs.map((ref, at) => ({
      ...ref,
      outcome: "SUCCEEDED" as const,
      added_keys: adding(`${at}-1`, `${at}-2`, `${at}-3`),
    }));
    expect(world.report(...results)).toEqual(["recorded", "recorded"]);
    expect(world.lookUpsOf(() => world.report(...results.slice(2)))).toBeLessThan(10);
    expect(keysOf(world)).toHaveLength(9);
  });

  test("I76: are looked up only of who holds the task, and as far as there is room", () => {
    const world = worldWithFiles();
    const [one, other, third] = refsOf(world.claim(["a"]));
    if (one === undefined || other === undefined || third === undefined) throw new Error("none");
    const many = (name: string) => adding(...Array.from({ length: 50 }, (_, n) => `${name}-${n}`));
    const made = (ref: typeof one, name: string) => {
      return { ...ref, outcome: "SUCCEEDED" as const, added_keys: many(name) };
    };
    const strange = { ...one, attempt: 7 };
    expect(world.rowsLookedUpBy(() => world.report(made(strange, "x")))).toBeLessThan(50);
    world.room = { rows: 60, bytes: 100_000 };
    const looked = world.rowsLookedUpBy(() => world.report(made(one, "y"), made(other, "z")));
    expect(looked).toBeGreaterThan(50);
    expect(looked).toBeLessThan(100);
  });
});

describe("what a result says", () => {
  test("I76: takes its part of the room of a decision, whatever it says", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1", "2", "3"]);
    const refs = refsOf(world.claim(["a"]));
    world.room = { rows: 100, bytes: 2_500 };
    const stretches = Array.from({ length: 100 }, (_, n): [number, number] => [2 * n, 2 * n]);
    const check = { name: "c", severity: "warn", passed: true, partitions: stretches } as const;
    const [one, other, third] = refs;
    if (one === undefined || other === undefined || third === undefined) throw new Error("none");
    const verdicts = world.report(
      { ...one, outcome: "SUCCEEDED", metadata: "x".repeat(1_500) },
      { ...other, outcome: "SUCCEEDED", checks: [check] },
    );
    expect(verdicts).toEqual(["recorded"]);
    const error = { class: "user", message: "x".repeat(2_000) };
    const verdictsOfOthers = world.report(
      { ...other, outcome: "SUCCEEDED", checks: [check] },
      { ...third, outcome: "FAILED", error },
    );
    expect(verdictsOfOthers).toEqual(["recorded"]);
  });
});

describe("checks that block", () => {
  const identity = (asset_key: string) => [{ asset_key, mapping: IDENTITY }];
  const failing = { name: "good", severity: "fail", blocking: true, passed: false } as const;

  function worldOf(): LedgerWorld {
    const world = new LedgerWorld();
    world.publish(
      { asset_key: "batch", partitions: NUMBERS, batch: true, retry: { delay_ms: 0 } },
      { asset_key: "same", partitions: NUMBERS, upstream: identity("batch") },
      { asset_key: "next", partitions: NUMBERS, upstream: identity("same") },
    );
    run(world, ["batch", "same", "next"], ["1", "2", "3"]);
    return world;
  }

  const keysClaimed = (world: LedgerWorld, asset: string): string[] =>
    world.claim([asset]).flatMap(({ tasks }) => tasks.flatMap((task) => task.partition_keys));

  test("I95: hold back just what is made from the partitions that did not pass", () => {
    const world = worldOf();
    const [ref] = refsOf(world.claim(["batch"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    const checks = [{ ...failing, partitions: [[1, 1]] as [number, number][] }];
    world.report({ ...ref, outcome: "SUCCEEDED", checks });
    const partition = world.read((rows) => partitionAt(rows, "batch", "2"));
    expect(partition).toMatchObject({
      last_attempt_outcome: "SUCCEEDED",
      last_materialization_checks: "BLOCKED",
    });
    const other = world.read((rows) => partitionAt(rows, "batch", "1"));
    expect(other?.last_materialization_checks).toBeNull();
    expect(keysClaimed(world, "same")).toEqual(["1", "3"]);
    const held = [1, 2, 3, 4, 5, 6].map((key) =>
      world.read((rows) => taskOf(rows, ref.run_pos, key)),
    );
    const skipped = held.filter((task) => task?.state === "SKIPPED");
    expect(skipped.map((task) => [task?.asset_key, task?.error?.message])).toEqual([
      ["same", "batch did not pass its check good"],
      ["next", "batch did not pass its check good"],
    ]);
  });

  test("I95: do so too where an earlier attempt of the batch has made the partition", () => {
    const world = worldOf();
    const [first] = refsOf(world.claim(["batch"]));
    if (first === undefined) throw new Error("Nothing was claimed.");
    const exceptions = [{ index: 2, outcome: "FAILED" as const, error: null }];
    const checks = [{ ...failing, partitions: [[0, 0]] as [number, number][] }];
    world.report({ ...first, outcome: "SUCCEEDED", exceptions, checks });
    world.pass(1_000);
    const [second] = refsOf(world.claim(["batch"]));
    if (second === undefined) throw new Error("Nothing was claimed.");
    world.report({ ...second, outcome: "SUCCEEDED" });
    expect(keysClaimed(world, "same")).toEqual(["2", "3"]);
  });

  test("are nothing where the attempt did not succeed", () => {
    const world = worldOf();
    const [ref] = refsOf(world.claim(["batch"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    world.report({ ...ref, outcome: "SKIPPED", checks: [failing] });
    expect(keysClaimed(world, "same")).toEqual(["1", "2", "3"]);
  });

  test("results of tasks alike in their checks are one entry of the event", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: NUMBERS });
    run(world, ["a"], ["1", "2", "3"]);
    const [one, two, three] = refsOf(world.claim(["a"]));
    if (one === undefined || two === undefined || three === undefined) throw new Error("none");
    const passed = [{ name: "good", severity: "fail" as const, passed: true }];
    world.report(
      { ...one, outcome: "SUCCEEDED", checks: passed },
      { ...two, outcome: "SUCCEEDED", checks: passed },
      { ...three, outcome: "SUCCEEDED", checks: [{ ...failing }] },
    );
    const finished = world.events.findLast(({ type }) => type === "TasksFinished");
    expect(finished?.data).toMatchObject({ results: [{ count: 2 }, { task_key: 2 }] });
    const statuses = ["1", "2", "3"].map(
      (key) => world.read((rows) => partitionAt(rows, "a", key))?.last_materialization_checks,
    );
    expect(statuses).toEqual(["PASSED", "PASSED", "BLOCKED"]);
  });
});
