import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RunAssetField } from "./events.ts";
import { intervalsOf } from "../../kernel/intervals.ts";
import { expandTasks, indexesOf, sizeOfRun } from "./tasks.ts";

const COUNT = 5;
const places = fc.uniqueArray(fc.nat(COUNT - 1), { minLength: 1 });
type Edges = RunAssetField["upstream"][number]["edges"];
const edges: fc.Arbitrary<Edges> = fc.oneof(
  fc.constant("same" as const),
  fc.constant("all" as const),
  fc.array(fc.tuple(fc.nat(COUNT - 1), fc.nat(COUNT - 1)), { maxLength: 8 }),
);

/** Assets of a run in dependency order, each after some of those before it. */
const assets: fc.Arbitrary<RunAssetField[]> = fc
  .array(
    fc.record({
      batch: fc.boolean(),
      partition_indexes: fc.option(
        places.map((values) =>
          intervalsOf(values.toSorted((a, b) => a - b)).map(([from, to]): [number, number] => [
            from,
            to,
          ]),
        ),
      ),
      upstream: fc.array(fc.tuple(fc.nat(), edges), { maxLength: 2 }),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((drawn) =>
    drawn.map(({ batch, partition_indexes, upstream }, index): RunAssetField => {
      const above = new Map(
        upstream.map(([number, own]) => [index === 0 ? -1 : number % index, own]),
      );
      return {
        asset_key: `asset-${index}`,
        spec_hash: "0".repeat(64),
        batch,
        pool: null,
        partition_indexes,
        upstream: [...above]
          .filter(([asset]) => asset >= 0)
          .map(([asset, own]) => ({ asset, edges: own })),
      };
    }),
  );

function isNeeded(own: Edges, up: number, down: number): boolean {
  if (own === "all") return true;
  if (own === "same") return up === down;
  return own.some(([from, to]) => from === up && to === down);
}

describe("expandTasks", () => {
  test("numbers tasks through the run, one for each partition or one in all", () => {
    fc.assert(
      fc.property(assets, (run) => {
        const tasks = expandTasks(run, COUNT);
        expect(tasks.map(({ task_key }) => task_key)).toEqual(tasks.map((_, index) => index));
        expect(sizeOfRun(run, COUNT).tasks).toBe(tasks.length);
        for (const [index, asset] of run.entries()) {
          const own = tasks.filter(({ asset_index }) => asset_index === index);
          const expected = asset.batch ? [null] : indexesOf(asset.partition_indexes, COUNT);
          expect(own.map(({ partition_index }) => partition_index)).toEqual(expected);
        }
      }),
    );
  });

  test("I39: joins two tasks once, exactly when one needs a partition of the other", () => {
    fc.assert(
      fc.property(assets, (run) => {
        const tasks = expandTasks(run, COUNT);
        const keysOf = (task: (typeof tasks)[number]): number[] =>
          task.partition_index === null
            ? indexesOf(run[task.asset_index]?.partition_indexes ?? null, COUNT)
            : [task.partition_index];
        for (const down of tasks) {
          const expected = tasks.filter((up) => {
            const upstream = run[down.asset_index]?.upstream.find(
              ({ asset }) => asset === up.asset_index,
            );
            if (upstream === undefined) return false;
            return keysOf(up).some((from) =>
              keysOf(down).some((to) => isNeeded(upstream.edges, from, to)),
            );
          });
          const numbers = expected.map(({ task_key }) => task_key);
          expect(down.unmet.toSorted((a, b) => a - b)).toEqual(numbers);
          for (const up of expected) {
            expect(up.downstream.filter((number) => number === down.task_key)).toHaveLength(1);
          }
        }
      }),
    );
  });

  test("gives assets without partitions one task each, joined by their edges", () => {
    const asset = (asset_key: string, upstream: RunAssetField["upstream"]): RunAssetField => ({
      asset_key,
      spec_hash: "0".repeat(64),
      batch: false,
      pool: null,
      partition_indexes: null,
      upstream,
    });
    const tasks = expandTasks([asset("a", []), asset("b", [{ asset: 0, edges: "all" }])], 0);
    expect(tasks.map(({ unmet, downstream }) => ({ unmet, downstream }))).toEqual([
      { unmet: [], downstream: [1] },
      { unmet: [0], downstream: [] },
    ]);
  });
});
