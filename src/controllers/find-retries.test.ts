import { expect, test } from "vitest";
import { wish } from "../../test/properties/backfill-world.ts";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { createBackfill } from "./create-backfill.ts";
import { requestRun } from "./request-run.ts";

test("I64: a claim takes few tasks that were tried before, whose checkpoints go with it, and ready ones beside", () => {
  const world = new LedgerWorld();
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  const asset = { partitions: { type: "static", keys }, retry: { jitter: 0, delay_ms: 1_000 } };
  world.publish({ asset_key: "a", ...asset }, { asset_key: "b", ...asset });
  const request = (asset_key: string, partition_keys: readonly string[]): void => {
    world.submit(requestRun({ request_id: asset_key, assets: [asset_key], partition_keys }));
  };
  request("a", keys);
  const error = { class: "user", message: "it was the first time." };
  for (const ref of refsOf(world.claim(["a"], 100))) {
    world.report({ ...ref, outcome: "FAILED", error });
  }
  world.pass(600_000);
  request("b", keys.slice(0, 5));

  const attempts = () => refsOf(world.claim(["a", "b"], 100)).map(({ attempt }) => attempt);
  const tried = (count: number): number[] => Array.from({ length: count }, () => 2);
  expect(attempts()).toEqual([...tried(16), 1, 1, 1, 1, 1]);
  expect([attempts(), attempts(), attempts()]).toEqual([tried(16), tried(8), []]);
});

test("I64: what backfills tried before leaves room for what was asked for by hand", () => {
  const world = new LedgerWorld();
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  const asset = { partitions: { type: "static", keys }, retry: { jitter: 0, delay_ms: 1_000 } };
  world.publish({ asset_key: "a", ...asset }, { asset_key: "b", ...asset });
  world.submit(createBackfill({ ...wish({ chunk_size: 40 }), retry: undefined }));
  world.settle();
  world.submit(requestRun({ request_id: "b", assets: ["b"], partition_keys: keys }));
  const error = { class: "user", message: "it was the first time." };
  for (const ref of refsOf(world.claim(["a", "b"], 100))) {
    world.report({ ...ref, outcome: "FAILED", error });
  }
  world.pass(600_000);
  const taken = world
    .claim(["a", "b"], 200)
    .map(({ asset_key, tasks }) => [asset_key, tasks.length]);
  expect(Object.fromEntries(taken)).toEqual({ a: 2, b: 14 });
});
