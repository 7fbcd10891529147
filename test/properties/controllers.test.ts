import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cancelRun } from "../../src/work/run/cancel.ts";
import {
  cancelBackfill,
  pauseBackfill,
  resumeBackfill,
  retuneBackfill,
} from "../../src/work/backfill/commands.ts";
import {
  createBackfill,
  type CreateBackfillInput,
  previewBackfill,
  retryBackfill,
} from "../../src/work/backfill/create.ts";
import {
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../src/work/schedule/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { planChunks } from "../../src/work/backfill/advance.ts";
import { requestRun } from "../../src/work/run/request.ts";
import { settleRun } from "../../src/work/run/settle.ts";
import { tickSchedule } from "../../src/work/schedule/tick.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { pendingChunks, pendingPartitions } from "../../src/work/backfill/fold.ts";
import type { ReportedResult, TaskRef } from "../../src/work/run/protocol.ts";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import type { EventData } from "../../src/work/events.ts";
import { LedgerWorld, refsOf } from "./ledger-world.ts";

const KEYS = ["1", "2", "3", "4", "5", "6"];
const ASSETS = ["batch", "each", "lone", "next"];
const SCHEDULES = [
  { name: "one-at-a-time", cron: "*/7 * * * * *", asset_selection: ["lone"], overlap: "skip" },
  {
    name: "one-waits",
    cron: "*/5 * * * * *",
    asset_selection: ["lone", "next"],
    overlap: "buffer_one",
    jitter_ms: 3_000,
  },
  {
    name: "all-there-is",
    cron: "* * * * *",
    asset_selection: ["batch"],
    selection: { type: "all" },
    catch_up_on_resume: true,
  },
  {
    name: "what-is-stale",
    cron: "*/30 * * * * *",
    asset_selection: ["batch", "each"],
    selection: { type: "stale", limit: 4 },
  },
];
const identity = (asset_key: string) => [{ asset_key, mapping: { type: "identity" } }];

function project(): LedgerWorld {
  const world = new LedgerWorld();
  const partitions = { type: "static", keys: KEYS };
  const retry = { max_attempts: 2, delay_ms: 100, jitter: 0 };
  world.publish(
    { kind: "pool", pool: "narrow", limit: 2 },
    { asset_key: "batch", partitions, batch: true, bisect: true, retry },
    { asset_key: "each", partitions, pool: "narrow", retry, upstream: identity("batch") },
    { asset_key: "lone", retry },
    { asset_key: "next", retry, upstream: [{ asset_key: "lone", mapping: { type: "all" } }] },
    ...SCHEDULES.map((schedule) => ({ kind: "schedule", ...schedule })),
  );
  return world;
}

const FAILED_ONLY = { missing: false, outcomes: ["FAILED"] } as const;

/** One thing that somebody does; each number picks what and to whom. */
type Act = readonly [what: number, whom: number, how: number];

const history: fc.Arbitrary<Act[]> = fc.array(fc.tuple(fc.nat(13), fc.nat(7), fc.nat(7)), {
  maxLength: 40,
});

/** The world after a history; what is refused is part of it. */
function lived(acts: readonly Act[]): LedgerWorld {
  const world = project();
  const held: TaskRef[] = [];
  for (const act of acts) {
    try {
      live(world, held, act);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
    }
  }
  return world;
}

function wish(whom: number, how: number): CreateBackfillInput {
  return {
    client_request_id: `${whom}-${how}`,
    assets: [["batch"], ["batch", "each"], ["lone", "next"]][whom % 3] ?? [],
    // Of assets without partitions there is nothing but all.
    selector:
      how % 2 === 0 || whom % 3 === 2 ? { type: "all" } : { type: "range", start: "2", end: "5" },
    chunk_size: 1 + (how % 4),
    max_concurrent_runs: 1 + (whom % 3),
    order: how % 3 === 0 ? "descending" : "ascending",
    priority: 0,
    allow_overlap: true,
    continue_on_failure: false,
    ...(whom === 7 ? { failure_limit: { count: 1 } } : {}),
  };
}

function live(world: LedgerWorld, held: TaskRef[], [what, whom, how]: Act): void {
  const backfill_id = world.backfills()[whom]?.backfill_id ?? "none";
  const run_id = world.runs()[whom]?.run_id ?? "none";
  switch (what) {
    case 0:
      world.submit(createBackfill(wish(whom, how)));
      return;
    case 1:
      world.submit(requestRun({ request_id: `${whom}`, assets: ["lone", "next"] }));
      return;
    case 2:
      world.submit(
        how % 2 === 0 ? pauseBackfill({ backfill_id }) : resumeBackfill({ backfill_id }),
      );
      return;
    case 3:
      world.submit(cancelBackfill({ backfill_id, now: how % 2 === 0 }));
      return;
    case 4:
      world.submit(cancelRun({ run_id }));
      return;
    case 5:
      world.submit(retuneBackfill({ backfill_id, max_concurrent_runs: 1 + how }));
      return;
    case 6:
      world.submit(retryBackfill({ backfill_id, retry_request_id: "r", missing: how % 2 === 0 }));
      return;
    case 7:
      world.pass([1, 100, 5_000, 40_000][how % 4] ?? 1);
      return;
    case 8:
    case 9:
      held.push(...refsOf(world.claim(ASSETS, 1 + how)));
      return;
    case 10:
      world.submit(changeSchedule(whom, how));
      return;
    default:
      report(world, held, whom, how);
  }
  world.settle();
}

function changeSchedule(whom: number, how: number): Decide<unknown> {
  const schedule = SCHEDULES[whom % SCHEDULES.length]?.name ?? "none";
  if (how % 3 === 0) return pauseSchedule({ schedule });
  return how % 3 === 1 ? resumeSchedule({ schedule }) : triggerSchedule({ schedule });
}

function report(world: LedgerWorld, held: TaskRef[], whom: number, how: number): void {
  const [ref] = held.splice(whom % Math.max(1, held.length), 1);
  if (ref === undefined) {
    world.settle();
    return;
  }
  const exceptions = [{ index: 0, outcome: "FAILED" as const, error: null }];
  const ends: Omit<ReportedResult, keyof TaskRef>[] = [
    { outcome: "SUCCEEDED" },
    { outcome: "SUCCEEDED" },
    { outcome: "SUCCEEDED", exceptions },
    { outcome: "FAILED" },
    { outcome: "FAILED", final: true },
    { outcome: "FAILED", released: true },
    { outcome: "SKIPPED" },
    { outcome: "CANCELLED" },
  ];
  world.report({ ...ref, ...(ends[how] ?? { outcome: "SUCCEEDED" }) });
  world.settle();
}

// Goal: what controllers promise, on every history that could have happened. Method: live a random
// history of people, workers and time, and ask the controllers at its end.
describe("controllers", () => {
  test("settle: once they have had their way they have nothing to add", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        world.settle();
        const context = world.context();
        for (const run of world.runs()) {
          expect(world.read((rows) => settleRun(rows, run, context))).toEqual([]);
        }
        for (const backfill of world.backfills()) {
          expect(world.read((rows) => planChunks(rows, backfill, context))).toEqual([]);
        }
        for (const schedule of world.schedules()) {
          expect(world.read((rows) => tickSchedule(rows, schedule, context))).toEqual([]);
        }
      }),
      { numRuns: 150 },
    );
  });

  test("I33: leave counters that add up, with nothing below zero", () => {
    fc.assert(
      fc.property(history, (acts) => {
        for (const backfill of lived(acts).backfills()) {
          for (const [cell, value] of Object.entries(backfill)) {
            if (/^(?:chunks|partitions)_/.test(cell)) expect(value, cell).toBeGreaterThanOrEqual(0);
          }
          expect(pendingChunks(backfill)).toBeGreaterThanOrEqual(0);
          expect(pendingPartitions(backfill)).toBeGreaterThanOrEqual(0);
          if (backfill.finished_at !== null) expect(pendingPartitions(backfill)).toBe(0);
        }
      }),
      { numRuns: 150 },
    );
  });

  test("I11: decide the same when asked twice about the same rows", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        world.pass(60_000);
        const context = world.context();
        for (const run of world.runs()) {
          const one = world.read((rows) => settleRun(rows, run, context));
          const other = world.read((rows) => settleRun(rows, run, context));
          expect(canonicalJson(one)).toBe(canonicalJson(other));
        }
        for (const schedule of world.schedules()) {
          const one = world.read((rows) => tickSchedule(rows, schedule, context));
          const other = world.read((rows) => tickSchedule(rows, schedule, context));
          // Each time a backfill is made anew it gets another id.
          expect(one.map(({ type }) => type)).toEqual(other.map(({ type }) => type));
        }
      }),
      { numRuns: 50 },
    );
  });
});

/** Follows which pairs of asset and partition are being made, and which are; nothing may be so twice. */
class OnceOnly {
  readonly done = new Set<string>();
  readonly #open = new Map<string, number>();
  readonly #runs = new Map<number, { asset: string; pairs: string[] }[]>();
  #read = 0;

  see(world: LedgerWorld): void {
    for (const event of world.events.slice(this.#read)) {
      if (event.type === "RunRequested") this.#requested(event.data, event.pos);
      if (event.type === "TasksFinished") this.#finished(event.data);
    }
    this.#read = world.events.length;
  }

  #requested({ tasks, partition_selection }: EventData<"RunRequested">, pos: number): void {
    const keys = partition_selection ?? [];
    const of = tasks.flatMap(({ asset_key: asset, batch, partition_indexes }) => {
      const own = keys.filter((_, at) =>
        (partition_indexes ?? [[0, keys.length]]).some(([from, to]) => at >= from && at <= to),
      );
      const pairs = own.map((key) => `${asset} ${key}`);
      return batch ? [{ asset, pairs }] : pairs.map((pair) => ({ asset, pairs: [pair] }));
    });
    for (const pair of of.flatMap(({ pairs }) => pairs)) {
      expect(this.done.has(pair), `${pair} is made again at ${pos}`).toBe(false);
      expect(this.#open.get(pair), `${pair} is asked for at ${pos}`).toBeUndefined();
      this.#open.set(pair, pos);
    }
    this.#runs.set(pos, of);
  }

  #finished({ results, run_pos }: EventData<"TasksFinished">): void {
    const tasks = this.#runs.get(run_pos) ?? [];
    for (const { outcome, count = 1, task_key, asset_key, ...result } of results) {
      for (const [index, key] of result.partition_keys.entries()) {
        const exception = result.exceptions?.find((each) => each.index === index)?.outcome;
        if ((exception ?? outcome) === "SUCCEEDED") this.done.add(`${asset_key} ${key}`);
      }
      const ended = result.retry_at === undefined ? tasks.slice(task_key, task_key + count) : [];
      const skipped = (result.skips ?? []).flatMap((skip) => tasks[skip.task_key] ?? []);
      for (const pair of [...ended, ...skipped].flatMap(({ pairs }) => pairs)) {
        this.#open.delete(pair);
      }
    }
  }
}

describe("backfills", () => {
  const wishes = fc.array(fc.tuple(fc.nat(7), fc.nat(9), fc.nat(9)), { maxLength: 60 });

  test("I32: however failures and retries are mixed, nothing is made or asked for twice", () => {
    fc.assert(
      fc.property(wishes, fc.nat(2), (asked, kind) => {
        const world = project();
        world.publish({ asset_key: "side", partitions: { type: "static", keys: KEYS } });
        const assets = [["each", "side"], ["side"], ["batch", "each", "side"]][kind] ?? [];
        const root = { ...wish(0, 0), assets, chunk_size: 3 };
        const { backfill_id } = world.submit(createBackfill({ ...root, allow_overlap: false }));
        const once = new OnceOnly();
        const held: TaskRef[] = [];
        const end = (outcome: "SUCCEEDED" | "FAILED", at: number): void => {
          const [ref] = held.splice(at % Math.max(1, held.length), 1);
          if (ref === undefined) return;
          const error = { class: "user", message: "no" };
          world.report({
            ...ref,
            outcome,
            ...(outcome === "FAILED" ? { final: true, error } : {}),
          });
        };
        const act = ([what, whom, how]: Act): void => {
          const all = world.backfills();
          const id = all[whom % all.length]?.backfill_id ?? backfill_id;
          if (what <= 1) held.push(...refsOf(world.claim([...ASSETS, "side"], 1 + how)));
          if (what === 2 || what === 3) end("FAILED", whom);
          if (what === 4) end("SUCCEEDED", whom);
          if (what === 5 && how === 0) world.submit(cancelBackfill({ backfill_id: id, now: true }));
          if (what === 5) world.submit(pauseBackfill({ backfill_id: id }));
          if (what === 6 && how < 4) world.submit(resumeBackfill({ backfill_id: id }));
          if (what === 6 && how >= 4) retry(id);
          if (what === 7) retry(id);
        };
        const retry = (id: string): void => {
          const retry_request_id = `r${world.pos}`;
          world.submit(retryBackfill({ backfill_id: id, retry_request_id, ...FAILED_ONLY }));
        };
        const attempt = (does: () => void): boolean => {
          try {
            does();
            return true;
          } catch (error) {
            if (!(error instanceof PawlError)) throw error;
            return false;
          } finally {
            world.settle();
            once.see(world);
          }
        };
        for (const each of asked) attempt(() => act(each));

        // In the end everything is made, once, by retries of the first alone.
        for (let round = 0; round < 20; round++) {
          for (const { backfill_id: id } of world.backfills()) {
            attempt(() => world.submit(resumeBackfill({ backfill_id: id })));
          }
          while (held.length > 0) attempt(() => end("SUCCEEDED", 0));
          attempt(() => held.push(...refsOf(world.claim([...ASSETS, "side"]))));
          if (held.length === 0 && !attempt(() => retry(backfill_id))) break;
        }
        const [first] = world.backfills();
        if (first?.state === "CANCELLED") return;
        expect(once.done.size).toBe(assets.length * KEYS.length);
      }),
      { numRuns: 150 },
    );
  });

  test("I32: a retry of assets without partitions holds only what was left", () => {
    const world = project();
    const { backfill_id } = world.submit(createBackfill(wish(2, 0)));
    world.settle();
    const [ref] = refsOf(world.claim(["lone"]));
    if (ref !== undefined) world.report({ ...ref, outcome: "SUCCEEDED" });
    const [next] = refsOf(world.claim(["next"]));
    if (next !== undefined) world.report({ ...next, outcome: "FAILED", final: true });
    world.settle();

    const retry = { backfill_id, retry_request_id: "again", missing: true };
    const made = world.submit(retryBackfill(retry));
    world.settle();

    const run = world.runs().find((each) => each.backfill_id === made.backfill_id);
    expect(run?.asset_selection).toEqual(["next"]);
  });

  test("are what their preview said, or refused", () => {
    fc.assert(
      fc.property(history, fc.nat(7), fc.nat(7), (acts, whom, how) => {
        const world = lived(acts);
        const input = { ...wish(whom, how), client_request_id: "previewed" };
        const preview = world.evaluate(previewBackfill(input)).result;
        const made = world.submit(createBackfill({ ...input, plan_hash: preview.plan_hash }));
        expect(made.total_partitions).toBe(preview.total_partitions);
        expect(made.total_chunks).toBe(preview.total_chunks);
        world.settle();
        const [run] = world.runs().filter((each) => each.backfill_id === made.backfill_id);
        if (run !== undefined)
          expect(run.partition_keys ?? []).toEqual(preview.first_chunk_partitions);
      }),
      { numRuns: 50 },
    );
  });
});
