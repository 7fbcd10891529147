import { Option } from "commander";
import { PawlError } from "../core/errors.ts";
import { parseDurationMs } from "./duration.ts";

/** An option that takes a whole number within bounds. */
export function integerOption(
  flags: string,
  description: string,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): Option {
  const bounds = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `between ${min} and ${max}`;
  return parsedOption(flags, description, `a whole number ${bounds}`, (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? value : null;
  });
}

/** An option that takes a limit of failures: a count such as `5`, or a share such as `10%`. */
export function failureLimitOption(flags: string, description: string): Option {
  return parsedOption(flags, description, "a count such as 5 or a share such as 10%", (text) => {
    const [, digits, sign] = /^(\d+(?:\.\d+)?)(%?)$/.exec(text) ?? [];
    const value = Number(digits);
    if (sign === "%") return value > 0 && value <= 100 ? { percent: value } : null;
    return Number.isSafeInteger(value) && value >= 1 ? { count: value } : null;
  });
}

const ORDERS: Readonly<Record<string, string>> = {
  oldest: "ascending",
  ascending: "ascending",
  newest: "descending",
  descending: "descending",
};

/** An option that takes an order by its name for people. */
export function orderOption(flags: string, description: string): Option {
  return parsedOption(flags, description, "newest or oldest", (text) => {
    return Object.hasOwn(ORDERS, text) ? (ORDERS[text] ?? null) : null;
  });
}

/** An option that takes any JSON value. */
export function jsonOption(flags: string, description: string): Option {
  return parsedOption(flags, description, "a JSON value", (text) => {
    try {
      return { value: JSON.parse(text) as unknown };
    } catch {
      return null;
    }
  });
}

/** An option that takes a duration, in milliseconds. */
export function durationOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text: string) => {
    return parseDurationMs(text, nameOf(flags));
  });
}

/** An option that takes a day, an instant, or how long ago, such as `2h`. */
export function instantOption(flags: string, description: string, now: () => number): Option {
  return new Option(flags, description).argParser((text: string) => {
    if (/^\d{4}-/.test(text)) return text;
    return new Date(now() - parseDurationMs(text, nameOf(flags))).toISOString();
  });
}

/** An option that takes states separated by commas, in whatever case. */
export function statesOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text: string) => {
    return text.toUpperCase().replaceAll("-", "_");
  });
}

/** An option that takes some of these names separated by commas, in whatever case. */
export function listOption(flags: string, description: string, names: readonly string[]): Option {
  const expected = `some of ${names.join(", ").toLowerCase()}, separated by commas`;
  return parsedOption(flags, description, expected, (text) => {
    const given = text.split(",").map((name) => name.trim().toUpperCase().replaceAll("-", "_"));
    return given.every((name) => names.includes(name)) ? [...new Set(given)] : null;
  });
}

/** An option that may be repeated, each time with another `key=value`. */
export function labelsOption(flags: string, description: string): Option {
  type Labels = Record<string, string>;
  return new Option(flags, description).argParser((text: string, before: Labels | undefined) => {
    const at = text.indexOf("=");
    if (at < 1) throw invalidOption(flags, "key=value", text);
    return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
  });
}

/** An option that may be repeated, each time with another value. */
export function repeatedOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text: string, before: string[] | undefined) => {
    return [...(before ?? []), text];
  });
}

function parsedOption(
  flags: string,
  description: string,
  expected: string,
  parse: (text: string) => unknown,
): Option {
  return new Option(flags, description).argParser((text: string) => {
    const value = parse(text);
    if (value === null) throw invalidOption(flags, expected, text);
    return value;
  });
}

function invalidOption(flags: string, expected: string, got: string): PawlError {
  const option = nameOf(flags);
  return new PawlError(
    "INPUT_INVALID",
    `${option}: expected ${expected}, got ${JSON.stringify(got)}.`,
    { details: { option, got } },
  );
}

function nameOf(flags: string): string {
  return /--[a-z-]+/.exec(flags)?.[0] ?? flags;
}
