import { z } from "zod";
import { ERRORS, type ErrorCode, PawlError } from "../errors.ts";

/** The media type of every error answer. */
export const PROBLEM_TYPE = "application/problem+json";

/** What is wrong with one field of a request. */
export const FieldProblem = z.strictObject({
  /** Where: `body.chunk_size`, `query.limit`, `path.backfill_id`. */
  field: z.string(),
  message: z.string(),
});
export type FieldProblem = z.infer<typeof FieldProblem>;

/** An error answer after RFC 9457; `code` is what programs match on. */
export const Problem = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    details: z.record(z.string(), z.unknown()),
    correlation_id: z.string().optional(),
    errors: z.array(FieldProblem).optional(),
  })
  .meta({ id: "Problem" });
export type Problem = z.infer<typeof Problem>;

/** Whether a text is one of the error codes. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

/** What is read of a problem: no more than is used, so that a newer server may say more. */
const ReadProblem = z.object({
  code: z.string(),
  detail: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
  errors: z.array(FieldProblem).optional(),
});

/** The error that a problem document stands for, or null when it is something else. */
export function problemError(body: unknown): PawlError | null {
  const parsed = ReadProblem.safeParse(body);
  if (!parsed.success || !isErrorCode(parsed.data.code)) return null;
  const { code, detail = `The server refused it: ${code}.`, details, errors } = parsed.data;
  return new PawlError(code, detail, {
    details: errors === undefined ? { ...details } : { ...details, errors },
  });
}
