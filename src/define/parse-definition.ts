import type { z } from "zod";
import { PawlError } from "../kernel/errors.ts";
import { nearMiss } from "../kernel/message-text.ts";

/**
 * The value as the schema has it. Throws DEFINITION_INVALID with what was being defined, the path,
 * what is wrong there and the value; an unknown option is answered with the one probably meant.
 */
export function parseDefinition<Schema extends z.ZodType>(
  subject: string,
  schema: Schema,
  value: unknown,
): z.output<Schema> {
  refuseProto(subject, value, "", new Set());
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  if (issue === undefined) throw result.error;
  const path = issue.path.map(String).join(".");
  const found = valueAt(value, issue.path);
  throw new PawlError(
    "DEFINITION_INVALID",
    `${subject} is not valid: ${sentence(issue, path, found)}`,
    {
      details: { path, issues: result.error.issues.map((each) => each.message) },
    },
  );
}

/** Schemas leave out a member of this name without a word, and so would every document. */
function refuseProto(subject: string, value: unknown, path: string, seen: Set<object>): void {
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  const at = (name: string): string => (path === "" ? name : `${path}.${name}`);
  if (Object.hasOwn(value, "__proto__")) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} is not valid: ${at("__proto__")} cannot be kept; give it another name.`,
      { details: { path: at("__proto__") } },
    );
  }
  for (const [name, inner] of Object.entries(value)) refuseProto(subject, inner, at(name), seen);
}

/** Refuses options that do not exist, with the one that was probably meant. */
export function refuseUnknownOptions(
  subject: string,
  options: object,
  known: readonly string[],
): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    const meant = nearMiss(name, known);
    const advice = meant === null ? `The options are ${known.join(", ")}` : `Did you mean ${meant}`;
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has no option ${name}. ${advice}${meant === null ? "." : "?"}`,
      { details: { option: name } },
    );
  }
}

/** The value without what was not given, so that a schema can fill that in. */
export function withoutUndefined(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined));
}

function sentence(issue: z.core.$ZodIssue, path: string, found: unknown): string {
  const where = path === "" ? "it" : path;
  const message = issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
  const shown = found === undefined ? "nothing was given" : `it is ${shortJson(found)}`;
  return `${where}: ${message} (${shown}).`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value;
  for (const step of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = (found as Record<PropertyKey, unknown>)[step];
  }
  return found;
}

function shortJson(value: unknown): string {
  const text =
    typeof value === "function" ? "a function" : (JSON.stringify(value) ?? String(value));
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
