import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ask, found, SensorServer } from "../../../test/sensor-server.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { ClaimedProbe, EvaluationOutcome } from "../../work/probe-protocol.ts";
import { pauseSensor, resetCursor, resumeSensor } from "../../work/sensor/commands.ts";

const FAILED = { type: "failed", error: { class: "user", message: "no network" } } as const;
const TARGET = { asset_selection: ["p"], partition_key: "{payload.region}" };
const SENSORS = [
  { kind: "sensor", name: "look", mode: "poll", min_interval_ms: 10_000 },
  { kind: "sensor", name: "hook", mode: "push" },
  { kind: "sensor", name: "declared", mode: "push", target: TARGET },
] as const;

let server: SensorServer;

beforeEach(async () => {
  server = await SensorServer.start();
  await server.publish({ asset_key: "a" });
  await server.publish({ asset_key: "p", partitions: { type: "static", keys: ["eu", "us"] } });
  await server.publish(...SENSORS);
});

afterEach(async () => {
  expect(server.warnings).toEqual([]);
  await server.close();
});

/** Forgets every probe, as a side table may. */
async function loseProbes(): Promise<void> {
  for (const { name } of SENSORS) {
    const { sensor_id } = await server.sensor(name);
    await server.store.removeProbes(1, ["poll", "message", "manual"], sensor_id);
  }
}

describe("a poll sensor", () => {
  test("is due at once, one evaluation at a time, and again after its interval", async () => {
    const probe = await server.claimOne("look");
    expect(probe).toMatchObject({ kind: "poll", name: "look", cursor: null, attempt: 1 });
    expect(await server.claim(["look"])).toEqual([]);
    expect(await server.report(probe, found("c1", ask()))).toBe("recorded");
    expect(await server.runs()).toHaveLength(1);
    await server.pass(9_999);
    expect(await server.claim(["look"])).toEqual([]);
    await server.pass(1);
    const next = await server.claimOne("look");
    expect(next).toMatchObject({ cursor: "c1", expected_state_version: 2, attempt: 2 });
    expect(await server.report(next, found("c1"))).toBe("unchanged");
  });

  test("is given only to a worker that has its code", async () => {
    expect(await server.claim(["other"])).toEqual([]);
    expect(await server.claim(["look", "other"])).toHaveLength(1);
  });

  test("is somebody else's once its lease ran out, and a late report is lost", async () => {
    const probe = await server.claimOne("look");
    await server.pass(15_000);
    const again = await server.claimOne("look");
    expect(again.attempt).toBe(2);
    const before = await server.pos();
    expect(await server.report(probe, found("c1", ask()))).toBe("lost");
    expect(await server.pos()).toBe(before);
    expect(await server.report(again, found("c1", ask()))).toBe("recorded");
    expect(await server.report(again, found("c1", ask()))).toBe("lost");
    expect(await server.runs()).toHaveLength(1);
  });

  test("wakes a claim that waits when it falls due, and when somebody resumes it", async () => {
    await server.report(await server.claimOne("look"), found("c1"));
    const request = { worker_id: "w", sensors: ["look"], slots: 1, wait_ms: 30_000 };
    // No claim waits for longer than half a lease.
    await server.pass(5_000);
    const waiting = server.engine.claimProbes(request);
    await server.pass(5_000);
    expect((await waiting).probes).toHaveLength(1);

    await server.submit(pauseSensor({ sensor: "look" }));
    const again = server.engine.claimProbes(request);
    await server.pass(5_000);
    await server.submit(resumeSensor({ sensor: "look" }));
    expect((await again).probes).toMatchObject([{ cursor: "c1" }]);
  });

  test("gives nothing when the wait is over or its caller goes, and takes no lease then", async () => {
    await server.report(await server.claimOne("look"), found("c1"));
    const request = { worker_id: "w", sensors: ["look"], slots: 1, wait_ms: 5_000 };
    const waiting = server.engine.claimProbes(request);
    await server.pass(5_000);
    expect((await waiting).probes).toEqual([]);
    const gone = new AbortController();
    const aborted = server.engine.claimProbes(request, gone.signal);
    await server.quiet();
    gone.abort();
    expect((await aborted).probes).toEqual([]);
    await server.pass(5_000);
    expect(await server.claimOne("look")).toMatchObject({ attempt: 2 });
  });

  test("waits longer the more often it fails, is in error once, and recovers", async () => {
    await server.report(await server.claimOne("look"), FAILED);
    expect(await server.sensor("look")).toMatchObject({ state: "ERROR", error: FAILED.error });
    const before = await server.pos();
    for (const wait of [20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
      await server.pass(wait - 1);
      expect(await server.claim(["look"])).toEqual([]);
      await server.pass(1);
      expect(await server.report(await server.claimOne("look"), FAILED)).toBe("unchanged");
    }
    expect(await server.pos()).toBe(before);
    await server.pass(300_000);
    expect(await server.report(await server.claimOne("look"), found(null))).toBe("recorded");
    expect(await server.sensor("look")).toMatchObject({ state: "ACTIVE", error: null });
    await server.pass(10_000);
    expect(await server.report(await server.claimOne("look"), found(null))).toBe("unchanged");
  });

  test("goes on from where somebody put the cursor, without waiting for its interval", async () => {
    await server.report(await server.claimOne("look"), found("c1"));
    await server.pass(10_000);
    await server.report(await server.claimOne("look"), found("c2"));
    await server.pass(1);
    await server.submit(resetCursor({ sensor: "look", cursor: "c1", reason: "again" }));
    const rewound = await server.claimOne("look");
    expect(rewound.cursor).toBe("c1");
    await server.submit(resetCursor({ sensor: "look", cursor: null }));
    expect(await server.report(rewound, found("c2", ask()))).toBe("stale");
    expect(await server.runs()).toEqual([]);
    await server.pass(1);
    expect(await server.claimOne("look")).toMatchObject({ cursor: null });
  });

  test("I26: of two evaluators on one cursor one is applied, the other has no effect", async () => {
    const one = await server.claimOne("look");
    await server.engine.requestEvaluation({
      sensor: "look",
      request_id: "r1",
      dry_run: false,
      message: null,
    });
    const two = await server.claimOne("look");
    const { cursor, expected_state_version } = one;
    expect(two).toMatchObject({ cursor, expected_state_version });
    expect(await server.report(two, found("c1", ask()))).toBe("recorded");
    expect(await server.report(one, found("c9", ask(), ask()))).toBe("stale");
    expect(await server.sensor("look")).toMatchObject({ cursor: "c1", state_version: 2 });
    expect(await server.runs()).toHaveLength(1);
    const evaluated = (await server.events()).filter(({ type }) => type === "SensorEvaluated");
    expect(evaluated.map(({ data }) => JSON.parse(data) as object)).toMatchObject([
      { status: "triggered", state_version: 2 },
      {
        status: "skipped_stale_cursor",
        state_version: null,
        run_requests: [{ outcome: "void" }, { outcome: "void" }],
      },
    ]);
    // What the sensor was moved to is looked at without delay.
    await server.pass(1);
    expect((await server.claimOne("look")).cursor).toBe("c1");
  });

  test("I71: adds no event while nothing changes, whatever is asked and looked at", async () => {
    await server.report(await server.claimOne("look"), found(null));
    const before = await server.pos();
    for (let round = 0; round < 50; round++) {
      await server.pass(10_000);
      const [probe] = await server.claim(["look", "hook"]);
      if (probe !== undefined) await server.report(probe, found(null));
    }
    expect(await server.pos()).toBe(before);
    const status = await server.engine.sensorStatus();
    expect(status.evaluations).toMatchObject({ unchanged: 51, triggered: 0 });
  });

  test("is evaluated again after all probes were lost, from the rows alone", async () => {
    await server.report(await server.claimOne("look"), found("c1"));
    await loseProbes();
    await server.pass(30_000);
    expect(await server.claimOne("look")).toMatchObject({ cursor: "c1", attempt: 1 });
  });

  test("is not claimed while it is paused", async () => {
    await server.submit(pauseSensor({ sensor: "look" }));
    await server.pass(60_000);
    expect(await server.claim(["look"])).toEqual([]);
  });
});

describe("a push sensor", () => {
  test("I25: makes one run of a message that comes 20 times, 5 at once, also after a restart", async () => {
    const results: string[] = [];
    for (let round = 0; round < 4; round++) {
      const five = Array.from({ length: 5 }, () => server.receive("hook", "m1"));
      results.push(...(await Promise.all(five)));
      const probes = await server.claim(["hook"]);
      expect(probes.length).toBeLessThanOrEqual(1);
      for (const probe of probes) {
        expect(probe.message).toMatchObject({ message_id: "m1", payload: 1 });
        if (round === 1) expect(await server.report(probe, found(null, ask()))).toBe("recorded");
      }
      if (round === 0) await server.pass(100_000);
      await server.restart();
    }
    expect(results.filter((result) => result === "received")).toHaveLength(1);
    expect(results).toHaveLength(20);
    expect(await server.runs()).toHaveLength(1);
    expect(await server.sensor("hook")).toMatchObject({
      messages_received: 1,
      messages_pending: 0,
    });
  });

  test("is evaluated by the server itself when its target says all there is to say", async () => {
    await server.receive("declared", "m1", { region: "eu" });
    expect(await server.runs()).toMatchObject([{ partition_keys: ["eu"] }]);
    await server.receive("declared", "m3", { city: "Paris" });
    const { state, error } = await server.sensor("declared");
    expect(state).toBe("ERROR");
    expect(error?.message).toContain("payload.region");
  });

  test("I25: tries a message whose run is refused again, and records at last that it failed", async () => {
    await server.receive("declared", "m1", { region: "mars" });
    for (const wait of [2_000, 4_000, 8_000, 16_000]) {
      expect(await server.sensor("declared")).toMatchObject({ messages_pending: 1, error: null });
      await server.pass(wait);
    }
    const message = expect.stringContaining('"mars"') as string;
    const failed = { state: "ERROR", messages_pending: 0, error: { class: "refused", message } };
    expect(await server.sensor("declared")).toMatchObject(failed);
  });

  test("tries a message up to five times, then records that it failed", async () => {
    await server.receive("hook", "m1");
    for (const wait of [2_000, 4_000, 8_000, 16_000]) {
      expect(await server.report(await server.claimOne("hook"), FAILED)).toBe("unchanged");
      await server.pass(wait - 1);
      expect(await server.claim(["hook"])).toEqual([]);
      await server.pass(1);
    }
    expect(await server.sensor("hook")).toMatchObject({ state: "ACTIVE", messages_pending: 1 });
    expect(await server.report(await server.claimOne("hook"), FAILED)).toBe("recorded");
    expect(await server.sensor("hook")).toMatchObject({ state: "ERROR", messages_pending: 0 });
    await server.pass(600_000);
    expect(await server.claim(["hook"])).toEqual([]);
  });

  test("keeps messages while it is paused and evaluates them after the resume", async () => {
    await server.submit(pauseSensor({ sensor: "hook" }));
    await server.submit(pauseSensor({ sensor: "declared" }));
    await server.receive("hook", "m1");
    await server.receive("declared", "m1", { region: "us" });
    await server.pass(60_000);
    expect(await server.claim(["hook"])).toEqual([]);
    expect(await server.runs()).toEqual([]);
    await server.submit(resumeSensor({ sensor: "hook" }));
    await server.submit(resumeSensor({ sensor: "declared" }));
    expect(await server.runs()).toHaveLength(1);
    expect((await server.claimOne("hook")).message?.message_id).toBe("m1");
  });

  test("lets an evaluation that a pause overtook ask for nothing", async () => {
    await server.receive("hook", "m1");
    const probe = await server.claimOne("hook");
    await server.submit(pauseSensor({ sensor: "hook" }));
    expect(await server.report(probe, found(null, ask()))).toBe("lost");
    expect(await server.runs()).toEqual([]);
    await server.submit(resumeSensor({ sensor: "hook" }));
    const again = await server.claimOne("hook");
    expect(await server.report(again, found(null, ask()))).toBe("recorded");
  });

  test("loses no message with its probe", async () => {
    await server.receive("hook", "m1");
    await loseProbes();
    expect(await server.claim(["hook"])).toEqual([]);
    await server.pass(30_000);
    expect((await server.claimOne("hook")).message?.message_id).toBe("m1");
  });
});

describe("an evaluation that is recorded but not settled", () => {
  /** The server dies, or the store does, just after the commit. */
  async function reportAndDie(probe: ClaimedProbe, outcome: EvaluationOutcome): Promise<void> {
    const settle = server.store.settleProbes.bind(server.store);
    server.store.settleProbes = () =>
      Promise.reject(new PawlError("STORE_UNAVAILABLE", "The store is away."));
    await expect(server.report(probe, outcome)).rejects.toThrow("The store is away.");
    server.store.settleProbes = settle;
  }

  test("has one effect when the worker tells of it again", async () => {
    const polled = await server.claimOne("look");
    await reportAndDie(polled, found("c1", ask()));
    await server.receive("hook", "m1");
    const message = await server.claimOne("hook");
    await reportAndDie(message, found(null, ask()));
    const before = await server.pos();
    expect(await server.report(polled, found("c1", ask()))).toBe("recorded");
    expect(await server.report(message, found(null, ask()))).toBe("lost");
    expect(await server.pos()).toBe(before);
    expect(await server.runs()).toHaveLength(2);
  });

  test("has one effect when another evaluates after the lease ran out", async () => {
    await reportAndDie(await server.claimOne("look"), found("c1", ask({ run_key: "k" })));
    await server.receive("hook", "m1");
    await reportAndDie(await server.claimOne("hook"), found(null, ask()));
    await server.restart();
    await server.pass(100_000);
    const again = await server.claimOne("look");
    expect(again.cursor).toBe("c1");
    expect(await server.report(again, found("c1", ask({ run_key: "k" })))).toBe("unchanged");
    expect(await server.claim(["hook"])).toEqual([]);
    expect(await server.runs()).toHaveLength(2);
  });
});

describe("a person's evaluation", () => {
  const request = { request_id: "r1", dry_run: false, message: null };
  const sample = {
    message_id: "sample",
    source: "webhook",
    type: null,
    attributes: {},
    payload: { region: "eu" },
    published_at: null,
  } as const;

  test("runs a sensor's code on a worker, and says what came of it", async () => {
    await server.report(await server.claimOne("look"), found("c1"));
    const { probe_id } = await server.engine.requestEvaluation({ ...request, sensor: "look" });
    const probe = await server.claimOne("look");
    expect(probe).toMatchObject({ kind: "manual", cursor: "c1", expected_state_version: 2 });
    expect(await server.engine.awaitEvaluation(probe_id, 0)).toEqual({ state: "pending" });
    const awaited = server.engine.awaitEvaluation(probe_id, 10_000);
    expect(await server.report(probe, found("c2", ask()))).toBe("recorded");
    await server.pass(100);
    expect(await awaited).toMatchObject({
      state: "done",
      evaluation: { status: "triggered", cursor_before: "c1", cursor_after: "c2" },
    });
    expect(await server.runs()).toHaveLength(1);
    const repeated = await server.engine.requestEvaluation({ ...request, sensor: "look" });
    expect(await server.engine.awaitEvaluation(repeated.probe_id, 0)).toMatchObject({
      state: "done",
    });
  });

  test("changes nothing as a dry run, and says what it would change", async () => {
    const { sensor_id } = await server.sensor("declared");
    const before = await server.pos();
    const { probe_id } = await server.engine.requestEvaluation({
      ...request,
      sensor: sensor_id,
      dry_run: true,
      message: sample,
    });
    await server.quiet();
    expect(await server.engine.awaitEvaluation(probe_id, 0)).toMatchObject({
      state: "done",
      evaluation: {
        status: "triggered",
        run_requests: [{ outcome: "created", partition_selection: ["eu"] }],
      },
    });
    expect(await server.pos()).toBe(before);
    expect(await server.runs()).toEqual([]);
  });

  test("is forgotten after a while, whether it was made or not", async () => {
    const done = { ...request, sensor: "declared", message: sample };
    const made = await server.engine.requestEvaluation(done);
    const open = await server.engine.requestEvaluation({ ...request, sensor: "look" });
    await server.pass(640_000);
    for (const { probe_id } of [made, open]) {
      expect(await server.engine.awaitEvaluation(probe_id, 0)).toEqual({ state: "gone" });
    }
    expect(await server.runs()).toHaveLength(1);
  });

  test("needs a message for a push sensor, none for a poll sensor, and a sensor", async () => {
    const asked = async (given: object) => {
      try {
        await server.engine.requestEvaluation({ ...request, sensor: "look", ...given });
        return null;
      } catch (error) {
        return (error as { code?: string }).code;
      }
    };
    expect(await asked({ sensor: "hook" })).toBe("INPUT_INVALID");
    expect(await asked({ message: sample })).toBe("INPUT_INVALID");
    expect(await asked({ sensor: "nothing" })).toBe("SENSOR_NOT_FOUND");
  });
});
