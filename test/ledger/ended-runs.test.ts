import { tasksIn } from "../../src/work/run/task-blocks.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { present } from "../../src/kernel/errors.ts";
import type { EventData } from "../../src/work/events.ts";
import { type RunAssetRow, RUNS, type RunRow, type TaskRow } from "../../src/work/run/rows.ts";
import { TABLES } from "../../src/work/tables.ts";
import { SegmentPurpose } from "../../src/work/sync/segment-protocol.ts";
import { MoveStep, SplitStep } from "../../src/work/shard/step-protocol.ts";
import { Refold, folded, refoldRun } from "../../src/engine/ledger/refold.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Reader, Store } from "../../src/store/store.ts";
import { decideEverything } from "./decide-everything.ts";

/** The tasks and assets of a run right before it ended. */
type Ended = { tasks: TaskRow[]; assets: RunAssetRow[] };

let store: Store;
let ws: number;
let runs: RunRow[];
let before: Map<number, Ended>;

beforeAll(async () => {
  store = await openSqliteStore({ path: ":memory:", clock: Date.now });
  const { events } = await decideEverything(store, 2026);
  ({ ws } = await store.workspace("t", "w"));
  runs = await store.read(ws, (reader) =>
    reader.find({ table: RUNS, where: [], order: [{ cell: "run_pos" }], limit: 100_000 }),
  );
  before = await rowsBeforeEnds(events.map(folded));
});

afterAll(() => store.close());

/** Folds the ledger anew and notes the rows of each run at the moment before it ended. */
async function rowsBeforeEnds(
  events: readonly ReturnType<typeof folded>[],
): Promise<Map<number, Ended>> {
  const scratch = await openSqliteStore({ path: ":memory:", clock: Date.now });
  const { ws: other } = await scratch.workspace("t", "w");
  const found = new Map<number, Ended>();
  await scratch.transact(other, async (transaction) => {
    const refold = new Refold({
      load: (table, keys) => transaction.load(table, keys),
      write: (changes) => transaction.writeRows(changes),
    });
    let batch: typeof events = [];
    for (const event of events) {
      if (event.type === "RunFinished") {
        await refold.fold(batch);
        batch = [];
        const { run_pos } = event.data as EventData<"RunFinished">;
        found.set(run_pos, await rowsOf(transaction, run_pos));
      }
      batch = [...batch, event];
    }
  });
  await scratch.close();
  return found;
}

async function rowsOf(reader: Reader, runPos: number): Promise<Ended> {
  const where = [{ cell: "run_pos", is: "=", value: runPos } as const];
  const limit = 100_000;
  const { taskBlocks, runAssets } = TABLES;
  const blocks = await reader.find({ table: taskBlocks, where, order: [{ cell: "block" }], limit });
  return {
    tasks: blocks.flatMap((block) => tasksIn(block)),
    assets: await reader.find({
      table: runAssets,
      where,
      order: [{ cell: "asset_index" }],
      limit,
    }),
  };
}

/** What a run is for, down to the step: `split cutover`, `sync fetch`, `backfill`. */
function kindOf({ trigger_source_ref: source }: RunRow): string {
  if (source.type === "sync") return `sync ${source.purpose}`;
  if (source.type === "shards") return `${source.work.work} ${source.work.step}`;
  return source.type;
}

describe("refoldRun", () => {
  test("I12: gives the tasks of an ended run of every kind as they were when it ended", async () => {
    const kinds = new Set<string>();
    for (const run of runs.filter(({ finished_at }) => finished_at !== null)) {
      const refolded = await store.read(ws, (reader) => refoldRun(reader, run));
      expect(refolded, kindOf(run)).toEqual(present(before.get(run.run_pos), "the run has ended"));
      kinds.add(kindOf(run));
    }

    const every = [
      "manual",
      "backfill",
      "schedule",
      "sensor",
      ...SegmentPurpose.options.map((purpose) => `sync ${purpose}`),
      ...SplitStep.options.map((step) => `split ${step}`),
      ...MoveStep.options.map((step) => `move ${step}`),
    ];
    expect([...kinds].toSorted()).toEqual(every.toSorted());
  });
});
