import { PawlError } from "../core/errors.ts";

/** Refuses a range of blocks that ends before it begins. */
export function checkRange(from: number | undefined, to: number | undefined): void {
  if (from === undefined || to === undefined || from <= to) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The range begins at block ${from} and ends before that, at ${to}. Both ends belong to it.`,
    { details: { from_block: from, to_block: to } },
  );
}
