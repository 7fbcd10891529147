import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PartitionKey } from "../../kernel/keyspace/definition.ts";
import { EXPLICIT_KEYS_MAX } from "../../kernel/keyspace/selector.ts";
import { CheckResults } from "../asset/checks.ts";
import { Count, FailureField, InstantText, JsonValue } from "../envelope.ts";
import { ClaimedSegment, SegmentReport } from "../sync/segment-protocol.ts";
import { ClaimedStep, StepReport } from "../shard/step-protocol.ts";

/*
 * What workers and the server say to each other: claim (which waits), heartbeat, checkpoint, log
 * and report, all in batches. `attempt` is the fence of every message about a task.
 */

/** The fence of one attempt at a task. */
export const TaskRef = z.strictObject({
  run_pos: z.int().positive(),
  task_key: Count,
  attempt: z.int().positive(),
});
export type TaskRef = z.infer<typeof TaskRef>;

/** Most characters of all the names in one claim. */
const NAMES_LENGTH_MAX = 1_000_000;

/** The names that a worker asks for work under: of assets, syncs, pairs of shards or sensors. */
export const WorkNames = z
  .array(z.string().max(500))
  .max(10_000)
  .refine((names) => names.reduce((sum, { length }) => sum + length, 0) <= NAMES_LENGTH_MAX, {
    error: `names with at most ${NAMES_LENGTH_MAX} characters together`,
  });

/** Longest time that a claim may wait for work. */
export const CLAIM_WAIT_MS_MAX = 30_000;
/** Most tasks in one claim: bounds a commit by its work. */
export const CLAIM_SLOTS_MAX = 500;
/** Most items in one message from a worker. */
export const MESSAGE_ITEMS_MAX = 2_000;

/** Most dynamic definitions that one task, or one evaluation of a sensor, may add keys to. */
export const KEY_ADDITIONS_MAX = 20;

/** Keys that a task, or an evaluation of a sensor, adds to dynamic partitions. */
export const KeyAddition = z.strictObject({
  definition: z.string().min(1).max(200),
  keys: z.array(PartitionKey).min(1).max(EXPLICIT_KEYS_MAX),
});
export type KeyAddition = z.infer<typeof KeyAddition>;

/** Most keys that one task, or one evaluation of a sensor, may add: they are one commit with it. */
export const KEYS_ADDED_MAX = 20_000;

/** All keys that a task, or an evaluation of a sensor, adds. */
export const AddedKeys = z
  .array(KeyAddition)
  .max(KEY_ADDITIONS_MAX)
  .refine((added) => added.reduce((sum, { keys }) => sum + keys.length, 0) <= KEYS_ADDED_MAX, {
    error: `must not have more than ${KEYS_ADDED_MAX} keys together; add the others the next time`,
  });

/** The class of the error of an attempt whose process crashed. */
export const CRASH_CLASS = "crash";

/** A claim for up to so many tasks of these assets. `lease_id` is made by the worker: repeating the claim gives the same tasks. */
export const ClaimRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  lease_id: z.string().min(1).max(100),
  slots: z.int().positive().max(CLAIM_SLOTS_MAX),
  /** Keys of assets, and the work names of syncs and of pairs of shards. */
  assets: WorkNames,
  /** Of the slots, those that work of the lowest class may take; all when absent. */
  backfill_slots: Count.optional(),
  /**
   * Whether nothing else runs in the worker's process. Then it may get a task that is suspected of
   * taking processes down, and nothing beside it; else it gets none of those before it has let what runs
   * come to an end. Absent from workers that know nothing of that: they get everything.
   */
  alone: z.boolean().optional(),
  code_version: z.string().max(500).nullable(),
  wait_ms: z.int().nonnegative().max(CLAIM_WAIT_MS_MAX),
});
export type ClaimRequest = z.infer<typeof ClaimRequest>;

/** Tasks of one asset of one run. */
export const ClaimedGroup = z.object({
  run_id: z.string(),
  run_pos: z.int().positive(),
  run_key: z.string(),
  backfill_id: z.string().nullable(),
  asset_key: z.string(),
  spec_hash: z.string(),
  batch: z.boolean(),
  config: JsonValue,
  labels: z.record(z.string(), z.string()),
  timeout_ms: z.int().positive(),
  stall_after_ms: z.int().positive().nullable(),
  /** The segment that the one task is about; absent for assets. */
  segment: ClaimedSegment.optional(),
  /** The step on shards that the one task is. */
  step: ClaimedStep.optional(),
  tasks: z.array(
    z.object({
      task_key: Count,
      attempt: z.int().positive(),
      /** Empty for an asset without partitions. */
      partition_keys: z.array(z.string()),
      checkpoint: JsonValue,
    }),
  ),
});
export type ClaimedGroup = z.infer<typeof ClaimedGroup>;

/** What a claim got; no groups when nothing became ready in time. */
export const ClaimAnswer = z.object({
  lease_id: z.string(),
  ttl_ms: z.int().positive(),
  groups: z.array(ClaimedGroup),
  /**
   * The one task is suspected of taking processes down: nothing else is to begin in the process until
   * it has ended, or for so long.
   */
  alone_ms: z.int().positive().optional(),
  /**
   * There is nothing because such a task waits, and has to run alone: the worker lets what runs come
   * to an end, and asks again.
   */
  suspects_wait: z.boolean().optional(),
  /** Whether the server takes claims along with reports; those of earlier versions do not. */
  takes_claims_with_reports: z.boolean().optional(),
});
export type ClaimAnswer = z.infer<typeof ClaimAnswer>;

/** What a claim found, before it has a name and a time. */
export type ClaimFound = Pick<ClaimAnswer, "groups" | "alone_ms" | "suspects_wait">;

/** The fence of one poll: an evaluation of a sensor, or a poll of a head. */
export const LookRef = z.strictObject({ probe_id: z.string(), attempt: z.int().positive() });
export type LookRef = z.infer<typeof LookRef>;

/** A heartbeat: the worker still has these. */
export const HeartbeatRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  leases: z.array(z.string()).max(MESSAGE_ITEMS_MAX),
  tasks: z
    .array(
      z.strictObject({
        ...TaskRef.shape,
        progress: z
          .strictObject({
            done: Count,
            total: Count.nullable(),
            note: z.string().max(500).nullable(),
          })
          .optional(),
      }),
    )
    .max(MESSAGE_ITEMS_MAX),
  /** Polls that still run: evaluations of sensors, and polls of heads. */
  looks: z.array(LookRef).max(MESSAGE_ITEMS_MAX).optional(),
});
export type HeartbeatRequest = z.infer<typeof HeartbeatRequest>;

/** Which leases were renewed, and which tasks to stop: no longer theirs, or cancelled. */
export const HeartbeatAnswer = z.object({
  ttl_ms: z.int().positive(),
  renewed: z.array(z.string()),
  lost: z.array(TaskRef),
  cancelled: z.array(TaskRef),
  /** The polls among them that another worker has by now. */
  lost_looks: z.array(LookRef).optional(),
});
export type HeartbeatAnswer = z.infer<typeof HeartbeatAnswer>;

/** A checkpoint: how far an attempt got. */
export const CheckpointRequest = z.strictObject({
  items: z
    .array(z.strictObject({ ...TaskRef.shape, value: JsonValue }))
    .min(1)
    .max(MESSAGE_ITEMS_MAX),
});
export type CheckpointRequest = z.infer<typeof CheckpointRequest>;

/** How much a log line matters. */
export const LogLevel = z.enum(["debug", "info", "warn", "error"]);
export type LogLevel = z.infer<typeof LogLevel>;

/** The fields of a log line that say its level; none for the usual one. */
export function levelFields(level: LogLevel): Readonly<Record<string, LogLevel>> {
  return level === "info" ? {} : { level };
}

/** The level of a log line: its field `level`, where that is one. */
export function logLevelOf(fields: Json): LogLevel {
  if (typeof fields !== "object" || fields === null || !("level" in fields)) return "info";
  const level = LogLevel.safeParse(fields["level"]);
  return level.success ? level.data : "info";
}

/** Lines that tasks logged. */
export const LogRequest = z.strictObject({
  items: z
    .array(
      z.strictObject({
        ...TaskRef.shape,
        message: z.string().max(10_000),
        fields: JsonValue,
        /** The error that ends the attempt: kept also where the log is full, within a reserve. */
        ends_attempt: z.boolean().optional(),
      }),
    )
    .min(1)
    .max(MESSAGE_ITEMS_MAX),
});
export type LogRequest = z.infer<typeof LogRequest>;

/** Per item whether the fence was current and the item was kept. */
export const AcceptedAnswer = z.object({ accepted: z.array(z.boolean()) });
export type AcceptedAnswer = z.infer<typeof AcceptedAnswer>;

/** Most that is kept about a materialization, as JSON text. */
export const METADATA_LENGTH_MAX = 16_000;

/** One attempt's end, in the worker's words. */
export const ReportedResult = z.strictObject({
  ...TaskRef.shape,
  outcome: z.enum(["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]),
  /** Partitions of a batch task that differ from the outcome, by their place in the task. */
  exceptions: z
    .array(
      z.strictObject({
        index: Count,
        outcome: z.enum(["FAILED", "SKIPPED"]),
        error: FailureField.nullable(),
      }),
    )
    .optional(),
  metadata: JsonValue.optional(),
  error: FailureField.optional(),
  /** Of an attempt at a segment: how far it got, whatever the outcome. */
  segment: SegmentReport.optional(),
  /** Of an attempt at a step on shards: what it found or did. */
  step: StepReport.optional(),
  /** What the checks of a success found in its partitions. */
  checks: CheckResults.optional(),
  /** Keys that a success adds to dynamic partitions: all of them with the result, or none. */
  added_keys: AddedKeys.optional(),
  /** The function asked to be tried again no earlier than this. */
  retry_after_ms: z.int().nonnegative().optional(),
  /** The function said that trying again is no use. */
  final: z.boolean().optional(),
  /**
   * The worker gives the task back, as it stops or has too much: ready again at once, and the
   * attempt is not one of those that the retry policy allows.
   */
  released: z.boolean().optional(),
  /**
   * The attempt went down with its process, in which other work ran too: it is not known whose fault
   * that was, so it counts as lost, and not as a failure.
   */
  crashed: z.boolean().optional(),
});
export type ReportedResult = z.infer<typeof ReportedResult>;

/** A claim that goes along with a report, by the same worker; it does not wait. */
export const ClaimAlong = ClaimRequest.omit({ worker_id: true, code_version: true, wait_ms: true });
export type ClaimAlong = z.infer<typeof ClaimAlong>;

/** Ends of attempts, leases whose tasks have all been reported, and a claim for what is free then. */
export const ReportRequest = z.strictObject({
  worker_id: z.string().min(1).max(200),
  code_version: z.string().max(500).nullable(),
  results: z.array(ReportedResult).max(MESSAGE_ITEMS_MAX),
  released_leases: z.array(z.string()).max(MESSAGE_ITEMS_MAX),
  claim: ClaimAlong.optional(),
});
export type ReportRequest = z.infer<typeof ReportRequest>;

/** Per item: recorded, or lost because the attempt is not the current one; and what the claim got. */
export const ReportAnswer = z.object({
  results: z.array(z.enum(["recorded", "lost"])),
  /** Absent when the claim could not be decided: it is to be made by itself then. */
  claimed: ClaimAnswer.optional(),
});
export type ReportAnswer = z.infer<typeof ReportAnswer>;

/** What a running attempt is known to have done so far. */
export const ProgressDocument = z.object({
  done: z.number(),
  total: z.number().nullable(),
  note: z.string().nullable(),
  at: InstantText,
});
