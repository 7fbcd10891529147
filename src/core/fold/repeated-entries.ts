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
