import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { TimeWindow } from "../core/partitions/keyspace.ts";
import type { TaskContext } from "../define/task-context.ts";
import type { PartitionReader } from "./partition-reader.ts";
import type { TaskAttempt } from "./task-attempt.ts";
import { messageOf, shown, textOf } from "./plain-values.ts";

const NOTE_LENGTH_MAX = 500;
const NO_CONFIG: Readonly<Record<string, Json>> = Object.freeze({});

/**
 * What the function of an attempt gets. Whatever costs something is worked out when it is first
 * looked at; every member may be taken out of the object on its own.
 */
export function taskContext(attempt: TaskAttempt, reader: PartitionReader | null): TaskContext {
  const { group, task } = attempt;
  const partition = task.partition_keys[0] ?? "";
  let values: Readonly<Record<string, string>> | null = null;
  return {
    asset: group.asset_key,
    runId: group.run_id,
    attempt: task.attempt,
    partition,
    partitions: task.partition_keys,
    get values() {
      values ??= reader === null || partition === "" ? {} : reader.valuesOf(partition);
      return values;
    },
    get window() {
      return reader === null ? null : windowOfAll(task.partition_keys, reader);
    },
    config: isObject(group.config) ? group.config : NO_CONFIG,
    get signal() {
      return attempt.signal;
    },
    lastCheckpoint: task.checkpoint,
    checkpoint: (value) => attempt.checkpoint(value),
    progress(done, total, note) {
      attempt.progressed({
        done: amount("done", done),
        total: amount("total", total),
        note: note === undefined ? null : textOf(note, NOTE_LENGTH_MAX),
      });
    },
    log: (message, fields) => attempt.log(message, fields ?? {}),
    partitionFailed(key, error) {
      const message = messageOf(error);
      attempt.exceptions.add(key, { outcome: "FAILED", error: { class: "user", message } });
    },
    partitionSkipped(key, reason) {
      const message = messageOf(reason);
      attempt.exceptions.add(key, { outcome: "SKIPPED", error: { class: "skipped", message } });
    },
  };
}

/** From the start of the first to the end of the last partition, in whatever order they come. */
function windowOfAll(keys: readonly string[], reader: PartitionReader): TimeWindow | null {
  const windows = keys.map((key) => reader.windowOf(key)).filter((window) => window !== null);
  const [first] = windows;
  if (first === undefined) return null;
  const all = { ...first };
  for (const { start, end } of windows) {
    if (start < all.start) all.start = start;
    if (end > all.end) all.end = end;
  }
  return all;
}

/** Whole units, as they are kept; a share such as 0.5 of 1 says no more than that it goes on. */
function amount(name: string, value: unknown): number {
  const number = typeof value === "bigint" || typeof value === "string" ? Number(value) : value;
  if (typeof number === "number" && number >= 0) {
    return Math.min(Math.round(number), Number.MAX_SAFE_INTEGER);
  }
  throw new PawlError(
    "INPUT_INVALID",
    `progress() needs ${name} as a number from 0, not ${shown(value)}.`,
  );
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
