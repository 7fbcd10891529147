import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Shard, StreamState } from "../../src/shards/shard.ts";
import {
  type CheckpointStore,
  shardCheckpoints,
} from "../../src/worker/steps/move/open-segment.ts";
import { memoryCheckpoints } from "./memory-checkpoints.ts";
import { ShardFiles, TABLES } from "./moves-tables.ts";

const GUARD = { plan: "move:0", token: 1 };
const STATE: StreamState = {
  position: "0",
  reaching: null,
  cursor: { table: 0, key: ["1"] },
  phase: "copy",
  rows: [1],
  fingerprint: "f",
  verified: null,
};

let files: ShardFiles;
beforeEach(async () => {
  files = await ShardFiles.create(["a", "b"]);
});
afterEach(() => files.close());

function shard(name: string): Shard {
  const found = files.shards.get(name);
  if (found === undefined) throw new Error(`There is no shard ${name}.`);
  return found;
}

async function onShard(): Promise<CheckpointStore> {
  const target = shard("b");
  await target.install();
  await target.take(GUARD);
  const [table] = await target.describe(TABLES.slice(0, 1));
  if (table === undefined) throw new Error("There is no table.");
  return shardCheckpoints(target, GUARD, table);
}

const stores: [string, () => Promise<CheckpointStore>][] = [
  ["on the shard that the rows go to", onShard],
  ["in memory", async () => memoryCheckpoints()],
];

describe.each(stores)("checkpoints %s", (_where, open) => {
  test("are given back, listed by name, and moved on only from where they are", async () => {
    const store = await open();
    expect(await store.load("move:0:0")).toBeNull();
    await store.save({ stream: "move:0:1", before: null, after: STATE, rows: null });
    await store.save({ stream: "move:0:0", before: null, after: STATE, rows: null });
    const after: StreamState = { ...STATE, cursor: { table: 0, key: ["2"] }, rows: [2] };
    await store.save({ stream: "move:0:0", before: STATE, after, rows: null });
    expect(await store.load("move:0:0")).toEqual(after);
    expect((await store.list()).map(({ stream }) => stream)).toEqual(["move:0:0", "move:0:1"]);
    const late = store.save({ stream: "move:0:0", before: STATE, after, rows: null });
    await expect(late).rejects.toMatchObject({ code: "STREAM_MOVED" });
  });
});

test("I54: rows and the checkpoint that stands for them are written together or not at all", async () => {
  files.database("a").exec("insert into customers values (1, 't', 'one')");
  files.database("b").exec("insert into customers values (1, 't', 'in the way')");
  const [table] = await shard("a").describe(TABLES.slice(0, 1));
  if (table === undefined) throw new Error("There is no table.");
  const store = await onShard();
  const { chunk } = await shard("a").read({
    tables: [table],
    scope: [],
    from: null,
    cursor: null,
    changesMax: 1,
    chunk: { table, scope: [], limit: 10 },
  });
  const rows = chunk?.rows ?? null;
  const save = (): Promise<void> => store.save({ stream: "s", before: null, after: STATE, rows });
  await expect(save()).rejects.toMatchObject({ code: "ROWS_CONFLICT" });
  expect(await store.load("s")).toBeNull();
  files.database("b").exec("delete from customers");
  await save();
  expect(await store.load("s")).toEqual(STATE);
  expect(files.rows()).toHaveLength(2);
});
