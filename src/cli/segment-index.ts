import { PawlError } from "../core/errors.ts";

/** The index of a segment that a text means. Throws INPUT_INVALID. */
export function segmentIndexOf(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the index of a segment, such as 12, got ${JSON.stringify(text)}.`,
    { details: { segment: text } },
  );
}
