import { z } from "zod";
import { ERRORS, type ErrorCode } from "../kernel/errors.ts";
import { HeadResult, ProbeResult } from "../work/probe-protocol.ts";
import { TaskRef } from "../work/run/protocol.ts";
import { Spec } from "../work/definition/published-spec.ts";

/** What the worker's process says to the one that forked it. */
export const FromWorkerProcess = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("specs"),
    specs: z.array(Spec),
    code_version: z.string().nullable(),
  }),
  z.object({
    type: z.literal("error"),
    code: z.custom<ErrorCode>((code) => typeof code === "string" && Object.hasOwn(ERRORS, code)),
    message: z.string(),
  }),
  /**
   * Tasks that the worker was given under a lease, with the time that the one is to be alone for; that
   * one of them begins, and that some are settled.
   */
  z.object({
    type: z.literal("took"),
    lease_id: z.string(),
    tasks: z.array(TaskRef),
    alone_ms: z.int().positive().optional(),
  }),
  z.object({ type: z.literal("began"), task: TaskRef }),
  z.object({ type: z.literal("settled"), tasks: z.array(TaskRef) }),
  /** That it begins a look of a sensor or at a head, which is given back so; and that one is over. */
  z.object({
    type: z.literal("look"),
    id: z.int(),
    probe: ProbeResult.optional(),
    head: HeadResult.optional(),
  }),
  z.object({ type: z.literal("looked"), id: z.int() }),
]);
export type FromWorkerProcess = z.infer<typeof FromWorkerProcess>;

/** What the parent says: where the server is, and that the worker may begin. */
export const ToWorkerProcess = z.object({
  type: z.literal("connect"),
  url: z.string(),
  worker_id: z.string().min(1).max(200),
  code_version: z.string().nullable().optional(),
  token: z.string().optional(),
  concurrency: z.int().positive().optional(),
  stop_grace_ms: z.int().nonnegative().optional(),
});
export type ToWorkerProcess = z.infer<typeof ToWorkerProcess>;
