import type { z } from "zod";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { nameOrFullId } from "../base/short-id.ts";
import type { CommandSubject } from "../base/subcommands.ts";

/** A kind whose things have names of their own, as commands name one of them. */
export function namedSubject<Param extends string>(
  noun: string,
  param: Param,
  list: (client: Client) => AsyncIterable<Record<Param | "name" | "state", string>>,
): CommandSubject {
  return {
    noun,
    description: `the ${noun}'s name, its id, or the short form of that`,
    param,
    find: (client, text) =>
      nameOrFullId(
        text,
        () => list(client),
        (item) => item[param],
      ),
  };
}

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

/** Whether a definition is to act, as its flags say. */
export function enabledOf(flags: { enabled?: boolean; disabled?: boolean }): boolean | undefined {
  const { enabled, disabled } = flags;
  if (enabled !== true) return disabled === true ? false : undefined;
  if (disabled !== true) return true;
  throw new PawlError("INPUT_INVALID", "Expected --enabled or --disabled, got both.");
}

/** Null for the word `none`, which takes something back. */
export function orNull(text: string | undefined): string | null | undefined {
  return text === "none" ? null : text;
}

/** The parts of an option that may be repeated and may hold several, with commas. */
export function partsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) => text.split(",").map((part) => part.trim()));
}
