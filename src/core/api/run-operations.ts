import { z } from "zod";
import { Count, JsonValue } from "../events/fields.ts";
import { EXPLICIT_KEYS_MAX } from "../partitions/selector.ts";
import { AssetKey, Labels } from "../spec.ts";
import {
  accepted,
  commaList,
  type Operation,
  ORCHESTRATION_PATH,
  pageOf,
  pageQuery,
  readQuery,
  timeQuery,
  DOCUMENT_BYTES_MAX,
} from "./operation.ts";
import {
  ConflictDocument,
  LogLineDocument,
  RunDocument,
  RunStateField,
  TaskDocument,
  TaskStateField,
  TriggerField,
} from "./run-documents.ts";
import { RunTimelineDocument, TaskDetailDocument } from "./run-timeline-documents.ts";

const RUNS_PATH = `${ORCHESTRATION_PATH}/runs`;
const RUN_PATH = `${RUNS_PATH}/{run_id}`;

/** A wish for one run of some assets. */
export const RequestRunBody = z
  .strictObject({
    /** Names the request; the same name never makes a second run. */
    request_id: z.string().min(1).max(200).optional(),
    /** A key of one's own, under which only one request is ever carried out. */
    run_key: z.string().min(1).max(300).optional(),
    /**
     * What to do when the key stands for another request, which is recorded either way: refuse this
     * one with 409 `RUN_KEY_CONFLICT`, or answer the run that exists.
     */
    on_conflict: z.enum(["refuse", "existing"]).default("refuse"),
    assets: z.array(AssetKey).min(1).max(1_000),
    /** Left out for assets without partitions. */
    partition_keys: z.array(z.string().min(1).max(2_000)).min(1).max(EXPLICIT_KEYS_MAX).optional(),
    config: JsonValue.optional(),
    labels: Labels.optional(),
    priority: z.int().min(-100).max(100).default(0),
    code_version: z.string().min(1).max(200).optional(),
  })
  .meta({ id: "RequestRun" });
export type RequestRunBody = z.infer<typeof RequestRunBody>;

/** What asking for a run answers. */
export const RequestedRun = z
  .strictObject({
    ...accepted,
    run_id: z.string(),
    run_key: z.string(),
    /**
     * `conflict`, only when the existing run was asked for: the key stands for another request; this
     * one was recorded, and no run was made for it.
     */
    outcome: z.enum(["created", "existing", "conflict"]),
    request_fingerprint: z.string(),
    /** Of the request that made the run; null when this one did. */
    existing_fingerprint: z.string().nullable(),
  })
  .meta({ id: "RequestedRun" });
export type RequestedRun = z.infer<typeof RequestedRun>;

const RunParams = z.strictObject({ run_id: z.string().min(1).max(100) });

const TaskParams = RunParams.extend({ task_key: z.coerce.number<number>().int().min(0) });

/** What the API can do with runs. */
export const RUN_OPERATIONS = {
  listRuns: {
    method: "GET",
    path: RUNS_PATH,
    summary: "Lists runs, newest first",
    verb: "read",
    query: z.strictObject({
      ...pageQuery,
      ...timeQuery,
      status: commaList(RunStateField).optional(),
      backfill_id: z.string().min(1).max(100).optional(),
      /** Runs of this asset, alone or with others. A short page may still have a next. */
      asset: AssetKey.optional(),
      /** Runs that were asked for by these. A short page may still have a next. */
      trigger: commaList(TriggerField).optional(),
    }),
    answer: pageOf(RunDocument),
    status: 200,
  },
  requestRun: {
    method: "POST",
    path: RUNS_PATH,
    summary: "Asks for one run of some assets",
    verb: "write",
    body: RequestRunBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: RequestedRun,
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  getRun: {
    method: "GET",
    path: RUN_PATH,
    summary: "Shows a run",
    verb: "read",
    params: RunParams,
    query: z.strictObject(readQuery),
    answer: RunDocument,
    status: 200,
  },
  listTasks: {
    method: "GET",
    path: `${RUN_PATH}/tasks`,
    summary: "Lists the tasks of a run, in the order of their numbers",
    verb: "read",
    params: RunParams,
    query: z.strictObject({ ...pageQuery, status: commaList(TaskStateField).optional() }),
    answer: pageOf(TaskDocument),
    status: 200,
  },
  getTask: {
    method: "GET",
    path: `${RUN_PATH}/tasks/{task_key}`,
    summary: "Shows a task of a run with its attempts",
    verb: "read",
    params: TaskParams,
    query: z.strictObject(readQuery),
    answer: TaskDetailDocument,
    status: 200,
  },
  getRunTimeline: {
    method: "GET",
    path: `${RUN_PATH}/timeline`,
    summary: "Shows the tasks of a run, what they wait for, and every attempt",
    verb: "read",
    params: RunParams,
    query: z.strictObject(readQuery),
    answer: RunTimelineDocument,
    status: 200,
  },
  listTaskLogs: {
    method: "GET",
    path: `${RUN_PATH}/tasks/{task_key}/logs`,
    summary: "Lists what a task logged, oldest first",
    verb: "read",
    params: TaskParams,
    query: z.strictObject({
      ...pageQuery,
      /** Lines after the one with this number; not together with a cursor. */
      after: z.coerce.number<number>().int().min(0).optional(),
    }),
    answer: pageOf(LogLineDocument).extend({
      /** The number of the newest line, counted from 1; 0 when there is none. */
      last_line: Count,
    }),
    status: 200,
  },
  cancelRun: {
    method: "POST",
    path: `${RUN_PATH}/cancel`,
    summary: "Cancels a run; running tasks are told, and closed after a grace time",
    verb: "write",
    params: RunParams,
    body: z.strictObject({ reason: z.string().min(1).max(1_000).optional() }),
    answer: z
      .strictObject({ ...accepted, run_id: z.string(), state: RunStateField })
      .meta({ id: "RunTransition" }),
    status: 202,
  },
  listConflicts: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/conflicts`,
    summary: "Lists requests that used a run key of another request, newest first",
    verb: "read",
    query: z.strictObject({ ...pageQuery, ...timeQuery }),
    answer: pageOf(ConflictDocument),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
