import { InvalidArgumentError, Option } from "commander";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { epochMsOf, type Instant } from "../../kernel/instant.ts";
import { nearMiss } from "../../kernel/message-text.ts";
import {
  type Only,
  type Pattern,
  type Selector,
  selectorOfOnly,
  STALE_LIMIT,
  type StaleReason,
} from "../../kernel/keyspace/selector.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND_MS,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
};

const A_DURATION = "a duration such as 50s, 15m or 1h30m";
const A_TIME_OR = `a time such as 2026-01-31 or 2026-01-31T06:00:00Z, or ${A_DURATION}`;

/** Milliseconds of a duration such as `50s`, `1h30m` or `500ms`. Throws INPUT_INVALID. */
export function parseDurationMs(text: string, name: string, expected = A_DURATION): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  const isWhole = parts.map(([part]) => part).join("") === text && text !== "";
  const total = parts.reduce((sum, [, count, unit]) => {
    return sum + Number(count) * (UNIT_MS[unit ?? ""] ?? 0);
  }, 0);
  if (isWhole && Number.isSafeInteger(Math.round(total))) return Math.round(total);
  throw new PawlError(
    "INPUT_INVALID",
    `${name}: expected ${expected}, got ${JSON.stringify(text)}.`,
    { details: { option: name, got: text } },
  );
}

/** A length of time for people, with at most two units: `4.2s`, `3m 05s`, `2h 10m`, `5d 3h`. */
export function formatDuration(ms: number): string {
  if (ms < SECOND_MS) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 9_950) return `${(ms / SECOND_MS).toFixed(1)}s`;
  if (ms < 59_500) return `${Math.round(ms / SECOND_MS)}s`;
  if (ms < HOUR_MS - 500) return twoUnits(Math.round(ms / SECOND_MS), 60, "m", "s");
  if (ms < DAY_MS - MINUTE_MS / 2) return twoUnits(Math.round(ms / MINUTE_MS), 60, "h", "m");
  return twoUnits(Math.round(ms / HOUR_MS), 24, "d", "h");
}

/** How long ago an instant is, in its largest unit: `now`, `12s ago`, `3h ago`; `in 5m` ahead. */
export function relativeTime(instant: Instant | null, now: number): string {
  if (instant === null) return "-";
  const ms = now - epochMsOf(instant);
  const length = Math.abs(ms);
  if (length < SECOND_MS) return "now";
  const text = oneUnit(length);
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

function twoUnits(small: number, ratio: number, large: string, rest: string): string {
  return `${Math.floor(small / ratio)}${large} ${String(small % ratio).padStart(2, "0")}${rest}`;
}

function oneUnit(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)}s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)}m`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)}h`;
  return `${Math.floor(ms / DAY_MS)}d`;
}

/** An option whose value has this type, and a hidden spelling of it that is still taken. */
export type Flag<Value> = Option & { readonly valueType?: Value; readonly alias?: Option };

/** An option without which a command is refused. */
export type RequiredFlag<Value> = Flag<Value> & { readonly mandatory: true };

/** The options of a command, in the order of its help, by the names that its code has for them. */
export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

type ValueOf<Of> = Of extends Flag<infer Value> ? Value : never;

/** What the options of a command say; those that were not given are absent. */
export type FlagValues<Flags> = {
  -readonly [Name in keyof Flags as Flags[Name] extends RequiredFlag<unknown>
    ? Name
    : never]: ValueOf<Flags[Name]>;
} & {
  -readonly [Name in keyof Flags as Flags[Name] extends RequiredFlag<unknown>
    ? never
    : Name]?: ValueOf<Flags[Name]>;
};

type Order = "ascending" | "descending";

const ORDERS: Readonly<Record<string, Order>> = {
  oldest: "ascending",
  ascending: "ascending",
  newest: "descending",
  descending: "descending",
};

/** The kinds of options there are, each made of its flags and its description. */
export const option = {
  text: (flags: string, description: string): Flag<string> => new Option(flags, description),

  /** Takes nothing. */
  switch: (flags: string, description: string): Flag<boolean> => new Option(flags, description),

  textOrSwitch: (flags: string, description: string): Flag<string | true> =>
    new Option(flags, description),

  /** Takes nothing and is `true` in a query. */
  query: (flags: string, description: string): Flag<"true"> =>
    new Option(flags, description).preset("true"),

  /** Takes one of these words. */
  choice: <const Choice extends string>(
    flags: string,
    description: string,
    choices: readonly Choice[],
  ): Flag<Choice> =>
    new Option(flags, description).choices(choices).argParser((text) => {
      const chosen = choices.find((choice) => choice === text);
      if (chosen !== undefined) return chosen;
      const hint = hintOf(text, choices);
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.${hint}`);
    }),

  /** Takes a whole number within bounds. */
  integer(
    flags: string,
    description: string,
    min: number,
    max: number = Number.MAX_SAFE_INTEGER,
  ): Flag<number> {
    const bounds = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `between ${min} and ${max}`;
    return parsed(flags, description, `a whole number ${bounds}`, (text) => {
      const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : null;
    });
  },

  /** Takes a limit of failures: a count such as `5`, or a share such as `10%`. */
  failureLimit(flags: string, description: string): Flag<{ percent: number } | { count: number }> {
    return parsed(flags, description, "a count such as 5 or a share such as 10%", (text) => {
      const [, digits, sign] = /^(\d+(?:\.\d+)?)(%?)$/.exec(text) ?? [];
      const value = Number(digits);
      if (sign === "%") return value > 0 && value <= 100 ? { percent: value } : null;
      return Number.isSafeInteger(value) && value >= 1 ? { count: value } : null;
    });
  },

  /** Takes an order by its name for people. */
  order: (flags: string, description: string): Flag<Order> =>
    read(flags, description, (text) => {
      const order = Object.hasOwn(ORDERS, text) ? ORDERS[text] : undefined;
      if (order !== undefined) return order;
      throw invalidOption(flags, "newest or oldest", text, Object.keys(ORDERS));
    }),

  /** Takes any JSON value. */
  json: (flags: string, description: string): Flag<{ value: Json }> =>
    parsed(flags, description, "a JSON value", (text) => {
      try {
        return { value: JSON.parse(text) as Json };
      } catch {
        return null;
      }
    }),

  /** Takes a duration, in milliseconds. */
  duration: (flags: string, description: string): Flag<number> =>
    read(flags, description, (text) => parseDurationMs(text, nameOf(flags))),

  /** Takes a duration, in whole seconds. */
  seconds: (flags: string, description: string): Flag<number> =>
    read(flags, description, (text) => Math.ceil(parseDurationMs(text, nameOf(flags)) / SECOND_MS)),

  /** Takes a day, an instant, or how long ago, such as `2h`. */
  instant: (flags: string, description: string, now: () => number = Date.now): Flag<string> =>
    read(flags, description, (text) => {
      if (/^\d{4}-/.test(text)) return text;
      return new Date(now() - parseDurationMs(text, nameOf(flags), A_TIME_OR)).toISOString();
    }),

  /** Takes a time, or how long from now that is. */
  later: (flags: string, description: string, now: () => number = Date.now): Flag<string> =>
    read(flags, description, (text) => {
      if (/^\d{4}-/.test(text)) return text;
      return new Date(now() + parseDurationMs(text, nameOf(flags), A_TIME_OR)).toISOString();
    }),

  /** Takes states separated by commas, in whatever case. */
  states: (flags: string, description: string): Flag<string> =>
    read(flags, description, (text) => text.toUpperCase().replaceAll("-", "_")),

  /** The same, of states that are written in small letters. */
  smallStates: (flags: string, description: string): Flag<string> =>
    read(flags, description, (text) => text.toLowerCase().replaceAll("-", "_")),

  /** Takes some of these names separated by commas, in whatever case. */
  list<Name extends string>(
    flags: string,
    description: string,
    names: readonly Name[],
  ): Flag<Name[]> {
    const expected = `some of ${names.join(", ").toLowerCase()}, separated by commas`;
    return read(flags, description, (text) => {
      const known = text.split(",").map((part): Name => {
        const wanted = part.trim().toUpperCase().replaceAll("-", "_");
        const found = names.find((name) => name === wanted);
        if (found !== undefined) return found;
        throw invalidOption(flags, expected, part.trim(), names);
      });
      return [...new Set(known)];
    });
  },

  /** May be repeated, each time with another `key=value`. */
  labels: (flags: string, description: string): Flag<Record<string, string>> =>
    read(flags, description, (text, before) => {
      const at = text.indexOf("=");
      if (at < 1) throw invalidOption(flags, "key=value", text);
      return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
    }),

  /** May be repeated, each time with another value. */
  repeated: (flags: string, description: string): Flag<string[]> =>
    read(flags, description, (text, before) => [...(before ?? []), text]),

  /** The same option, without which a command is refused from now on. */
  required: <Value>(flag: Flag<Value>): RequiredFlag<Value> =>
    Object.assign(flag.makeOptionMandatory(), { mandatory: true as const }),

  /** The version from which a thing may not have moved on; `--expect` is another spelling. */
  version(min = 1): Flag<number> {
    const description = "refuse when it has moved on from this";
    const flag = option.integer("--expected-state-version <n>", description, min);
    const alias = option.integer("--expect <version>", description, min).hideHelp();
    alias.attributeName = () => flag.attributeName();
    return Object.assign(flag, { alias });
  },

  /** A name for a request, and what the same name does not do again. */
  requestId: (effect: string): Flag<string> =>
    option.text("--request-id <text>", `a name for the request; the same name ${effect}`),

  wait: (description: string): Flag<boolean> => option.switch("--wait", description),
};

/** The option of most changes: refused when the thing has moved on from this version. */
export const VERSION = option.version();

/** The option by which a change says why. */
export const REASON = option.text("--reason <text>", "why, for the record");

/** The options of every list. */
export const PAGE = {
  limit: option.integer("--limit <n>", "how many (default: 50)", 1, 200),
  cursor: option.text("--cursor <text>", "where the page before ended"),
};

function read<Value>(
  flags: string,
  description: string,
  parse: (text: string, before: Value | undefined) => Value,
): Flag<Value> {
  return new Option(flags, description).argParser(parse);
}

function parsed<Value>(
  flags: string,
  description: string,
  expected: string,
  parse: (text: string) => Value | null,
): Flag<Value> {
  return read(flags, description, (text) => {
    const value = parse(text);
    if (value === null) throw invalidOption(flags, expected, text);
    return value;
  });
}

function invalidOption(
  flags: string,
  expected: string,
  got: string,
  words: readonly string[] = [],
): PawlError {
  const name = nameOf(flags);
  return new PawlError(
    "INPUT_INVALID",
    `${name}: expected ${expected}, got ${JSON.stringify(got)}.${hintOf(got, words)}`,
    { details: { option: name, got } },
  );
}

/** What was probably meant, as a sentence to be added; nothing where no word is near. */
export function hintOf(got: string, words: readonly string[]): string {
  const meant = nearMiss(got, words);
  return meant === null ? "" : ` Did you mean ${meant.toLowerCase()}?`;
}

function nameOf(flags: string): string {
  return /--[a-z-]+/.exec(flags)?.[0] ?? flags;
}

/** The index of a segment that a text means. Throws INPUT_INVALID. */
export function segmentIndexOf(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the index of a segment, such as 12, got ${JSON.stringify(text)}.`,
    { details: { segment: text } },
  );
}

type Optional<Fields> = {
  [Name in keyof Fields]: undefined extends Fields[Name] ? Name : never;
}[keyof Fields];

/** The fields without those that are undefined. */
export type Defined<Fields> = Omit<Fields, Optional<Fields>> & {
  [Name in Optional<Fields>]?: Exclude<Fields[Name], undefined>;
};

/** Leaves out fields that are undefined, so that they are absent. */
export function omitUndefined<Fields extends object>(fields: Fields): Defined<Fields> {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<Fields>;
}

/** The flags that say which partitions are meant. */
export type SelectorFlags = {
  start?: string | undefined;
  end?: string | undefined;
  partitions?: string | undefined;
  filter?: readonly string[] | undefined;
  all?: boolean | undefined;
  stale?: boolean | undefined;
  /** Only with `stale`. */
  reason?: readonly StaleReason[] | undefined;
  /** Only with `stale`. */
  limit?: number | undefined;
  /** Only without `stale`. */
  only?: OnlyFlag | undefined;
};

/** What `--only` takes, each word for what the API calls it. */
export const ONLY_FLAGS = {
  missing: "missing",
  failed: "failed",
  "missing-or-failed": "missing_or_failed",
  stale: "stale",
} as const satisfies Readonly<Record<string, Only>>;

type OnlyFlag = keyof typeof ONLY_FLAGS;

/** The selector that the flags describe. Throws INPUT_INVALID when they describe none, or several. */
export function selectorOfFlags(flags: SelectorFlags): Selector {
  const { only, stale } = flags;
  const selector = wholeSelectorOf(flags);
  if (only === undefined) return selector;
  if (stale !== true) return selectorOfOnly(selector, ONLY_FLAGS[only]);
  throw new PawlError(
    "INPUT_INVALID",
    `--only: expected a selection that it takes a part of, got --only ${only} with --stale. ` +
      STALE_OF_SELECTION,
    { details: { only } },
  );
}

const STALE_OF_SELECTION = "For what is stale of a range, give --start, --end and --only stale.";

function wholeSelectorOf(flags: SelectorFlags): Selector {
  const isRange = flags.start !== undefined || flags.end !== undefined;
  const ways = [
    ...(isRange ? ["--start and --end"] : []),
    ...(flags.partitions === undefined ? [] : ["--partitions"]),
    ...(flags.filter === undefined ? [] : ["--filter"]),
    ...(flags.all === true ? ["--all"] : []),
    ...(flags.stale === true ? ["--stale"] : []),
  ];
  if (ways.length !== 1) throw notOneWay(ways);
  if (flags.stale === true) return staleSelectorOf(flags);
  refuseStaleFlags(flags, ways);
  if (flags.partitions !== undefined) {
    return { type: "explicit", partition_keys: keysOf(flags.partitions) };
  }
  if (flags.filter !== undefined) {
    return { type: "filter", dimensions: dimensionsOf(flags.filter) };
  }
  if (!isRange) return { type: "all" };
  const { start, end } = flags;
  if (start !== undefined) return { type: "range", start, ...(end === undefined ? {} : { end }) };
  throw new PawlError(
    "INPUT_INVALID",
    "--start: expected the first partition key of the range, got nothing.",
  );
}

function staleSelectorOf({ reason, limit }: SelectorFlags): Selector {
  const reasons = reason === undefined ? {} : { reasons: [...reason] };
  return { type: "stale", ...reasons, limit: limit ?? STALE_LIMIT };
}

function refuseStaleFlags({ reason, limit }: SelectorFlags, ways: readonly string[]): void {
  if (reason === undefined && limit === undefined) return;
  const flag = reason === undefined ? "--limit" : "--reason";
  throw new PawlError(
    "INPUT_INVALID",
    `${flag}: expected only together with --stale, got it with ${ways.join(", ")}.`,
  );
}

/**
 * The keys in a list separated by commas. The key of several dimensions has commas of its own, so
 * there `;` separates keys, or a comma before the dimension that the first key begins with.
 */
export function keysOf(text: string): string[] {
  if (text.includes(";")) return nonEmpty(text.split(";"), text);
  const dimension = /^([A-Za-z_][A-Za-z0-9_-]*)=/.exec(text)?.[1];
  if (dimension === undefined || !text.includes(",")) return nonEmpty(text.split(","), text);
  const keys: string[] = [];
  for (const part of text.split(",")) {
    const last = keys.length - 1;
    if (last < 0 || part.startsWith(`${dimension}=`)) keys.push(part);
    else keys[last] = `${keys[last]},${part}`;
  }
  return nonEmpty(keys, text);
}

function nonEmpty(keys: readonly string[], text: string): string[] {
  const trimmed = keys.map((key) => key.trim());
  if (!trimmed.includes("")) return trimmed;
  throw new PawlError(
    "INPUT_INVALID",
    `--partitions: expected keys separated by commas, got ${JSON.stringify(text)}.`,
  );
}

function dimensionsOf(filters: readonly string[]): Record<string, Pattern> {
  // Not an object while it grows: a dimension may have the name of something that all objects have.
  const dimensions = new Map<string, Pattern>();
  for (const filter of filters) {
    const [, name, pattern] = /^([^=]+)=(.+)$/.exec(filter) ?? [];
    if (name === undefined || pattern === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        `--filter: expected dimension=pattern such as region=us-*, got ${JSON.stringify(filter)}.`,
      );
    }
    if (dimensions.has(name)) {
      throw new PawlError(
        "INPUT_INVALID",
        `--filter: expected each dimension once, got ${name} twice. ` +
          `List values as ${name}=one,two or give a range as ${name}=first..last.`,
      );
    }
    dimensions.set(name, patternOf(pattern));
  }
  return Object.fromEntries(dimensions);
}

function patternOf(text: string): Pattern {
  const [, start, end] = /^(.+)\.\.(.+)$/.exec(text) ?? [];
  if (start !== undefined && end !== undefined) return { start, end };
  return text.includes(",") ? text.split(",") : text;
}

function notOneWay(ways: readonly string[]): PawlError {
  const got = ways.length === 0 ? "nothing" : ways.join(" together with ");
  return new PawlError(
    "INPUT_INVALID",
    `Which partitions: expected --start and --end, --partitions, --filter, --all or --stale, ` +
      `got ${got}.${ways.includes("--stale") ? ` ${STALE_OF_SELECTION}` : ""}`,
    { details: { got: ways } },
  );
}
