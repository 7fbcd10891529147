import { z } from "zod";
import { ERRORS, type ErrorCode } from "../core/errors.ts";
import { TaskRef } from "../core/protocol.ts";
import { Spec } from "../core/published-spec.ts";

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
  /** How many looks of sensors and at heads run in it. */
  z.object({ type: z.literal("looks"), count: z.int().nonnegative() }),
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
