import { PawlError } from "../../kernel/errors.ts";
import {
  type Pattern,
  type Selector,
  STALE_LIMIT,
  type StaleReason,
} from "../../kernel/keyspace/selector.ts";

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
};

/** The selector that the flags describe. Throws INPUT_INVALID when they describe none, or several. */
export function selectorOfFlags(flags: SelectorFlags): Selector {
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
  if (start !== undefined && end !== undefined) return { type: "range", start, end };
  throw new PawlError(
    "INPUT_INVALID",
    `--${start === undefined ? "start" : "end"}: expected the ` +
      `${start === undefined ? "first" : "last"} partition key of the range, got nothing.`,
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
      `got ${got}.`,
    { details: { got: ways } },
  );
}
