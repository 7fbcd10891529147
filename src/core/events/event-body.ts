import { canonicalJson } from "../canonical.ts";
import { PawlError } from "../errors.ts";
import type { NewEvent } from "./index.ts";

/** Largest body of an event, in characters. */
const EVENT_DATA_MAX = 4_000_000;

/** The body of an event as it is recorded; throws SELECTION_TOO_LARGE when it is too long for that. */
export function eventBody({ type, data }: NewEvent): string {
  const body = canonicalJson(data);
  if (body.length <= EVENT_DATA_MAX) return body;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `The event ${type} would be ${body.length} characters long; ` +
      `the most is ${EVENT_DATA_MAX}. Ask for less at once.`,
  );
}
