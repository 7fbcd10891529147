import { describe, expect, test } from "vitest";
import { ask, found, SensorWorld } from "../../../test/properties/sensor-world.ts";
import { pauseSensor, resetCursor, resumeSensor } from "./commands.ts";
import { evaluateSensor } from "./evaluate.ts";
import { removePartitionKeys } from "../definition/partition-keys.ts";
import { requestRun } from "../run/request.ts";

const FAILED = { type: "failed", error: { class: "user", message: "no network" } } as const;

describe("evaluateSensor of a poll sensor", () => {
  test("moves the cursor and asks for runs in one decision, each linked to the evaluation", () => {
    const world = new SensorWorld();
    const before = world.pos;
    const result = world.look("c1", ask(), ask({ run_key: "own", labels: { day: "1" } }));
    expect(result).toMatchObject({ verdict: "recorded", status: "triggered" });
    expect(world.typesSince(before)).toEqual(["SensorEvaluated", "RunRequested", "RunRequested"]);
    const row = world.sensor("look");
    expect(row).toMatchObject({
      cursor: "c1",
      state_version: 2,
      evaluations: 1,
      runs_requested: 2,
    });
    const evalId = `${row.sensor_id}:poll:1`;
    expect(world.runs()).toMatchObject([
      {
        run_key: `sensor:${evalId}`,
        class: 1,
        labels: { team: "data" },
        trigger_source_ref: { type: "sensor", sensor_id: row.sensor_id, eval_id: evalId },
      },
      { run_key: `sensor:${row.sensor_id}:key:own`, labels: { team: "data", day: "1" } },
    ]);
    const ids = world.runs().map(({ run_id }) => run_id);
    expect(result.run_requests.map(({ run_id }) => run_id)).toEqual(ids);
  });

  test("I71: records nothing when nothing changed, however often it is told", () => {
    const world = new SensorWorld();
    world.look("c1", ask({ run_key: "own" }));
    const before = world.pos;
    expect(world.look("c1").verdict).toBe("unchanged");
    // The same run asked for again and again is no change either.
    expect(world.look("c1", ask({ run_key: "own" })).verdict).toBe("unchanged");
    expect(world.pos).toBe(before);
    expect(world.look("c2", ask({ run_key: "own" }))).toMatchObject({
      verdict: "recorded",
      run_requests: [{ outcome: "existing" }],
    });
    expect(world.runs()).toHaveLength(1);
  });

  test("I27: finds which conflicts are known with few look-ups, and records each once", () => {
    const world = new SensorWorld();
    const many = (config: number) =>
      Array.from({ length: 50 }, (_, index) => ask({ run_key: `${index}`, config }));
    world.look("c1", ...many(1));
    world.look("c2", ...many(2), ...many(2));
    const conflicts = world.read((rows) => rows.runKeyConflicts.find([], [{ cell: "pos" }], 500));
    expect(conflicts).toHaveLength(50);
    const before = world.pos;
    expect(world.lookUpsOf(() => world.look("c2", ...many(2)))).toBeLessThan(10);
    expect(world.pos).toBe(before);
  });

  test("I76: has a request with more configuration than a run may have refused", () => {
    const world = new SensorWorld();
    const long = ask({ run_key: "long", config: "x".repeat(300_000) });
    expect(world.look("c1", long, ask({ run_key: "short" }))).toMatchObject({
      run_requests: [
        { outcome: "refused", error: { class: "INPUT_INVALID" } },
        { outcome: "created" },
      ],
    });
  });

  test("I26: has no effect at all when the sensor moved meanwhile, and says so once", () => {
    const world = new SensorWorld();
    const [one, other] = [world.begin(), world.begin()];
    const outcome = found("c1", ask());
    expect(world.submit(evaluateSensor({ ...one, outcome })).verdict).toBe("recorded");
    const row = world.sensor("look");
    const before = world.pos;
    const late = world.submit(evaluateSensor({ ...other, outcome }));
    expect(late).toMatchObject({
      verdict: "stale",
      status: "skipped_stale_cursor",
      run_requests: [{ outcome: "void", run_id: null }],
    });
    expect(world.typesSince(before)).toEqual(["SensorEvaluated"]);
    expect(world.sensor("look")).toMatchObject({
      cursor: "c1",
      state_version: row.state_version,
      state: "ACTIVE",
      runs_requested: 1,
    });
    expect(world.runs()).toHaveLength(1);
    expect(world.submit(evaluateSensor({ ...other, outcome })).verdict).toBe("stale");
    expect(world.submit(evaluateSensor({ ...one, outcome })).verdict).toBe("recorded");
    expect(world.pos).toBe(before + 1);
  });

  test("I26: leaves the cursor where it was when it is stale, and does not say the start", () => {
    const world = new SensorWorld();
    world.look("5", ask());
    const [one, other] = [world.begin(), world.begin()];
    world.submit(evaluateSensor({ ...one, outcome: found("6", ask()) }));
    const late = world.submit(evaluateSensor({ ...other, outcome: found("7", ask()) }));
    expect(late).toMatchObject({ verdict: "stale", cursor_before: "5", cursor_after: "5" });
    const row = world.read((rows) =>
      rows.sensorEvals.find([], [{ cell: "pos", descending: true }], 1),
    );
    expect(row).toMatchObject([
      { status: "skipped_stale_cursor", cursor_before: "5", cursor_after: "5" },
    ]);
    expect(world.sensor("look").cursor).toBe("6");
  });

  test("has no effect under the name of another one, as after a clock that went back", () => {
    const world = new SensorWorld();
    const first = world.begin();
    world.submit(evaluateSensor({ ...first, outcome: found("c1", ask()) }));
    const { source } = first;
    const before = world.pos;
    const again = { ...world.begin(), source, outcome: found("c2", ask({ config: 1 })) };
    expect(world.submit(evaluateSensor(again)).verdict).toBe("stale");
    expect(world.pos).toBe(before);
  });

  test("is stale after a pause, a publish and a cursor that somebody moved", () => {
    for (const change of [
      (world: SensorWorld) => world.submit(pauseSensor({ sensor: "look" })),
      (world: SensorWorld) => world.submit(resetCursor({ sensor: "look", cursor: "c0" })),
      (world: SensorWorld) =>
        world.publish({ kind: "sensor", name: "look", mode: "poll", min_interval_ms: 5_000 }),
    ]) {
      const world = new SensorWorld();
      const begun = world.begin();
      change(world);
      const outcome = found("c1", ask());
      expect(world.submit(evaluateSensor({ ...begun, outcome })).verdict).toBe("stale");
      expect(world.runs()).toEqual([]);
    }
  });

  test("keeps the cursor on an error, records it once, and says when it is over", () => {
    const world = new SensorWorld();
    world.look("c1");
    const failed = () => world.submit(evaluateSensor({ ...world.begin(), outcome: FAILED }));
    expect(failed()).toMatchObject({ verdict: "recorded", status: "error" });
    expect(world.sensor("look")).toMatchObject({ state: "ERROR", cursor: "c1", state_version: 2 });
    const before = world.pos;
    expect(failed().verdict).toBe("unchanged");
    expect(failed().verdict).toBe("unchanged");
    expect(world.pos).toBe(before);
    expect(world.look("c1")).toMatchObject({ verdict: "recorded", status: "no_new_data" });
    expect(world.events.at(-1)?.data).toMatchObject({ recovered: true });
    expect(world.sensor("look")).toMatchObject({ state: "ACTIVE", error: null });
    expect(world.look("c1").verdict).toBe("unchanged");
  });

  test("I26: leaves the cursor where a request is refused, and runs once what has a key of its own", () => {
    const world = new SensorWorld();
    const wanted = [
      ask({ asset_selection: ["p"], partition_keys: ["z"] }),
      ask({ asset_selection: ["p"], partition_keys: ["x"] }),
      ask({ asset_selection: ["p"], partition_keys: ["y"], run_key: "own" }),
    ];
    const result = world.look("c1", ...wanted);
    expect(result).toMatchObject({ verdict: "recorded", status: "error", cursor_after: null });
    expect(result.error?.message).toMatch(/^1 of 3 runs could not be asked for: .*"z"/);
    expect(result.run_requests).toMatchObject([
      { outcome: "refused", error: { class: "PARTITION_INVALID" }, run_id: null },
      { outcome: "void", run_id: null },
      { outcome: "created" },
    ]);
    expect(world.sensor("look")).toMatchObject({ cursor: null, state: "ERROR", runs_requested: 1 });
    expect(world.runs()).toMatchObject([{ partition_keys: ["y"] }]);
    // Refused again in the same words, it is no news.
    expect(world.look("c1", ...wanted).verdict).toBe("unchanged");

    world.publish({ asset_key: "p", partitions: { type: "static", keys: ["x", "y", "z"] } });
    const again = world.look("c1", ...wanted);
    const outcomes = again.run_requests.map(({ outcome }) => outcome);
    expect(outcomes.join()).toBe("created,created,existing");
    expect(world.sensor("look")).toMatchObject({ cursor: "c1", state: "ACTIVE", error: null });
    expect(world.runs().map(({ partition_keys }) => partition_keys)).toEqual([["y"], ["z"], ["x"]]);
  });

  test("is an error as a whole when it asks for too many runs", () => {
    const world = new SensorWorld({ max_run_requests: 2 });
    const result = world.look("c1", ask(), ask(), ask());
    expect(result).toMatchObject({ status: "error", run_requests: [] });
    expect(result.error?.message).toContain("asked for 3 runs; at most 2");
    expect(world.sensor("look")).toMatchObject({ cursor: null, state: "ERROR" });
    expect(world.runs()).toEqual([]);
  });

  test("is an error at once where the message is at fault, and tried again where a run is refused", () => {
    const world = new SensorWorld();
    for (const id of ["m1", "m2"]) world.receive(id);
    const many = Array.from({ length: 101 }, () => ask());
    expect(world.evaluated("m1", found(null, ...many), true).verdict).toBe("recorded");
    const refused = found(null, ask({ asset_selection: ["nothing"] }));
    expect(world.evaluated("m2", refused, true).verdict).toBe("unchanged");
  });

  test("I27: rules requests of one evaluation under the same key as it rules all others", () => {
    const world = new SensorWorld();
    const other = { run_key: "k", config: { other: true } };
    const result = world.look(
      "c1",
      ask({ run_key: "k" }),
      ask({ run_key: "k" }),
      ask(other),
      ask(other),
    );
    expect(result.run_requests.map(({ outcome }) => outcome)).toEqual([
      "created",
      "existing",
      "conflict",
      "conflict",
    ]);
    expect(new Set(result.run_requests.map(({ run_id }) => run_id)).size).toBe(1);
    expect(world.runs()).toHaveLength(1);
    const conflicts = world.read((rows) => rows.runKeyConflicts.find([], [{ cell: "pos" }], 10));
    expect(conflicts).toHaveLength(1);
    expect(world.look("c2", ask(other)).run_requests).toMatchObject([{ outcome: "conflict" }]);
  });

  test("holds a thousand requests in one decision of bounded size", () => {
    const world = new SensorWorld({ max_run_requests: 1_000 });
    const before = world.pos;
    const many = (count: number) =>
      Array.from({ length: count }, (_, n) => ask({ run_key: `k${n}` }));
    expect(world.look("c1", ...many(1_000)).status).toBe("error");
    expect(world.look("c1", ...many(999)).status).toBe("triggered");
    expect(world.pos - before).toBe(1 + 1_000);
  });
});

describe("evaluateSensor of a message", () => {
  const asks = found(null, ask());

  test("I25: asks for the runs of a message once, and keeps only that it came", () => {
    const world = new SensorWorld();
    world.receive("m1");
    expect(world.evaluated("m1", asks)).toMatchObject({
      verdict: "recorded",
      cursor_before: null,
      cursor_after: "m1",
    });
    const before = world.pos;
    expect(world.evaluated("m1", asks).verdict).toBe("lost");
    expect(world.evaluated("m2", asks).verdict).toBe("lost");
    expect(world.pos).toBe(before);
    const { sensor_id, state_version, messages_pending } = world.sensor("hook");
    expect({ state_version, messages_pending }).toEqual({ state_version: 1, messages_pending: 0 });
    expect(world.runs()).toMatchObject([{ run_key: `sensor:${sensor_id}:msg:m1` }]);
    const kept = world.read((rows) => rows.sensorMessages.get(sensor_id, "m1"));
    expect(kept).toMatchObject({ state: "EVALUATED", payload: null });
  });

  test("records a message without runs too, and one that failed with what it said", () => {
    const world = new SensorWorld();
    world.receive("m1");
    world.receive("m2");
    world.receive("m3");
    const none = found(null);
    expect(world.evaluated("m1", none)).toMatchObject({
      verdict: "recorded",
      status: "no_new_data",
    });
    expect(world.evaluated("m2", FAILED)).toMatchObject({ verdict: "recorded", status: "error" });
    const { sensor_id, state } = world.sensor("hook");
    expect(state).toBe("ERROR");
    const failed = world.read((rows) => rows.sensorMessages.get(sensor_id, "m2"));
    expect(failed).toMatchObject({ state: "FAILED", payload: 1 });
    world.evaluated("m3", none);
    expect(world.events.at(-1)?.data).toMatchObject({ recovered: true });
    expect(world.sensor("hook").state).toBe("ACTIVE");
  });

  test("keeps the runs of messages apart, whatever their ids are", () => {
    const world = new SensorWorld();
    world.receive("m1");
    world.receive("m1:2");
    world.evaluated("m1", found(null, ask(), ask()));
    const { run_requests } = world.evaluated("m1:2", asks);
    expect(run_requests).toMatchObject([{ outcome: "created" }]);
    expect(world.runs()).toHaveLength(3);
  });

  test("asks for nothing after a pause; the message waits for the resume", () => {
    const world = new SensorWorld();
    world.receive("m1");
    world.submit(pauseSensor({ sensor: "hook" }));
    expect(world.evaluated("m1", asks).verdict).toBe("lost");
    world.submit(resumeSensor({ sensor: "hook" }));
    expect(world.evaluated("m1", asks).verdict).toBe("recorded");
    expect(world.runs()).toHaveLength(1);
  });
});

describe("evaluateSensor on a person's request", () => {
  test("does for a poll sensor what its own look does, also while it is paused", () => {
    const world = new SensorWorld();
    world.submit(pauseSensor({ sensor: "look" }));
    const begun = { ...world.begin(), source: { type: "manual", request_id: "r1" } as const };
    const outcome = found("c1", ask());
    const result = world.submit(evaluateSensor({ ...begun, outcome }));
    expect(result).toMatchObject({ verdict: "recorded", cursor_after: "c1" });
    const { sensor_id } = world.sensor("look");
    expect(world.sensor("look")).toMatchObject({ state: "PAUSED", cursor: "c1", state_version: 3 });
    expect(world.runs()).toMatchObject([{ run_key: `sensor:${sensor_id}:manual:r1` }]);
    const before = world.pos;
    const again = world.submit(evaluateSensor({ ...begun, outcome }));
    expect(again).toEqual({ ...result, keys_added: null });
    expect(world.pos).toBe(before);
  });

  test("tries a sample on a push sensor without touching its messages", () => {
    const world = new SensorWorld();
    world.receive("m1");
    const { sensor_id } = world.sensor("hook");
    const source = { type: "manual", request_id: "r1" } as const;
    const read = { sensor_id, source, cursor: null, expected_state_version: null };
    const outcome = found(null, ask());
    const before = world.pos;
    expect(world.submit(evaluateSensor({ ...read, outcome: FAILED }))).toMatchObject({
      verdict: "unchanged",
      status: "error",
    });
    expect(world.pos).toBe(before);
    expect(world.submit(evaluateSensor({ ...read, outcome })).verdict).toBe("recorded");
    expect(world.runs()).toMatchObject([{ run_key: `sensor:${sensor_id}:manual:r1` }]);
    expect(world.sensor("hook")).toMatchObject({ messages_pending: 1, state_version: 1 });
  });

  test("reckons what would happen on a snapshot, with nothing recorded", () => {
    const world = new SensorWorld();
    world.submit(requestRun({ request_id: "r", assets: ["a"] }));
    const before = world.pos;
    const outcome = found("c1", ask());
    const { result } = world.evaluate(evaluateSensor({ ...world.begin(), outcome }));
    expect(result).toMatchObject({ status: "triggered", run_requests: [{ outcome: "created" }] });
    expect(world.pos).toBe(before);
  });
});

describe("an evaluation that adds keys", () => {
  const dimensions = {
    day: { type: "static", keys: ["mon", "tue"] },
    tenant: { type: "dynamic", name: "tenants" },
  };

  function worldWithKeys(): SensorWorld {
    const world = new SensorWorld();
    world.publish(
      { asset_key: "files", partitions: { type: "dynamic", name: "files" } },
      { asset_key: "grid", partitions: { type: "multi", dimensions } },
    );
    return world;
  }

  const files = (partition_keys: string[], given: object = {}) =>
    ask({ asset_selection: ["files"], partition_keys, ...given });

  function look(world: SensorWorld, outcome: object, ...requests: ReturnType<typeof ask>[]) {
    const found_ = { ...found("c1", ...requests), ...outcome };
    return world.submit(evaluateSensor({ ...world.begin(), outcome: found_ }));
  }

  const keysOf = (world: SensorWorld, name: string): string[] =>
    world.read((rows) =>
      rows.dynamicKeys
        .find([{ cell: "definition", is: "=", value: name }], [{ cell: "ordinal" }], 100)
        .map(({ partition_key }) => partition_key),
    );

  test("I89: records keys, runs and the cursor in one decision", () => {
    const world = worldWithKeys();
    const before = world.pos;
    const added_keys = [{ definition: "files", keys: ["a", "b", "a"] }];
    const result = look(world, { added_keys }, files(["b", "c"], { add: true }), files(["a"]));
    expect(world.typesSince(before)).toEqual([
      "PartitionKeysAdded",
      "SensorEvaluated",
      "RunRequested",
      "RunRequested",
    ]);
    expect(result).toMatchObject({
      status: "triggered",
      keys_added: [{ definition: "files", keys: ["a", "b", "c"] }],
    });
    expect(keysOf(world, "files")).toEqual(["a", "b", "c"]);
    expect(world.runs().map(({ partition_keys }) => partition_keys)).toEqual([["b", "c"], ["a"]]);
    expect(world.sensor("look")).toMatchObject({ cursor: "c1", runs_requested: 2 });
  });

  test("adds what the keys of several dimensions say of the dynamic ones", () => {
    const world = worldWithKeys();
    const keys = ["day=mon,tenant=a%2Cb", "day=tue,tenant=c"];
    look(world, {}, ask({ asset_selection: ["grid"], partition_keys: keys, add: true }));
    expect(keysOf(world, "tenants")).toEqual(["a,b", "c"]);
    expect(world.runs()[0]?.partition_keys).toEqual(keys);
  });

  test("I71: adds nothing that is there, and without a change records nothing", () => {
    const world = worldWithKeys();
    look(world, {}, files(["a"], { add: true, run_key: "a" }));
    const before = world.pos;
    const added_keys = [{ definition: "files", keys: ["a"] }];
    const again = look(world, { added_keys }, files(["a"], { add: true, run_key: "a" }));
    expect(again).toMatchObject({ verdict: "unchanged", keys_added: [] });
    expect(world.pos).toBe(before);
  });

  test("records keys alone, too, and brings removed ones back", () => {
    const world = worldWithKeys();
    look(world, { added_keys: [{ definition: "files", keys: ["a", "b"] }] });
    const remove = { asset_key: "files", request_id: "r", keys: ["a"] };
    world.submit(removePartitionKeys(remove));
    const before = world.pos;
    const made = look(world, { added_keys: [{ definition: "files", keys: ["a"] }], cursor: "c2" });
    expect(made).toMatchObject({ status: "triggered", run_requests: [] });
    expect(world.typesSince(before)).toEqual(["PartitionKeysRestored", "SensorEvaluated"]);
  });

  test.each([
    [
      "a key of other dimensions",
      [{ asset_selection: ["grid"], partition_keys: ["day=sun,tenant=x"] }],
    ],
    ["no key of several dimensions", [{ asset_selection: ["grid"], partition_keys: ["x"] }]],
    ["a key that none can be", [{ asset_selection: ["files"], partition_keys: ["a\u0001"] }]],
    ["an asset without dynamic partitions", [{ asset_selection: ["p"], partition_keys: ["z"] }]],
    ["an asset that is not there", [{ asset_selection: ["none"], partition_keys: ["z"] }]],
  ])("I89: adds and asks for nothing where there is %s", (_name, given) => {
    const world = worldWithKeys();
    const requests = given.map((each) => ask({ ...each, add: true }));
    const added_keys = [{ definition: "files", keys: ["a"] }];
    const result = look(world, { added_keys }, files(["a"], { run_key: "own" }), ...requests);
    expect(result).toMatchObject({ status: "error", error: { class: "refused" }, keys_added: [] });
    expect(result.run_requests.map(({ outcome }) => outcome)).toEqual(["void", "refused"]);
    expect(keysOf(world, "files")).toEqual([]);
    expect(world.runs()).toEqual([]);
    expect(world.sensor("look")).toMatchObject({ cursor: null, state: "ERROR" });
  });

  test("I89: refuses a definition that no asset has, with those there are", () => {
    const world = worldWithKeys();
    const added_keys = [{ definition: "file", keys: ["a"] }];
    const { error, status } = look(world, { added_keys }, ask());
    expect(status).toBe("error");
    expect(error?.message).toContain('No asset has the dynamic partitions "file"');
    expect(error?.message).toContain("files, tenants");
    expect(world.runs()).toEqual([]);
  });

  test("I89: adds nothing when the sensor moved meanwhile", () => {
    const world = worldWithKeys();
    const [one, other] = [world.begin(), world.begin()];
    world.submit(evaluateSensor({ ...one, outcome: found("c1", ask()) }));
    const late = { ...found("c2", files(["a"], { add: true })) };
    expect(world.submit(evaluateSensor({ ...other, outcome: late }))).toMatchObject({
      verdict: "stale",
      keys_added: [],
    });
    expect(keysOf(world, "files")).toEqual([]);
  });

  test("I89: leaves a message for another try where a run is refused", () => {
    const world = worldWithKeys();
    world.receive("m1");
    const wrong = ask({ asset_selection: ["p"], partition_keys: ["no"] });
    const outcome = found(null, files(["a"], { add: true, run_key: "own" }), wrong);
    const before = world.pos;
    expect(world.evaluated("m1", outcome, true)).toMatchObject({ verdict: "unchanged" });
    expect(world.pos).toBe(before);
    expect(keysOf(world, "files")).toEqual([]);
  });
});
