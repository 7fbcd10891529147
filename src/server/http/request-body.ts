import { PawlError } from "../../kernel/errors.ts";
import { checkJsonBudget, JSON_KEY_LENGTH_MAX } from "../../kernel/json-budget.ts";

/** Refuses a body that does not say it is JSON, as a form of another site could send it. */
export function checkContentType(contentType: string | undefined): void {
  if (contentType !== undefined && /^application\/([\w.-]+\+)?json\b/i.test(contentType)) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The body must be sent as \`Content-Type: application/json\`, not ${contentType ?? "without a type"}.`,
    { details: { content_type: contentType ?? null, status: 415 } },
  );
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a body; what is not UTF-8 is refused, as nobody could tell what was meant. */
export function decodeBody(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new PawlError("INPUT_INVALID", "The body is not UTF-8. Send it as UTF-8.", { cause });
  }
}

/**
 * The JSON value of a body of at most so many values, looked through in passes that cost the same
 * for each. Text that not every database can keep (a NUL, half a character) is
 * refused, or replaced by `U+FFFD` with `mends`: what a task logged must not stop its worker.
 */
export function parseBody(text: string, mends: boolean, valuesMax: number): unknown {
  if (text === "") return {};
  checkJsonBudget(text, valuesMax);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The body is not JSON: ${reason}.`, { cause: error });
  }
  return cleaned(value, mends);
}

function cleaned(value: unknown, mends: boolean): unknown {
  if (typeof value === "string") return cleanText(value, mends);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      value[index] = cleaned(value[index], mends);
    }
    return value;
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    if (key.length > JSON_KEY_LENGTH_MAX) throw longKey(key);
    if (key === "__proto__" || cleanText(key, false) !== key) {
      throw new PawlError("INPUT_INVALID", `The key ${JSON.stringify(key)} is not allowed.`);
    }
    members[key] = cleaned(members[key], mends);
  }
  return members;
}

function longKey(key: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The key ${JSON.stringify(`${key.slice(0, 80)}…`)} has ${key.length} characters; a key may have ` +
      `at most ${JSON_KEY_LENGTH_MAX}.`,
    { details: { length: key.length, length_max: JSON_KEY_LENGTH_MAX } },
  );
}

/** Refuses, or mends, text that not every database can keep. */
export function cleanText(text: string, mends: boolean): string {
  if (text.isWellFormed() && !text.includes("\u0000")) return text;
  if (mends) return text.toWellFormed().replaceAll("\u0000", "\uFFFD");
  throw new PawlError(
    "INPUT_INVALID",
    `The text ${JSON.stringify(text.slice(0, 80))} holds a NUL or half a character. Take it out.`,
  );
}
