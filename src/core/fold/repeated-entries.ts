import type { TaskResultField } from "../events/run-events.ts";

/** The numbers of the tasks that an entry of an event stands for. */
export function* taskKeysOf(entry: {
  task_key: number;
  count?: number | undefined;
}): Generator<number> {
  for (let index = 0; index < (entry.count ?? 1); index++) yield entry.task_key + index;
}

/** The results that an entry of an event stands for, one by one, each with its own partition. */
export function eachResult(entry: TaskResultField): TaskResultField[] {
  const { count, ...rest } = entry;
  if (count === undefined) return [entry];
  return Array.from({ length: count }, (_, index) => ({
    ...rest,
    task_key: entry.task_key + index,
    partition_keys: entry.partition_keys.slice(index, index + 1),
  }));
}

/** Results alike in everything but the task's number and its one partition, as one entry. */
export function repeatedResults(results: readonly TaskResultField[]): TaskResultField[] {
  const sorted = results.toSorted((a, b) => a.task_key - b.task_key);
  const entries: TaskResultField[] = [];
  for (const result of sorted) {
    const last = entries.at(-1);
    if (last !== undefined && isNext(last, result)) {
      last.count = (last.count ?? 1) + 1;
      for (const key of result.partition_keys) last.partition_keys.push(key);
    } else entries.push({ ...result, partition_keys: [...result.partition_keys] });
  }
  return entries;
}

function isNext(last: TaskResultField, result: TaskResultField): boolean {
  return (
    isPlain(last) &&
    isPlain(result) &&
    last.task_key + (last.count ?? 1) === result.task_key &&
    last.asset_index === result.asset_index &&
    last.attempt === result.attempt &&
    last.outcome === result.outcome &&
    last.code_version === result.code_version &&
    last.retry_at === result.retry_at &&
    last.released === result.released &&
    last.lost_attempts === result.lost_attempts &&
    last.error?.class === result.error?.class &&
    last.error?.message === result.error?.message &&
    // Either both started, and have one key each, or neither did.
    (last.partition_keys.length === 0) === (result.partition_keys.length === 0)
  );
}

/** The result of one partition with nothing to say that is its own. */
function isPlain(result: TaskResultField): boolean {
  return (
    result.partitions === 1 &&
    result.metadata === undefined &&
    result.segment === undefined &&
    result.step === undefined &&
    result.exceptions === undefined &&
    result.releases === undefined &&
    result.skips === undefined
  );
}
