import { inspect, types } from "node:util";
import type { Json } from "../kernel/canonical.ts";
import { ERRORS, type ErrorCode, PawlError } from "../kernel/errors.ts";
import {
  RangeTooLarge,
  SourceLagging,
  SourceUnavailable,
  Throttled,
  DoNotRetry,
  RetryAfter,
  Skip,
} from "../define/errors.ts";

/*
 * Where values of user code become plain data: everything that it throws, returns or says passes
 * here once, and what comes out holds nothing of it. A getter may throw, a proxy may lie, a message
 * may be no text; behind this file they do not.
 */

/** Longest message of an error that is reported. */
export const MESSAGE_LENGTH_MAX = 2_000;
/** Most that is read of any one text of an error. */
const TEXT_LENGTH_MAX = 8_000;
/** How many causes deep an error is read. */
const CAUSES_MAX = 5;
/** As deep as the server takes documents, with room for what is around them. */
const DEPTH_MAX = 50;

/** Kinds of errors whose name says nothing that the message does not. */
const PLAIN_NAMES: ReadonlySet<string> = new Set([
  "DoNotRetry",
  "Error",
  "PawlError",
  "RangeTooLarge",
  "RetryAfter",
  "Skip",
  "SourceLagging",
  "SourceUnavailable",
  "Throttled",
  "VerificationFailed",
]);

/** Thrown when what is stored is not what the source has. */
export class VerificationFailed extends Error {
  override readonly name = "VerificationFailed";
}

/** Something was thrown that is no error. */
class NoError extends Error {}

/** Errors that were made here, so that one is never made plain twice. */
const PLAIN_ERRORS = new WeakSet<object>();

/**
 * An error that is safe to look at, for whatever was thrown: of the same kind where the kind is
 * Pawl's own, with texts that are texts, and with causes as plain as itself.
 */
export function plainError(thrown: unknown): Error {
  return plainAt(thrown, 0);
}

/** Whether it is an error of any kind, of this realm or another. */
export function isError(thrown: unknown): boolean {
  return types.isNativeError(thrown) || isA(thrown, Error);
}

/** Calls a function of the user; whatever that throws is thrown as a plain error. */
export async function callUser<Answer>(call: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await call();
  } catch (error) {
    throw plainError(error);
  }
}

/** The sentence that is kept of an error: with its kind, its cause, and bounded. */
export function messageOf(thrown: unknown): string {
  const error = plainError(thrown);
  let message = sentenceOf(error);
  if (error.cause instanceof Error) message += ` (cause: ${error.cause.message})`;
  return cut(message, MESSAGE_LENGTH_MAX);
}

/** The text as it is, or what anything else looks like; bounded, and of whole characters. */
export function readableText(value: unknown, lengthMax: number): string {
  return cut(typeof value === "string" ? value : shortened(value), lengthMax);
}

/** What a value looks like in a sentence. Never throws, and runs no more of the user's code than it must. */
export function shortened(value: unknown): string {
  try {
    const kept = keptJson(value, MESSAGE_LENGTH_MAX);
    if ("value" in kept) return cut(JSON.stringify(kept.value), MESSAGE_LENGTH_MAX);
  } catch {
    // Looked at without its own code instead.
  }
  try {
    const text = inspect(value, {
      depth: 2,
      customInspect: false,
      maxArrayLength: 10,
      maxStringLength: 500,
      breakLength: Number.POSITIVE_INFINITY,
    });
    return cut(text, MESSAGE_LENGTH_MAX);
  } catch {
    return `a ${typeof value} that cannot be shown`;
  }
}

/** A copy as JSON, or in words why there can be none. */
export type Kept = { value: Json } | { fault: string };

/**
 * A copy of a value as JSON, of at most so many characters. Dates and the like give what their
 * `toJSON` says, errors their message; `undefined` is left out. Throws what the value's own code throws.
 */
export function keptJson(value: unknown, lengthMax: number): Kept {
  const copying: Copying = { left: lengthMax, lengthMax };
  try {
    const copy = copyOf(value, "", copying, 0);
    return copy === undefined ? { fault: "nothing is there" } : { value: copy };
  } catch (error) {
    if (error instanceof CopyFault) return { fault: error.message };
    throw error;
  }
}

/** What is kept of the fields of a log line: a copy, or why they could not be kept. */
export function logFields(fields: unknown, lengthMax: number): { readonly [key: string]: Json } {
  if (fields === undefined || fields === null) return {};
  try {
    const kept = keptJson(fields, lengthMax);
    if ("fault" in kept) return { not_kept: `The fields are not kept: ${kept.fault}.` };
    const { value } = kept;
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as { readonly [key: string]: Json })
      : { value };
  } catch (error) {
    return { not_kept: messageOf(error) };
  }
}

/** Why a value cannot be copied; ours, so that it is told apart from what user code throws. */
class CopyFault extends Error {}

type Copying = { left: number; readonly lengthMax: number };

function copyOf(given: unknown, key: string, copying: Copying, depth: number): Json | undefined {
  // Its own word in JSON is null, which says that there is nothing.
  if (types.isDate(given) && Number.isNaN(Date.prototype.getTime.call(given))) {
    throw new CopyFault("a date that is none cannot be written as JSON");
  }
  const value = jsonOf(given, key);
  switch (typeof value) {
    case "undefined":
      return undefined;
    case "string":
      spend(copying, value.length + 2);
      return value;
    case "boolean":
      spend(copying, 5);
      return value;
    case "number":
      if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
        throw new CopyFault(`the number ${value} cannot be kept exactly as JSON`);
      }
      spend(copying, `${value}`.length);
      return value;
    case "object":
      if (value === null) {
        spend(copying, 4);
        return null;
      }
      return isError(value)
        ? copyOf(messageOf(value), key, copying, depth)
        : membersOf(value, copying, depth);
    default:
      throw new CopyFault(`a ${typeof value} cannot be written as JSON`);
  }
}

function membersOf(value: object, copying: Copying, depth: number): Json {
  if (depth >= DEPTH_MAX) {
    throw new CopyFault(`it is nested more than ${DEPTH_MAX} levels deep, or in a ring`);
  }
  const hidden = hiddenIn(value);
  if (hidden !== null) throw new CopyFault(hidden);
  spend(copying, 2);
  if (Array.isArray(value)) {
    const copies: Json[] = [];
    // By its length: a list may be shorter or longer by the time it is read.
    for (let index = 0; index < value.length; index++) {
      spend(copying, 1);
      const copy = copyOf(value[index], `${index}`, copying, depth + 1);
      if (copy === undefined) throw new CopyFault("a list with a hole cannot be written as JSON");
      copies.push(copy);
    }
    return copies;
  }
  const copies: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    const copy = copyOf((value as Record<string, unknown>)[key], key, copying, depth + 1);
    if (copy === undefined) continue;
    if (key === "__proto__") throw new CopyFault("the key __proto__ is not allowed in a document");
    spend(copying, key.length + 4);
    copies[key] = copy;
  }
  return copies;
}

/** Why a value would be `{}` in JSON whatever it holds, and what to write instead; null for all others. */
export function hiddenIn(value: object): string | null {
  if (types.isPromise(value)) return "a promise cannot be written as JSON: await it";
  if (types.isMap(value)) return "a Map cannot be written as JSON: use Object.fromEntries(map)";
  if (types.isSet(value)) return "a Set cannot be written as JSON: use [...set]";
  if (types.isRegExp(value)) return "a RegExp cannot be written as JSON: use its source";
  if (types.isAnyArrayBuffer(value)) return "bytes cannot be written as JSON: write them as text";
  return null;
}

/** What stands for a value in JSON by its own word, as `JSON.stringify` asks for it. */
export function jsonOf(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" ? (Reflect.apply(toJSON, value, [key]) as unknown) : value;
}

function spend(copying: Copying, length: number): void {
  copying.left -= length;
  if (copying.left >= 0) return;
  const { lengthMax } = copying;
  throw new CopyFault(
    `it is more than ${lengthMax} characters of JSON and at most ${lengthMax} are kept`,
  );
}

function plainAt(thrown: unknown, depth: number): Error {
  if (isPlain(thrown)) return thrown;
  const error = isError(thrown) ? errorLike(thrown as object, depth) : noError(thrown);
  PLAIN_ERRORS.add(error);
  return error;
}

function isPlain(thrown: unknown): thrown is Error {
  return typeof thrown === "object" && thrown !== null && PLAIN_ERRORS.has(thrown);
}

function noError(thrown: unknown): Error {
  const message =
    typeof thrown === "string"
      ? cut(thrown, TEXT_LENGTH_MAX)
      : `Something was thrown that is no error: ${shortened(thrown)}`;
  const error = new NoError(message === "" ? "An empty text was thrown." : message);
  error.stack = "";
  return error;
}

function errorLike(thrown: object, depth: number): Error {
  const message = textMember(thrown, "message");
  const cause = depth < CAUSES_MAX ? member(thrown, "cause") : undefined;
  const options = isError(cause) ? { cause: plainAt(cause, depth + 1) } : {};
  const error = ofOwnKind(thrown, message, options) ?? ofOtherKind(thrown, message, options);
  const stack = member(thrown, "stack");
  const text = typeof stack === "string" ? stackText(stack) : "";
  Object.defineProperty(error, "stack", { value: text, writable: true, configurable: true });
  return error;
}

/** A stack begins with the message: of a long one both are kept, and what is between is cut. */
function stackText(stack: string): string {
  if (stack.length <= TEXT_LENGTH_MAX) return stack.toWellFormed();
  const frames = stack.slice(MESSAGE_LENGTH_MAX - TEXT_LENGTH_MAX).toWellFormed();
  return `${cut(stack, MESSAGE_LENGTH_MAX)}${frames}`;
}

/** An error whose kind says what to do about it; null for all others. */
function ofOwnKind(thrown: object, message: string, options: { cause?: Error }): Error | null {
  const { cause } = options;
  if (isA(thrown, Skip)) return new Skip(message, options);
  if (isA(thrown, DoNotRetry)) return new DoNotRetry(message, options);
  if (isA(thrown, RetryAfter)) return new RetryAfter(amount(thrown, "delayMs") ?? 0, message);
  if (isA(thrown, RangeTooLarge)) {
    return new RangeTooLarge(message, amount(thrown, "suggestedSize"), cause);
  }
  if (isA(thrown, Throttled)) return new Throttled(message, amount(thrown, "retryAfterMs"), cause);
  if (isA(thrown, SourceLagging)) return new SourceLagging(message, options);
  if (isA(thrown, SourceUnavailable)) return new SourceUnavailable(message, options);
  if (isA(thrown, VerificationFailed)) return new VerificationFailed(message, options);
  if (!isA(thrown, PawlError)) return null;
  const code = member(thrown, "code");
  if (typeof code !== "string" || !Object.hasOwn(ERRORS, code)) return null;
  return new PawlError(code as ErrorCode, message, {
    details: logFields(member(thrown, "details"), TEXT_LENGTH_MAX),
    ...options,
  });
}

function ofOtherKind(thrown: object, message: string, options: { cause?: Error }): Error {
  const error = new Error(message, options);
  const name = member(thrown, "name");
  error.name = typeof name === "string" && name !== "" ? cut(name, 200) : "Error";
  const code = member(thrown, "code");
  if (typeof code !== "string" && typeof code !== "number") return error;
  return Object.assign(error, { code: cut(String(code), 200) });
}

/** What a sentence says of an error that is plain. */
function sentenceOf({ name, message }: Error): string {
  if (message === "") return `${name} without a message`;
  return PLAIN_NAMES.has(name) ? message : `${name}: ${message}`;
}

const UNREADABLE = Symbol("unreadable");

function member(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key];
  } catch {
    return UNREADABLE;
  }
}

function textMember(value: object, key: string): string {
  const found = member(value, key);
  if (found === UNREADABLE) return `an error whose ${key} cannot be read`;
  if (found === undefined || found === null) return "";
  return readableText(found, TEXT_LENGTH_MAX);
}

function amount(value: object, key: string): number | null {
  const found = member(value, key);
  return typeof found === "number" ? found : null;
}

function isA<Kind>(value: unknown, kind: abstract new (...args: never[]) => Kind): value is Kind {
  try {
    return value instanceof kind;
  } catch {
    return false;
  }
}

function cut(text: string, lengthMax: number): string {
  return text.length > lengthMax
    ? `${text.slice(0, lengthMax - 1).toWellFormed()}…`
    : text.toWellFormed();
}
