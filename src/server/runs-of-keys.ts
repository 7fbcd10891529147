import { RUN_KEYS, type RunKeyRow, type RunRow, RUNS } from "../core/rows/run-rows.ts";
import type { Reader } from "../store/store.ts";

/** A run, with what was known of it by its key. */
export type KeyedRun<Known> = Known & { run: RunRow };

/** The runs that were asked for under these keys, in the order of the keys. */
export async function runsOfKeys<Known extends { run_key: string }>(
  reader: Reader,
  known: readonly Known[],
): Promise<KeyedRun<Known>[]> {
  if (known.length === 0) return [];
  const keys = (await reader.load(
    RUN_KEYS,
    known.map(({ run_key }) => [run_key]),
  )) as RunKeyRow[];
  if (keys.length === 0) return [];
  const runs = (await reader.load(
    RUNS,
    keys.map(({ run_pos }) => [run_pos]),
  )) as RunRow[];
  const runOf = new Map(runs.map((run) => [run.run_key, run]));
  return known.flatMap((each) => {
    const run = runOf.get(each.run_key);
    return run === undefined ? [] : [{ ...each, run }];
  });
}
