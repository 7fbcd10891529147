import type { z } from "zod";
import { PawlError } from "../core/errors.ts";

/** What is to be changed about a thing that is defined. */
type Change<Definition> = {
  /** The thing as the API shows it, with much that is no part of its definition. */
  current: { state_version: number };
  /** The fields of a definition. */
  body: z.ZodObject;
  changes: Partial<Definition>;
  /** An option that changes something, to name to somebody who gave none. */
  example: string;
  expectedStateVersion: number | undefined;
};

/**
 * The definition that takes the place of the current one: what is to change, and the rest as it is;
 * for the version that was looked at, unless the user names another.
 */
export function changedDefinition<Definition>(
  change: Change<Definition>,
): Definition & { expected_state_version: number } {
  const { current, body, changes, example, expectedStateVersion } = change;
  if (Object.keys(changes).length === 0) {
    throw new PawlError(
      "INPUT_INVALID",
      `Expected what to change, such as ${example}, got nothing.`,
    );
  }
  const fields = Object.keys(body.shape);
  const kept = Object.entries(current).filter(([key]) => fields.includes(key));
  return {
    ...(Object.fromEntries(kept) as Definition),
    ...changes,
    expected_state_version: expectedStateVersion ?? current.state_version,
  };
}

/** The sentence about a thing whose definition was to change. */
export function changedText(
  kind: string,
  changed: { name: string; state_version: number; accepted_event_id: string | null },
): string {
  const what = changed.accepted_event_id === null ? "is so already" : "was changed";
  return `${kind} ${changed.name} ${what} (version ${changed.state_version}).`;
}

/** The refusal of a command without an option that it needs. */
export function optionMissing(option: string, expected: string): PawlError {
  return new PawlError("INPUT_INVALID", `${option}: expected ${expected}, got nothing.`, {
    details: { option },
  });
}
