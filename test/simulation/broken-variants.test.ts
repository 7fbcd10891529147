import { TaskChanges, taskOf, tasksIn } from "../../src/work/run/task-blocks.ts";
import type { TaskRow } from "../../src/work/run/rows.ts";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Context } from "../../src/work/decision.ts";
import type { NewEvent } from "../../src/work/events.ts";
import { addMs, instantOf } from "../../src/kernel/instant.ts";
import type { Rows } from "../../src/work/rows.ts";
import { breakFold } from "./break-fold.ts";
import { simulate } from "./simulate.ts";

// Goal: the checkers see what they are there for. Method: break one rule of the real system, with
// the fold's own assertion out of the way where there is one, and look for the promise it breaks.

type Variant =
  | "sound"
  | "no fence"
  | "claims what runs"
  | "plans too much"
  | "plans while paused"
  | "ticks again"
  | "has no keys"
  | "forgets skips"
  | "ticks beside its run"
  | "catches up too much"
  | "decides nothing before a change"
  | "takes stale evaluations"
  | "keeps messages twice";
const broken = vi.hoisted(() => ({ variant: "sound" as Variant }));

vi.mock(import("../../src/work/run/report.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    reportTasks: (request) => (rows, context) => {
      if (broken.variant !== "no fence") return original.reportTasks(request)(rows, context);
      const results = request.results.map((result) => ({
        ...result,
        attempt: taskOf(rows, result.run_pos, result.task_key)?.attempt ?? result.attempt,
      }));
      return original.reportTasks({ ...request, results })(rows, context);
    },
  };
});

vi.mock(import("../../src/work/run/claim.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    claimTasks: (request) => (rows, context) => {
      const decision = original.claimTasks(request)(rows, context);
      if (broken.variant !== "claims what runs" || decision.events.length > 0) return decision;
      const where = [{ cell: "held", is: "not null" }] as const;
      const [block] = rows.taskBlocks.find(where, [{ cell: "run_pos" }, { cell: "block" }], 1);
      const [task] = block === undefined ? [] : tasksIn(block, ["RUNNING"]);
      if (task === undefined) return decision;
      // As if only the key of the task had been looked at: whoever has it, it is taken.
      setFree(rows, task.run_pos, task.task_key);
      return original.claimTasks({ ...request, slots: 1 })(rows, context);
    },
  };
});

vi.mock(import("../../src/work/backfill/advance.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    planChunks: (rows, backfill, context) => {
      const { state, max_concurrent_runs } = backfill;
      if (broken.variant === "plans too much" && state === "RUNNING") {
        const most = max_concurrent_runs + 2;
        return original.planChunks(rows, { ...backfill, max_concurrent_runs: most }, context);
      }
      if (broken.variant === "plans while paused" && state === "PAUSED") {
        return original
          .planChunks(rows, { ...backfill, state: "RUNNING" }, context)
          .filter(({ type }) => type !== "BackfillStateChanged");
      }
      return original.planChunks(rows, backfill, context);
    },
  };
});

vi.mock(import("../../src/work/schedule/tick.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    tickSchedule: (rows, row, context) => {
      switch (broken.variant) {
        case "ticks again": {
          // As if another server had its own idea of what is decided, and the keys were forgotten.
          const ticked_through = addMs(row.ticked_through, -20_000);
          const events = original.tickSchedule(rows, { ...row, ticked_through }, context);
          return events.map((event) => unkeyed(event, context));
        }
        case "has no keys":
          return original.tickSchedule(rows, row, context).map((event) => unkeyed(event, context));
        case "forgets skips":
          return original
            .tickSchedule(rows, row, context)
            .filter(({ type, data }) => type !== "ScheduleTicked" || data.status !== "skipped");
        case "ticks beside its run": {
          const idle = { ...row, active_runs: 0, last_backfill_id: null };
          return original.tickSchedule(rows, idle, context);
        }
        default:
          return original.tickSchedule(rows, row, context);
      }
    },
    closeTimes: (...given) =>
      broken.variant === "decides nothing before a change" ? [] : original.closeTimes(...given),
  };
});

vi.mock(import("../../src/work/schedule/times.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    catchUp: (times, spec, ...rest) => {
      const isBroken = broken.variant === "catches up too much";
      const max_catchup_ticks = isBroken ? 100 : spec.max_catchup_ticks;
      return original.catchUp(times, { ...spec, max_catchup_ticks }, ...rest);
    },
  };
});

vi.mock(import("../../src/work/sensor/evaluate.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    evaluateSensor: (evaluation) => (rows, context) => {
      const row = rows.sensors.get(evaluation.sensor_id);
      const isPoll = evaluation.source.type === "poll";
      if (broken.variant !== "takes stale evaluations" || row === null || !isPoll) {
        return original.evaluateSensor(evaluation)(rows, context);
      }
      // As if the sensor were as it was read, whatever became of it since.
      const { cursor, expected_state_version } = evaluation;
      const current = { cursor: row.cursor, expected_state_version: row.state_version };
      const decision = original.evaluateSensor({ ...evaluation, ...current })(rows, context);
      const events = decision.events.map((event) => {
        if (event.type !== "SensorEvaluated" || event.data.state_version === null) return event;
        const state_version = (expected_state_version ?? 0) + 1;
        const read = { cursor_before: cursor, expected_state_version, state_version };
        return { ...event, data: { ...event.data, ...read } };
      });
      return { ...decision, events };
    },
  };
});

vi.mock(import("../../src/work/sensor/commands.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    receiveMessages: (input) => (rows, context) => {
      if (broken.variant !== "keeps messages twice") {
        return original.receiveMessages(input)(rows, context);
      }
      const sensorId = rows.definitions.get("sensor", input.sensor)?.entity_id ?? "none";
      for (const { message_id } of input.messages) {
        const known = rows.sensorMessages.get(sensorId, message_id);
        if (known !== null) rows.sensorMessages.delete(sensorId, message_id);
      }
      const decision = original.receiveMessages(input)(rows, context);
      return { ...decision, events: decision.events.map((event) => unkeyed(event, context)) };
    },
  };
});

/** The same event, as if nobody had kept its key. */
function unkeyed(event: NewEvent, { nextPos }: Context): NewEvent {
  return { ...event, idempotency_key: `${event.idempotency_key} ${nextPos}` };
}

function putTask(rows: Rows, task: TaskRow): void {
  const change = new TaskChanges(rows, task.run_pos);
  change.put(task);
  change.write();
}

/** A running task is made to look ready, with every count that goes with it. */
function setFree(rows: Rows, runPos: number, taskKey: number): void {
  const task = taskOf(rows, runPos, taskKey);
  const run = rows.runs.get(runPos);
  const asset = task === null ? null : rows.runAssets.get(runPos, task.asset_index);
  if (task === null || run === null || asset === null) return;
  const pool = asset.pool === null ? null : rows.pools.get(asset.pool);
  const backfill = run.backfill_id === null ? null : rows.backfills.get(run.backfill_id);
  putTask(rows, { ...task, state: "READY" });
  rows.runs.put({ ...run, tasks_running: run.tasks_running - 1, tasks_ready: run.tasks_ready + 1 });
  rows.runAssets.put({ ...asset, running: asset.running - 1, ready: asset.ready + 1 });
  if (pool !== null) rows.pools.put({ ...pool, running: pool.running - 1 });
  if (backfill === null) return;
  rows.backfills.put({
    ...backfill,
    partitions_running: backfill.partitions_running - 1,
    partitions_planned: backfill.partitions_planned + 1,
  });
}

/** The fold takes a chunk that it would refuse: the backfill looks as if there were room. */
function foldEveryChunk(): void {
  breakFold("BackfillChunkPlanned", (original, rows, { data }) => {
    const before = rows.backfills.get(data.backfill_id);
    if (before === null) return;
    rows.backfills.put({ ...before, state: "RUNNING", max_concurrent_runs: 1_000 });
    original();
    const after = rows.backfills.get(data.backfill_id);
    if (after === null) return;
    const { state, max_concurrent_runs } = before;
    rows.backfills.put({ ...after, state, max_concurrent_runs });
  });
}

/** The fold takes a tick whatever was decided before. */
function foldEveryTick(): void {
  breakFold("ScheduleTicked", (original, rows, { data }) => {
    const row = rows.schedules.get(data.schedule_id);
    if (row === null) return;
    const { ticked_through } = row;
    const before = addMs(data.scheduled_for, -1);
    rows.schedules.put({
      ...row,
      ticked_through: before < ticked_through ? before : ticked_through,
    });
    original();
  });
}

/** The fold takes an evaluation whatever the sensor has come to. */
function foldEveryEvaluation(): void {
  breakFold("SensorEvaluated", (original, rows, { data }) => {
    const row = rows.sensors.get(data.sensor_id);
    if (row !== null && data.state_version !== null && data.expected_state_version !== null) {
      const { cursor_before: cursor, expected_state_version: state_version } = data;
      rows.sensors.put({ ...row, cursor, state_version });
    }
    original();
  });
}

/** Whether one of some simulations finds the promise broken; `first` is a seed that is known to find it. */
async function isFound(promise: string, first = 1): Promise<boolean> {
  for (let seed = first; seed < first + 80; seed++) {
    const { violations } = await simulate(seed);
    if (violations.list.some((violation) => violation.promise === promise)) return true;
  }
  return false;
}

afterEach(() => {
  broken.variant = "sound";
  vi.restoreAllMocks();
});

describe("the checkers find", () => {
  test("a server without a fence: I35", async () => {
    broken.variant = "no fence";
    expect(await isFound("I35", 25)).toBe(true);
  });

  test("a fold that counts by itself: I12", async () => {
    let calls = 0;
    breakFold("TasksStarted", (original, rows, { data }) => {
      original();
      const [{ task_key } = { task_key: 0 }] = data.tasks;
      const task = taskOf(rows, data.run_pos, task_key);
      calls += 1;
      if (task !== null) putTask(rows, { ...task, started_at: instantOf(calls) });
      const run = rows.runs.get(data.run_pos);
      if (run !== null) rows.runs.put({ ...run, labels: { calls: String(calls) } });
    });
    expect(await isFound("I12")).toBe(true);
  });

  test("a claim that takes what is running: I36", async () => {
    broken.variant = "claims what runs";
    expect(await isFound("I36")).toBe(true);
  });

  test("a planner that ignores the concurrency: I30", async () => {
    broken.variant = "plans too much";
    foldEveryChunk();
    expect(await isFound("I30", 5)).toBe(true);
  });

  test("a planner that ignores the pause: I31", async () => {
    broken.variant = "plans while paused";
    foldEveryChunk();
    expect(await isFound("I31", 104)).toBe(true);
  });

  test("a server that ticks without looking at what is decided: I20", async () => {
    broken.variant = "ticks again";
    foldEveryTick();
    expect(await isFound("I20", 21)).toBe(true);
  });

  test("a schedule that passes over times without a word: I21", async () => {
    broken.variant = "forgets skips";
    expect(await isFound("I21", 2)).toBe(true);
  });

  test("a schedule that does not know its own runs: I21", async () => {
    broken.variant = "ticks beside its run";
    expect(await isFound("I21", 2)).toBe(true);
  });

  test("a fold that forgets how far a skip went: I20", async () => {
    broken.variant = "has no keys";
    breakFold("ScheduleTicked", (original, rows, { data }) => {
      const before = rows.schedules.get(data.schedule_id);
      original();
      const after = rows.schedules.get(data.schedule_id);
      if (data.status !== "skipped" || before === null || after === null) return;
      rows.schedules.put({ ...after, ticked_through: before.ticked_through });
    });
    expect(await isFound("I20", 2)).toBe(true);
  });

  test("a schedule that catches up without a limit: I22", async () => {
    broken.variant = "catches up too much";
    expect(await isFound("I22", 2)).toBe(true);
  });

  test("a change that leaves what was due undecided: I24", async () => {
    broken.variant = "decides nothing before a change";
    expect(await isFound("I24")).toBe(true);
  });

  test("a sensor that keeps a message twice: I25", async () => {
    broken.variant = "keeps messages twice";
    expect(await isFound("I25", 13)).toBe(true);
  });

  test("a sensor that takes evaluations of what it was: I26", async () => {
    broken.variant = "takes stale evaluations";
    foldEveryEvaluation();
    expect(await isFound("I26", 29)).toBe(true);
  });
});
