import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { shardsSpec, SHARDS, soundReport, FINAL } from "../../test/properties/split-world.ts";
import { SensorServer } from "../../test/sensor-server.ts";
import { CUTOVER_AGAIN_MS } from "../work/split/advance.ts";
import { changeRouting } from "../work/routing/commands.ts";
import {
  completeSplit,
  planSplit,
  requestCutover,
  runBackfill,
  startDualWrite,
} from "../work/split/commands.ts";
import type { ReportedResult } from "../work/run/protocol.ts";
import type { SplitRow } from "../work/split/rows.ts";
import { TABLES } from "../work/tables.ts";
import { shardWorkNames } from "../work/shard/spec.ts";
import type { StepWord } from "../work/shard/step-protocol.ts";

let server: SensorServer;
let leases = 0;

beforeEach(async () => {
  server = await SensorServer.start();
  await server.publish(shardsSpec());
  await server.submit(changeRouting({ default_shard: "a", routes: [] }));
});

afterEach(async () => {
  expect(server.warnings).toEqual([]);
  expect(server.engine.status().poisoned).toEqual({});
  await server.close();
});

async function split(): Promise<SplitRow> {
  const find = { table: TABLES.splits, where: [], order: [{ cell: "split_id" }], limit: 1 };
  const [row] = await server.engine.read((reader) => reader.find(find));
  if (row === undefined) throw new Error("There is no split.");
  return row;
}

/** Has a worker do the step that waits: it may have something recorded, and ends well or not. */
async function work(
  record: StepWord["record"] = null,
  own: Partial<ReportedResult> = {},
): Promise<string | null> {
  const lease_id = `lease ${++leases}`;
  const claim = { worker_id: "w", lease_id, slots: 1, code_version: null, wait_ms: 0 };
  const claiming = server.engine.claim({ ...claim, assets: shardWorkNames(SHARDS) });
  await server.pass(0);
  const { groups } = await claiming;
  const [group] = groups;
  const [task] = group?.tasks ?? [];
  if (group?.step?.work !== "split" || task === undefined) return null;
  const ref = { run_pos: group.run_pos, task_key: task.task_key, attempt: task.attempt };
  const step = { work: "split" as const, ...soundReport(group.step) };
  if (record !== null) {
    await server.engine.sayStep({ ...ref, worker_id: "w", report: step, record });
    await server.quiet();
  }
  const results: ReportedResult[] = [{ ...ref, outcome: "SUCCEEDED", step, ...own }];
  const released_leases = [lease_id];
  await server.engine.report({ worker_id: "w", code_version: null, results, released_leases });
  await server.quiet();
  return group.step.step;
}

/** Takes a new split to where its tail was caught up once, and has ended. */
async function caughtUp(own: { auto_cutover?: boolean; grace_ms?: number } = {}): Promise<string> {
  const given = { source: "a", target: "b", tenants: ["t"], ...own };
  const { split_id } = await server.submit(planSplit(given));
  await work();
  await server.submit(startDualWrite({ split: split_id }));
  await work();
  await server.submit(runBackfill({ split: split_id }));
  await work();
  expect(await work("caught_up")).toBe("tail");
  return split_id;
}

describe("splits as the controllers see them", () => {
  test("are removed from their source as soon as the grace time is over", async () => {
    const id = await caughtUp({ grace_ms: 20_000 });
    await server.submit(requestCutover({ split: id }));
    expect(await work("commit")).toBe("cutover");
    await server.submit(completeSplit({ split: id }));
    expect(await work()).toBe("finish");
    expect(await split()).toMatchObject({ phase: "completed", step_state: null });
    await server.pass(19_999);
    expect((await split()).step_state).toBeNull();
    await server.pass(1);
    expect(await split()).toMatchObject({ step: "remove", step_state: "QUEUED", due_at: null });
    expect(await work()).toBe("remove");
    expect((await split()).removed_at).not.toBeNull();
  });

  test("that cut over by themselves try again as soon as their time has come", async () => {
    await caughtUp({ auto_cutover: true });
    const { outcome, final, error } = FINAL;
    expect(await work(null, { outcome, final, error })).toBe("cutover");
    expect(await split()).toMatchObject({ wanted: null, step: "tail", error });
    await server.pass(CUTOVER_AGAIN_MS);
    expect(await split()).toMatchObject({ wanted: "cutover" });
    expect(await work("commit")).toBe("cutover");
    expect(await split()).toMatchObject({ phase: "reversible", step: "reverse", error: null });
  });

  test("go on where they stood when the server starts again", async () => {
    await caughtUp();
    await server.restart();
    expect(await work()).toBe("tail");
    expect(await split()).toMatchObject({ phase: "cutover_pending", step: "tail" });
  });
});
