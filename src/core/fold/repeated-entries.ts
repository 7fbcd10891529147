import type { TaskResultField } from "../events/run-events.ts";

/** The tasks that an entry of an event stands for, one by one. */
export function eachTask<Entry extends { task_key: number; count?: number | undefined }>(
  entry: Entry,
): Entry[] {
  const { count, ...rest } = entry;
  if (count === undefined) return [entry];
  return Array.from(
    { length: count },
    (_, index) => ({ ...rest, task_key: entry.task_key + index }) as unknown as Entry,
  );
}

/** The results that an entry of an event stands for, one by one, each with its own partition. */
export function eachResult(entry: TaskResultField): TaskResultField[] {
  if (entry.count === undefined) return [entry];
  return eachTask(entry).map((result, index) => ({
    ...result,
    partition_keys: entry.partition_keys.slice(index, index + 1),
  }));
}
