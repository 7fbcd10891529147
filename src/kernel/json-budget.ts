import type { z } from "zod";
import type { Json } from "./canonical.ts";
import { PawlError } from "./errors.ts";

/** How deep the lists and objects of a text may be nested. */
export const JSON_DEPTH_MAX = 64;

/** Most characters in the name of a member: as many as the key of a partition has. */
export const JSON_KEY_LENGTH_MAX = 2_000;

/** Most members of one object: a schema looks at all of them, however many are wrong. */
const JSON_MEMBERS_MAX = 100_000;

const [QUOTE, COMMA, BACKSLASH] = [34, 44, 92];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [91, 93, 123, 125];

/**
 * Refuses a JSON text with more values than its reader will go through, or that is nested too deep,
 * before anything is made of it: a byte or two of text can become a hundred of memory, and all that
 * follows costs time for each value. One pass; whether the text is JSON at all is for the parser.
 */
export function checkJsonBudget(text: string, valuesMax: number): void {
  let values = 1;
  let depth = 0;
  /** Commas that may still come in the object of each level; a list has no bound of its own. */
  const commasLeft: number[] = [];
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfText(text, at);
        break;
      case COMMA: {
        values++;
        const left = commasLeft[depth];
        if (left === undefined) break;
        if (left === 0) throw tooManyMembers();
        commasLeft[depth] = left - 1;
        break;
      }
      case OPEN_LIST:
      case OPEN_OBJECT:
        values++;
        depth++;
        if (depth > JSON_DEPTH_MAX) throw tooDeep();
        commasLeft[depth] =
          text.charCodeAt(at) === OPEN_LIST ? Number.POSITIVE_INFINITY : JSON_MEMBERS_MAX - 1;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth--;
        break;
      default:
    }
    if (values > valuesMax) throw tooMany(valuesMax);
  }
}

/** Where a text in quotes ends; the end of it all where it is not closed. */
function endOfText(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at++;
  }
  return text.length;
}

/** Items of lists of which all that is wrong is listed; of more, the first that is. */
const LISTED_ITEMS_MAX = 5_000;
/** With this zod stops at the first wrong item. Its own `validate` says it, so it is not in its types. */
const UNTIL_FIRST = { abortEarly: true } as z.core.ParseContext<z.core.$ZodIssue>;

/** A value as a schema has it, or what is wrong with it. */
export type Checked<Value> =
  | { success: true; data: Value }
  | { success: false; issues: readonly z.core.$ZodIssue[] };

/**
 * What a schema says of a value of a stranger, in a time that does not grow with how much of it is
 * wrong: for each wrong item zod makes an object, and beyond some hundred thousand it fails.
 */
export function checkValue<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): Checked<z.output<Schema>> {
  try {
    const parsed = schema.safeParse(value, hasManyItems(value) ? UNTIL_FIRST : undefined);
    return parsed.success ? parsed : { success: false, issues: parsed.error.issues };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = "has too many members that are not valid";
    return { success: false, issues: [{ code: "custom", path: [], message, input: null }] };
  }
}

/** Whether the lists in a value have more items together than are worth a list of all that is wrong. */
function hasManyItems(value: unknown): boolean {
  const left = [value];
  let items = 0;
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) items += next.length;
    if (items > LISTED_ITEMS_MAX) return true;
    for (const inner of Object.values(next)) left.push(inner);
  }
  return false;
}

/** How deep a value may be that is no text yet: only what refers to itself is deeper. */
const VALUE_DEPTH_MAX = 1_000;

/** Whether a value is JSON, in one pass over it. */
export function isJson(value: unknown, depth = 0): value is Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth === VALUE_DEPTH_MAX) return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects of another realm have a prototype of their own, which has none.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isPlain && Object.values(value).every((member) => isJson(member, depth + 1));
}

function tooDeep(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body is nested more than ${JSON_DEPTH_MAX} levels deep.`,
    { details: { depth_max: JSON_DEPTH_MAX } },
  );
}

function tooMany(valuesMax: number): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body has more than ${valuesMax} values in its lists and objects. Send it in smaller parts.`,
    { details: { values_max: valuesMax, status: 413 } },
  );
}

function tooManyMembers(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body has an object with more than ${JSON_MEMBERS_MAX} members. Send it in smaller parts.`,
    { details: { members_max: JSON_MEMBERS_MAX, status: 413 } },
  );
}
