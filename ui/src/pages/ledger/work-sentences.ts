import type { EventData } from "../../../../src/work/events.ts";
import { counted, momentText } from "../../parts/time-text.ts";
import {
  byWhom,
  failureText,
  named,
  type Sentences,
  someNames,
  stateWord,
  words,
} from "./sentence.ts";

type Trigger = EventData<"RunRequested">["trigger_source_ref"];

function triggerText(trigger: Trigger): string {
  switch (trigger.type) {
    case "manual":
      return named(trigger.user_id);
    case "backfill":
      return `chunk ${trigger.chunk_id.split(":").at(-1)} of a backfill`;
    case "schedule":
      return "a tick of a schedule";
    case "sensor":
      return "an evaluation of a sensor";
    case "sync":
      return `segment ${trigger.segment_index} of a sync, to ${trigger.purpose}`;
    case "shards":
      return `step ${trigger.work.step} of a ${trigger.work.work}`;
    case "work":
      return `part ${trigger.index} of a ${trigger.kind}`;
  }
}

function runRequested(data: EventData<"RunRequested">): string {
  const { asset_selection: assets, partition_selection: keys, trigger_source_ref: by } = data;
  const of = keys === null ? "" : `, ${counted(keys.length, "partition")} (${someNames(keys)})`;
  return `A run of ${someNames(assets)}${of} was triggered by ${triggerText(by)}.`;
}

type Result = EventData<"TasksFinished">["results"][number];

function tasksFinished({ results }: EventData<"TasksFinished">): string {
  const counts = new Map<string, number>();
  for (const { outcome, retry_at, count = 1 } of results) {
    const word = retry_at === undefined ? stateWord(outcome) : "failed and will be retried";
    counts.set(word, (counts.get(word) ?? 0) + count);
  }
  const told = [...counts].map(([word, count]) => `${counted(count, "task")} ${word}`);
  const failed = results.find(({ error }) => error !== undefined);
  return `${told.join(", ")}${failed === undefined ? "." : `: ${attemptText(failed)}`}`;
}

function attemptText({ error, attempt, asset_key, partition_keys, retry_at }: Result): string {
  const keys = partition_keys.filter((key) => key !== "");
  const where = `${named(asset_key)}${keys.length === 0 ? "" : ` ${someNames(keys)}`}`;
  const again = retry_at === undefined ? "" : ` The next attempt is at ${momentText(retry_at)}.`;
  const what = error === undefined ? "" : `, ${failureText(error)}`;
  return `${where}, attempt ${attempt}${what}${again}`;
}

function segmentEndText(end: EventData<"RunFinished">["segment_end"]): string {
  switch (end?.becomes) {
    case undefined:
    case "released":
      return "";
    case "complete":
      return ` The segment is complete; everything up to block ${end.synced_to} is stored.`;
    case "pending":
      return ` The segment will run again: ${words(end.reason)}`;
    case "quarantined":
      return ` The segment is quarantined: ${failureText(end.error)}`;
    case "split": {
      const aside = end.tiles.filter(({ error }) => error !== null);
      const first = aside[0]?.error ?? null;
      const why = first === null ? "." : `: ${failureText(first)}`;
      return ` The segment is stored except ${counted(aside.length, "quarantined piece")}${why}`;
    }
  }
}

function runFinished(data: EventData<"RunFinished">): string {
  const { succeeded, failed, cancelled, skipped } = data.counts;
  const parts = [
    [succeeded, "succeeded"],
    [failed, "failed"],
    [cancelled, "cancelled"],
    [skipped, "skipped"],
  ] as const;
  const told = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  return `The run ${stateWord(data.outcome)}: ${told.join(", ")}.${segmentEndText(data.segment_end)}`;
}

/** Runs and their tasks in sentences. */
export const RUN_SENTENCES: Sentences<
  | "RunRequested"
  | "RunStarted"
  | "RunFinished"
  | "RunCancelRequested"
  | "TasksStarted"
  | "TasksFinished"
  | "TaskLeaseExpired"
  | "TasksDeferred"
  | "TasksRequeued"
> = {
  RunRequested: runRequested,
  RunStarted: () => "The run started: a worker took its first task.",
  RunFinished: runFinished,
  RunCancelRequested: ({ reason }) => `Cancelling was requested: ${words(reason)}`,
  TasksStarted({ worker_id, tasks }) {
    const count = tasks.reduce((sum, task) => sum + (task.count ?? 1), 0);
    const attempts = [...new Set(tasks.map(({ attempt }) => attempt))];
    return `Worker ${named(worker_id)} took ${counted(count, "task")}, attempt ${attempts.join(", ")}.`;
  },
  TasksFinished: tasksFinished,
  TaskLeaseExpired: ({ task_key, attempt, result }) =>
    `The lease of task ${task_key}, attempt ${attempt}, expired: its worker sent no heartbeat` +
    (result.retry_at === undefined
      ? ". No retry is left."
      : `. Retry at ${momentText(result.retry_at)}.`),
  TasksDeferred({ tasks }) {
    const awaited = tasks.map(({ waits: { asset_key, partition_key } }) =>
      `${asset_key} ${partition_key}`.trimEnd(),
    );
    return `${counted(tasks.length, "task")} began to wait for ${someNames([...new Set(awaited)])}.`;
  },
  TasksRequeued: ({ tasks }) =>
    `What ${counted(tasks.length, "task")} waited for changed; the requirements are checked again.`,
};

/** Backfills in sentences. */
export const BACKFILL_SENTENCES: Sentences<
  | "BackfillCreated"
  | "KeysSurveyed"
  | "BackfillChunkPlanned"
  | "BackfillChunkSplit"
  | "BackfillStateChanged"
  | "BackfillRetuned"
  | "BackfillWindowChanged"
> = {
  BackfillCreated: (data) =>
    `${named(data.created_by)} created a backfill of ${someNames(data.asset_selection)}: ` +
    `${counted(data.total_partitions, "partition")} in ${counted(data.total_chunks, "chunk")}.`,
  KeysSurveyed: ({ count, page }) =>
    `${counted(count, "partition")} found for the backfill (page ${page}).`,
  BackfillChunkPlanned: ({ chunk_index, partitions, generation }) =>
    `Chunk ${chunk_index} was planned: ${counted(partitions, "partition")}` +
    (generation === 0 ? "." : ` (again, ${generation + 1} times in total).`),
  BackfillChunkSplit: ({ chunk_index, tiles }) =>
    `Chunk ${chunk_index} failed and was replaced by ${tiles.length} smaller ones.`,
  BackfillStateChanged: ({ from_state, to_state, changed_by, reason, ...data }) =>
    `The backfill went from ${stateWord(from_state)} to ${stateWord(to_state)}` +
    (data.failure_limit_reached ? ": failure limit reached" : "") +
    byWhom(changed_by, reason),
  BackfillRetuned: ({ max_concurrent_runs, priority }) =>
    "The backfill continues with " +
    [
      max_concurrent_runs === null ? "" : `at most ${max_concurrent_runs} concurrent runs`,
      priority === null ? "" : `priority ${priority}`,
    ]
      .filter((part) => part !== "")
      .join(" and ") +
    ".",
  BackfillWindowChanged: ({ is_open, changes_at }) =>
    `The backfill ${is_open ? "may plan chunks" : "plans no chunks"}` +
    (changes_at === null ? "." : ` until ${changes_at}.`),
};

/** Definitions, keys and reports in sentences. */
export const DEFINITION_SENTENCES: Sentences<
  | "DefinitionsPublished"
  | "PartitionKeysAdded"
  | "PartitionKeysRemoved"
  | "PartitionKeysRestored"
  | "PartitionsReported"
  | "PartitionsForgotten"
  | "AwaitedPartitionsMade"
> = {
  DefinitionsPublished({ definition_version, origin, specs, removed }) {
    const names = specs.map(({ name, body }) => `${body.kind} ${name}`);
    const parts = [
      names.length === 0 ? "" : `new or changed: ${someNames(names)}`,
      removed.length === 0 ? "" : `gone: ${someNames(removed.map(({ name }) => name))}`,
    ];
    const told = parts.filter((part) => part !== "").join("; ");
    const from = origin === "code" ? "from code" : "by the API";
    return `Version ${definition_version} of the definitions was published ${from}; ${told}.`;
  },
  PartitionKeysAdded: ({ definition, keys }) =>
    `${counted(keys.length, "key")} added to ${named(definition)}: ${someNames(keys)}.`,
  PartitionKeysRemoved: ({ definition, keys }) =>
    `${counted(keys.length, "key")} removed from ${named(definition)}: ${someNames(keys)}.`,
  PartitionKeysRestored: ({ definition, keys }) =>
    `${counted(keys.length, "key")} of ${named(definition)} added again: ${someNames(keys)}.`,
  PartitionsReported({ asset_key, reported_by, items }) {
    const count = items.reduce((sum, { partition_keys }) => sum + partition_keys.length, 0);
    return `${named(reported_by)} reported ${counted(count, "partition")} of ${named(asset_key)} as made elsewhere.`;
  },
  AwaitedPartitionsMade: ({ asset_key, partition_keys }) =>
    `Tasks that waited for ${partition_keys === null ? "anything" : counted(partition_keys.length, "partition")} ` +
    `of ${named(asset_key)} were notified.`,
  PartitionsForgotten: ({ asset_key, partition_keys }) =>
    `Reports of ${counted(partition_keys.length, "partition")} of ${named(asset_key)} were taken back.`,
};
