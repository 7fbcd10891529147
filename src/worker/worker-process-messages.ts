import { z } from "zod";
import { ERRORS, type ErrorCode } from "../core/errors.ts";
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
]);
export type FromWorkerProcess = z.infer<typeof FromWorkerProcess>;

/** What the parent says: where the server is, and that the worker may begin. */
export const ToWorkerProcess = z.object({
  type: z.literal("connect"),
  url: z.string(),
  token: z.string().optional(),
  concurrency: z.int().positive().optional(),
  stop_grace_ms: z.int().nonnegative().optional(),
});
export type ToWorkerProcess = z.infer<typeof ToWorkerProcess>;
