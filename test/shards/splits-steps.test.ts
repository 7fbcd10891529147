import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PawlError } from "../../src/kernel/errors.ts";
import type { ClaimedSplit, SplitReport, SplitStep } from "../../src/work/shard/step-protocol.ts";
import { SPLIT_LIMITS, type SplitLimits } from "../../src/worker/steps/split/work.ts";
import { runSplitStep } from "../../src/worker/steps/split/split-steps.ts";
import { Random } from "../simulation/random.ts";
import { type Pair, type Variant, VARIANTS } from "./broken-shards.ts";
import { Application } from "./splits-application.ts";
import { MOVING, TABLES } from "./splits-tables.ts";

let application: Application;
let pair: Pair;
let ledger: { version: number; cutover: number | null; rollback: number | null };
let token: number;
let said: { report: SplitReport; record: string | null }[];

beforeEach(async () => {
  application = new Application(new Random(7), 30);
  pair = await application.openShards();
  ledger = { version: 1, cutover: null, rollback: null };
  token = 0;
  said = [];
});

afterEach(async () => {
  await pair.source.close();
  await pair.target.close();
  application.close();
});

/** Runs a step of a split to its end. */
async function run(
  step: SplitStep,
  given: Partial<ClaimedSplit> & { limits?: Partial<SplitLimits>; variant?: Variant } = {},
): Promise<SplitReport> {
  const { limits = {}, variant, ...claim } = given;
  const inside = variant?.inside;
  const shards =
    inside === undefined
      ? pair
      : { source: inside(pair.source, {}), target: inside(pair.target, {}) };
  let now = 0;
  token += 1;
  return runSplitStep(
    {
      work: "split",
      split_id: "plan",
      step,
      n: 1,
      source: "source",
      target: "target",
      tenants: [...MOVING],
      tables: [...TABLES],
      epochs: MOVING.map(() => 1),
      routing_version_cutover: ledger.cutover,
      routing_version_rollback: ledger.rollback,
      lag_limit_ms: 1_000,
      fence_wait_ms: 50,
      fence_hold_ms: 10_000,
      ddl: null,
      ...claim,
    },
    {
      shard: async (name) => shards[name as keyof Pair],
      token,
      signal: new AbortController().signal,
      now: () => (now += 1),
      pause: async (ms) => {
        now += ms;
      },
      say: async (report, record) => {
        said.push({ report, record });
        if (record === "commit") {
          const field = step === "cutover" ? "cutover" : "rollback";
          ledger[field] ??= ledger.version += 1;
        }
        const routing_version = step === "cutback" ? ledger.rollback : ledger.cutover;
        const stop = record === "caught_up" || step === "reverse";
        return { status: "current", stop, routing_version };
      },
    },
    { ...SPLIT_LIMITS, ...limits },
  );
}

async function codeOf(running: Promise<unknown>): Promise<string> {
  const failure = await running.then(
    () => null,
    (error: unknown) => error,
  );
  return failure instanceof PawlError ? failure.code : String(failure);
}

describe("a split", () => {
  test("I57: catches up over 5,000 changes of other tenants", async () => {
    await run("arm");
    await run("copy");
    application.writeOnce(
      "stays",
      `insert into notes (id, tenant)
        with recursive counted (at) as (select 1 union all select at + 1 from counted where at < 5000)
        select 'many-' || at, 'stays' from counted`,
    );
    application.write("t1");
    application.commit();
    const report = await run("tail", { limits: { changesMax: 100 } });
    expect(said.at(-1)?.record).toBe("caught_up");
    expect(report.lag_events).toBe(0);
    expect(report.verification).toMatchObject({ ok: true, finished: true });
    await run("cutover");
    expect(application.rowsOn("target")).toEqual(application.acknowledgedRows());
  });

  test("I54: tells how many rows of each table were copied", async () => {
    await run("arm");
    const report = await run("copy", { limits: { chunkRows: 2, chunkRowsMax: 2 } });
    const rows = application.acknowledgedRows().length;
    expect(report.rows_copied).toBe(rows);
    expect(report.tables?.map(({ table, done }) => [table, done])).toEqual(
      TABLES.map(({ table }) => [table, true]),
    );
    expect(application.rowsOn("target")).toEqual(application.rowsOn("source"));
  });

  test("I55: tells what it looked at and how long writes stood still", async () => {
    for (const step of ["arm", "copy", "tail"] as const) await run(step);
    const report = await run("cutover");
    expect(report.checks?.every(({ ok }) => ok)).toBe(true);
    expect(report.write_pause_ms).toBeGreaterThan(0);
    expect(await run("cutover")).toEqual({});
    expect(ledger.version).toBe(2);
  });

  test("I55: is not cut over before its copy is complete", async () => {
    await run("arm");
    expect(await codeOf(run("cutover"))).toBe("NOT_YET");
    expect(ledger.cutover).toBeNull();
    expect(application.wouldTake("source", "t1", 1)).toBe(true);
  });

  test("I55: falls back when a write under way does not end in time", async () => {
    for (const step of ["arm", "copy", "tail"] as const) await run(step);
    // What happens right before the fences are closed: a write that stays open.
    const variant: Variant = {
      name: "a long write",
      inside: (shard) =>
        new Proxy(shard, {
          get(on, name) {
            const value = on[name as keyof typeof on];
            if (typeof value !== "function") return value;
            if (name === "closeFences") application.write("t1");
            return (value as () => unknown).bind(on);
          },
        }),
    };
    const busy = codeOf(run("cutover", { variant }));
    setTimeout(() => application.commit(), 300);
    expect(await busy).toBe("FENCE_BUSY");
    application.commit();
    expect(ledger.cutover).toBeNull();
    expect(application.wouldTake("source", "t1", 1)).toBe(true);
    await run("cutover");
    expect(application.rowsOn("target")).toEqual(application.acknowledgedRows());
  });

  test("I55: is stopped by a row that somebody has changed on the target", async () => {
    const stray = "update accounts set n = n + 100 where tenant = 't1'";
    await run("arm");
    await run("copy");
    application.corrupt("target", stray);
    expect(await codeOf(run("tail"))).toBe("VERIFICATION_FAILED");
    // With nobody who compares, it would go through.
    await run("tail", { variant: VARIANTS.NO_VERIFICATION });
    await run("cutover", { variant: VARIANTS.NO_VERIFICATION });
    expect(application.rowsOn("target")).not.toEqual(application.acknowledgedRows());
  });

  test("I54: leaves a row alone that has a key of another tenant's", async () => {
    await run("arm");
    await run("copy");
    const before = application.rowsOn("target", ["native"]);
    application.corrupt(
      "target",
      "insert into accounts (id, tenant, n) values (1000000, 'native', 1)",
    );
    application.corrupt("source", "delete from accounts where id = 1000000");
    application.writeOnce("t1", "insert into accounts (id, tenant, n) values (1000000, 't1', 1)");
    expect(await codeOf(run("tail"))).toBe("ROWS_CONFLICT");
    expect(application.rowsOn("target", ["native"])).toHaveLength(before.length + 1);
  });

  test("I56: that was rolled back can be had again", async () => {
    for (const step of ["arm", "copy", "tail", "cutover", "reverse"] as const) await run(step);
    application.write("t2");
    application.commit();
    await run("cutback");
    const { rows_removed } = await run("discard");
    expect(rows_removed).toBe(application.acknowledgedRows().length);
    expect(application.rowsOn("source")).toEqual(application.acknowledgedRows());
    expect(application.rowsOn("target")).toEqual([]);
    expect(application.wouldTake("target", "t1", 2)).toBe(false);

    ledger = { ...ledger, cutover: null, rollback: null };
    const again = { split_id: "again", epochs: MOVING.map(() => 3) };
    for (const step of ["check", "arm", "copy", "tail", "cutover"] as const) await run(step, again);
    expect(ledger).toEqual({ version: 4, cutover: 4, rollback: null });
    expect(application.rowsOn("target")).toEqual(application.acknowledgedRows());
  });

  test("I56: that owns its tenants cannot be discarded, and one that does not cannot be finished", async () => {
    for (const step of ["arm", "copy", "tail"] as const) await run(step);
    expect(await codeOf(run("finish"))).toBe("STATE_ILLEGAL");
    expect(await codeOf(run("remove"))).toBe("STATE_ILLEGAL");
    await run("cutover");
    expect(await codeOf(run("discard"))).toBe("STATE_ILLEGAL");
    expect(application.rowsOn("target")).toEqual(application.acknowledgedRows());
  });

  test("finds a schema that was changed behind its back", async () => {
    await run("arm");
    await run("copy");
    application.corrupt("source", "alter table notes add column stray integer");
    expect(await codeOf(run("tail"))).toBe("SCHEMA_CHANGED");
  });

  test("does not begin where the tables differ or the target has rows of the tenants", async () => {
    application.writeOnce("native", "update accounts set tenant = 't1' where tenant = 'native'");
    const { checks } = await run("check");
    expect(checks?.filter(({ ok }) => !ok).map(({ check }) => check)).toEqual([
      "target without their rows",
    ]);
    expect(await codeOf(run("arm"))).toBe("ROWS_CONFLICT");
  });
});
