import type { z } from "zod";
import type { FieldProblem } from "../core/api/problem.ts";
import { PawlError } from "../core/errors.ts";
import { nearMiss } from "../core/near-miss.ts";

type Issue = z.core.$ZodIssue;

/** Most field problems that one answer lists. */
const PROBLEMS_MAX = 20;

/** Most characters of a value or a name that an answer shows. */
const SHOWN_LENGTH = 80;

/** Parses a part of a request; `INPUT_INVALID` with every field that is wrong. */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  place: "path" | "query" | "body",
  input: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const known = "shape" in schema ? Object.keys(schema.shape as object) : [];
  const errors = parsed.error.issues
    .slice(0, PROBLEMS_MAX)
    .flatMap((issue) => problemsOf(issue, place, input, known))
    .slice(0, PROBLEMS_MAX);
  const detail = errors.map(({ field, message }) => `${field} ${message}`).join("; ");
  throw new PawlError("INPUT_INVALID", `The request is not valid: ${detail}.`, {
    details: { errors },
  });
}

function problemsOf(
  issue: Issue,
  place: string,
  input: unknown,
  known: readonly string[],
): FieldProblem[] {
  const field = [place, ...issue.path.map((key) => shortened(String(key)))].join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => {
      const meant = issue.path.length === 0 ? nearMiss(key, known) : null;
      const hint = meant === null ? "" : ` (did you mean ${meant}?)`;
      return { field: `${field}.${shortened(key)}`, message: `is not a known field${hint}` };
    });
  }
  if (issue.code === "invalid_union" && issue.discriminator === undefined) {
    const nearest = issue.errors.toSorted((one, other) => one.length - other.length)[0];
    const inner = nearest?.filter(({ path }) => path.length > 0) ?? [];
    const nested = inner.map((each) => ({ ...each, path: [...issue.path, ...each.path] }));
    if (nested.length > 0) {
      return nested.slice(0, PROBLEMS_MAX).flatMap((each) => problemsOf(each, place, input, []));
    }
  }
  if (issue.code === "invalid_key") {
    const rule = issue.issues.map(({ message }) => message).find(isPredicate);
    return [{ field, message: `is a name that ${rule ?? "is not possible there"}` }];
  }
  const value = valueAt(input, issue.path);
  if (value === undefined && !isPredicate(issue.message)) {
    return [{ field, message: "is missing" }];
  }
  const got = value === undefined ? "" : `, not ${shown(value)}`;
  return [{ field, message: `${ruleOf(issue)}${got}` }];
}

/** Messages of our own schemas continue a sentence that begins with the field. */
function isPredicate(message: string): boolean {
  return /^(must|is|may|has|cannot)\b/.test(message);
}

function ruleOf(issue: Issue): string {
  if (isPredicate(issue.message)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${named(issue.expected)}`;
    case "too_big":
      return `must ${sizeOf(issue.origin, "at most", issue.maximum)}`;
    case "too_small":
      return `must ${sizeOf(issue.origin, "at least", issue.minimum)}`;
    case "invalid_value":
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(" or ")}`;
    case "invalid_format":
      return `must be a valid ${issue.format}`;
    case "invalid_union":
      return "options" in issue && issue.options !== undefined
        ? `must be ${issue.options.map((option) => JSON.stringify(option)).join(" or ")}`
        : "must have one of the forms that the API reference shows";
    default:
      return `is not valid (${issue.message})`;
  }
}

function named(expected: string): string {
  if (expected === "int") return "an integer";
  return /^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`;
}

function sizeOf(origin: string, bound: string, size: number | bigint): string {
  if (origin === "string") return `have ${bound} ${size} characters`;
  if (origin === "array" || origin === "set") return `have ${bound} ${size} items`;
  return `be ${bound} ${size}`;
}

/** The value that a path leads to; of a text that stands for a list, the text. */
function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value === "string") return value;
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

function shown(value: unknown): string {
  return shortened(beginningOf(value));
}

/** A value as JSON, of long lists and objects only the beginning: nobody reads the rest. */
function beginningOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 2 * SHOWN_LENGTH));
  if (typeof value !== "object" || value === null) return String(value);
  const isList = Array.isArray(value);
  let text = isList ? "[" : "{";
  let comma = "";
  for (const key in value) {
    if (text.length > SHOWN_LENGTH) return text;
    const name = isList ? "" : `${JSON.stringify(shortened(key))}:`;
    text += comma + name + beginningOf((value as Record<string, unknown>)[key]);
    comma = ",";
  }
  return text + (isList ? "]" : "}");
}

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}
