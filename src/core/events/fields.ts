import { z } from "zod";
import type { Json } from "../canonical.ts";
import { isJson } from "../json-budget.ts";

/** A count or an index: an integer from 0. */
export const Count = z.int().nonnegative();

/** An instant as fixed-width UTC text. */
export const InstantText = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** A SHA-256 as lower-case hex. */
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** Any JSON value. Looked through in one pass: a schema for each value in it costs a hundred times that. */
export const JsonValue = z.unknown().refine((value) => isJson(value), {
  error: "must be a JSON value",
}) as unknown as z.ZodType<Json>;

/** First and last, both included. */
export const IntervalPair = z.tuple([Count, Count]);

/** Why something failed. */
export const FailureField = z.object({ class: z.string(), message: z.string() });

/** Most characters of the message of a failure, and of its class. */
const MESSAGE_LENGTH_MAX = 2_000;
const CLASS_LENGTH_MAX = 100;

/** The failure in so many characters at most: whoever reports it may say anything. */
export function boundedFailure(
  { class: name, message }: z.infer<typeof FailureField>,
  lengthMax = MESSAGE_LENGTH_MAX,
): z.infer<typeof FailureField> {
  const most = Math.min(lengthMax, MESSAGE_LENGTH_MAX);
  // Where many failures share the room for their messages, their classes are short as well.
  const classMost = Math.min(Math.max(most, 40), CLASS_LENGTH_MAX);
  return {
    class: name.slice(0, classMost).toWellFormed(),
    message: message.slice(0, most).toWellFormed(),
  };
}

/** Ordinals, and which assets of the selection they are for (all when absent). */
export const ChunkPartField = z.object({
  from: Count,
  to: Count,
  assets: z.array(Count).optional(),
});
