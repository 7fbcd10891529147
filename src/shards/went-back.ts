import { PawlError } from "../core/errors.ts";
import type { Position } from "./shard.ts";

/** Says that the history of a shard ends before a position that was read from it earlier. */
export function wentBack(from: Position | null, present: Position): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `The shard is at position ${present}, before ${from}, which was read from it earlier: it was ` +
      "restored from a backup, or has lost its last transactions. What was copied since is not its " +
      "own any more: roll back and begin again.",
    { details: { position: present, from } },
  );
}

/** Says that changes behind a position were given up already. */
export function givenUp(position: Position, released: Position): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `A stream stands at position ${position}, and changes up to ${released} were given up because it ` +
      "had them: the shard that it leads to was restored from a backup. Roll back and begin again.",
    { details: { position, released } },
  );
}
