import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { changesOf, commit, putTasks, run } from "../../test/conformance/builders.ts";
import { steadyEnvironment } from "../../test/ledger/steady-environment.ts";
import { RUNS } from "../work/run/rows.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { LogBudget, SAID_LIMITS, type SaidLimits, CheckpointBudget } from "./budgets.ts";

const DAY_MS = 24 * 3_600_000;
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED" });

describe("what tasks log", () => {
  const world = { ms: 0, store: undefined as unknown as Store, ws: 0 as WorkspaceId };

  beforeEach(async () => {
    world.ms = Date.UTC(2026, 0, 1);
    world.store = await openSqliteStore({ path: ":memory:", clock: () => world.ms });
    ({ ws: world.ws } = await world.store.workspace("acme", "main"));
    const runs = [1, 2, 3];
    await commit(world.store, world.ws, {
      changes: [changesOf(RUNS, { inserted: runs.map((run_pos) => run({ run_pos })) })],
    });
    await putTasks(
      world.store,
      world.ws,
      runs.map((run_pos) => ({ run_pos })),
    );
  });
  afterEach(() => world.store.close());

  const budgetOf = (limits: Partial<SaidLimits>): LogBudget => {
    const environment = { ...steadyEnvironment(1), elapsedMs: () => world.ms };
    return new LogBudget(world.store, world.ws, environment, { ...SAID_LIMITS, ...limits });
  };
  /** Lines of so many bytes each, as they count. */
  const log = (budget: LogBudget, bytes: number, holder = "t", run_pos = 1, count = 1) =>
    budget.append(
      holder,
      Array.from({ length: count }, () => {
        const message = "x".repeat(bytes - 104);
        return { run_pos, task_key: 0, attempt: 1, message, fields: null };
      }),
    );
  const endRun = (run_pos: number) =>
    commit(world.store, world.ws, {
      changes: [changesOf(RUNS, { updated: [run({ run_pos, state: "SUCCEEDED" })] })],
    });
  const lines = async (run_pos = 1): Promise<string[]> => {
    const read = await world.store.read(world.ws, (reader) => reader.logs(run_pos, 0, 0, 10_000));
    return read.map(({ message }) => message);
  };
  const step = async (budget: LogBudget) => budget.step(await world.store.now());

  test("I64: is refused when its fields are too large", async () => {
    const line = { run_pos: 1, task_key: 0, attempt: 1, message: "m", fields: "x".repeat(70_000) };
    await expect(budgetOf({}).append("t", [line])).rejects.toEqual(exceeded);
  });

  test("I64: is bounded by the run, and its log says where it was cut", async () => {
    const budget = budgetOf({ logBytesRunMax: 2_048 });
    expect(await log(budget, 500, "t", 1, 6)).toEqual([
      ...Array<string>(4).fill("kept"),
      ...Array<string>(2).fill("dropped"),
    ]);
    expect((await lines()).at(-1)).toBe("… lines were dropped here: the run's log reached 2 KiB.");
    expect(await log(budget, 500, "t", 2)).toEqual(["kept"]);
    expect(budget.dropped).toBe(2);
  });

  test("I64: is bounded by the hour, for a token and for all, and says so in the log", async () => {
    const budget = budgetOf({ logBytesHourlyMax: 1_000 });
    expect(await log(budget, 500)).toEqual(["kept"]);
    expect(await log(budget, 110)).toEqual(["dropped"]);
    expect(await log(budget, 490, "u", 2)).toEqual(["kept"]);
    expect(await log(budget, 120, "v", 2)).toEqual(["dropped"]);
    expect((await lines()).at(-1)).toBe(
      "… lines were dropped here: tasks logged 1000 bytes within an hour, or those of one token half of that.",
    );
    world.ms += 3_600_000;
    expect(await log(budget, 110)).toEqual(["kept"]);
  });

  test.each<[full: string, limits: Partial<SaidLimits>]>([
    ["the hour", { logBytesHourlyMax: 64_000 }],
    ["the workspace", { logsBytesMax: 32_000 }],
  ])(
    "I64: keeps the errors that end attempts where %s is full, while a reserve lasts",
    async (_full, limits) => {
      const budget = budgetOf(limits);
      const error = "e".repeat(500 - 104);
      const line = { run_pos: 1, task_key: 0, attempt: 1, fields: null };
      const end = () => budget.append("t", [{ ...line, message: error, ends_attempt: true }]);
      expect(await log(budget, 8_000, "t", 1, 4)).toEqual(Array<string>(4).fill("kept"));
      expect(await log(budget, 200)).toEqual(["dropped"]);
      // A sixteenth of what there is room for.
      for (let kept = 0; kept < 4; kept++) expect(await end()).toEqual(["kept"]);
      expect((await lines()).slice(-4)).toEqual(Array<string>(4).fill(error));
      expect(await end()).toEqual(["dropped"]);
      expect((await lines()).at(-1)).toMatch(/^… lines were dropped here/);
    },
  );

  test("I64: gives way when it is old, once its run has ended", async () => {
    const budget = budgetOf({ logsKeptMs: 2 * DAY_MS });
    for (const run_pos of [1, 2]) await log(budget, 200, "t", run_pos);
    await endRun(1);
    world.ms += DAY_MS;
    await step(budget);
    expect(await lines(1)).toHaveLength(1);
    await log(budget, 200, "t", 3);
    await endRun(3);
    world.ms += DAY_MS + 1;
    await step(budget);
    // The first is too old; the second still runs, and the third has not been silent for long.
    expect((await Promise.all([1, 2, 3].map(lines))).map(({ length }) => length)).toEqual([
      0, 1, 1,
    ]);
    expect(budget.expired).toBe(1);
  });

  test("I64: makes room for more by dropping the oldest log of a run that has ended", async () => {
    const budget = budgetOf({ logsBytesMax: 10_000 });
    for (const run_pos of [1, 2]) {
      await log(budget, 2_400, "t", run_pos, 2);
      world.ms += 1_000;
    }
    await endRun(1);
    await endRun(2);
    await step(budget);
    expect((await lines(1)).length + (await lines(2)).length).toBe(2);
    expect(await lines(1)).toEqual([]);
    expect(await log(budget, 2_400, "t", 3)).toEqual(["kept"]);
  });

  test("I64: is dropped, and says so, when all there is is of unfinished runs", async () => {
    const budget = budgetOf({ logsBytesMax: 2_048 });
    expect(await log(budget, 1_900)).toEqual(["kept"]);
    await step(budget);
    expect(await log(budget, 400, "t", 2)).toEqual(["dropped"]);
    expect(await lines(2)).toEqual([
      "… lines were dropped here: the logs of the workspace reached 2 KiB.",
    ]);
    expect(await lines(1)).toHaveLength(1);
    await endRun(1);
    world.ms += 10_000;
    await step(budget);
    expect(await log(budget, 400, "t", 2)).toEqual(["kept"]);
  });

  test("I64: of another server is heard of within a measure", async () => {
    const [one, other] = [budgetOf({ logsBytesMax: 2_000 }), budgetOf({ logsBytesMax: 2_000 })];
    await log(one, 110);
    await log(other, 1_800);
    expect(await log(one, 500)).toEqual(["kept"]);
    world.ms += 10_000;
    await step(one);
    expect(await log(one, 500)).toEqual(["dropped"]);
  });
});

const LIMITS = { ...SAID_LIMITS, checkpointBytesMax: 100, checkpointsBytesMax: 1_000 };
const value = (bytes: number): string => "x".repeat(bytes - 2);

/** A budget of which the test says what is stored; time passes only where it is waited. */
function saidBudgetOf(stored: Record<string, number> = {}, limits: Partial<SaidLimits> = {}) {
  const world = { stored, ms: 0, measured: 0 };
  const budget = new CheckpointBudget(
    { ...LIMITS, ...limits },
    {
      async measure() {
        world.measured++;
        return Object.entries(world.stored).map(([holder, bytes]) => {
          return { run_pos: 1, holder, bytes };
        });
      },
      elapsedMs: () => world.ms,
      async pause(ms) {
        world.ms += ms;
      },
    },
  );
  const checkpoint = (holder: string, bytes: number, run_pos = 1, isSaved = true) =>
    budget.keep(holder, [{ run_pos, task_key: 0, attempt: 1, value: value(bytes) }], async () => [
      isSaved,
    ]);
  return { world, checkpoint };
}

describe("checkpoints", () => {
  test("I64: are refused when they are too large by themselves", async () => {
    const { checkpoint } = saidBudgetOf();
    await checkpoint("t", 100);
    await expect(checkpoint("t", 101)).rejects.toEqual(exceeded);
  });

  test("I64: are refused when all of a token, or of all, are too large, until runs have ended", async () => {
    const { world, checkpoint } = saidBudgetOf({ t: 450, u: 500 });
    await expect(checkpoint("t", 60)).rejects.toEqual(exceeded);
    await checkpoint("t", 50);
    world.stored = { t: 500, u: 500 };
    await expect(checkpoint("v", 10)).rejects.toEqual(exceeded);
    world.stored = { t: 40 };
    world.ms += 1_000;
    await checkpoint("v", 10);
    await checkpoint("t", 60);
  });

  test("are measured again only to refuse, so that one written over is not counted twice", async () => {
    const { world, checkpoint } = saidBudgetOf();
    for (let word = 0; word < 30; word++) {
      world.ms += 1_000;
      world.stored = { t: 100 };
      await checkpoint("t", 100);
    }
    expect(world.measured).toBeLessThan(12);
  });

  test("I64: are refused when those of their run are too large, whoever has the others", async () => {
    const { checkpoint } = saidBudgetOf({ t: 90, u: 100 }, { checkpointBytesRunMax: 200 });
    await checkpoint("v", 10);
    await expect(checkpoint("v", 20)).rejects.toEqual(exceeded);
    await checkpoint("v", 20, 2);
  });

  test("I64: are never refused for what was only written over, however often that was", async () => {
    const { world, checkpoint } = saidBudgetOf({ t: 100 }, { checkpointBytesRunMax: 300 });
    for (let word = 0; word < 50; word++) await checkpoint("t", 100);
    expect(world.measured).toBeLessThan(50);
  });

  test("I64: that are not saved use up nothing, of a token or of a run", async () => {
    const { world, checkpoint } = saidBudgetOf({}, { checkpointBytesRunMax: 150 });
    for (let word = 0; word < 50; word++) await checkpoint("t", 100, 1, false);
    await checkpoint("t", 100);
    expect(world.measured).toBe(1);
  });

  test("I64: of more and more runs are measured again, so that ended ones are forgotten", async () => {
    const { world, checkpoint } = saidBudgetOf({}, { checkpointsBytesMax: 1_000_000_000 });
    for (let pos = 0; pos < 250_000; pos++) await checkpoint("t", 3, pos);
    expect(world.measured).toBe(3);
    for (let pos = 0; pos < 250_000; pos++) await checkpoint("t", 3, pos, false);
    expect(world.measured).toBe(3);
  });

  test("I64: that come at once share one measurement", async () => {
    const { world, checkpoint } = saidBudgetOf({ t: 500 });
    const refused = Array.from({ length: 20 }, () => checkpoint("t", 10));
    const ends = await Promise.allSettled(refused);
    expect(ends.every(({ status }) => status === "rejected")).toBe(true);
    expect(world.measured).toBeLessThan(4);
  });
});
