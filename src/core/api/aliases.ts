import { canonicalJson } from "../canonical.ts";
import { PawlError } from "../errors.ts";

/** Other names that fields of a request may have: by the field's own name, at any depth. */
export type Aliases = {
  readonly [name: string]: { readonly also?: readonly string[]; readonly within?: Aliases };
};

/** Other names in a wish for a backfill. */
export const BACKFILL_ALIASES: Aliases = {
  selector: {
    also: ["partition_selector"],
    within: {
      start: { also: ["partition_start"] },
      end: { also: ["partition_end"] },
      dimensions: { also: ["filters"] },
    },
  },
};

/** Other names in what is said of a schedule. */
export const SCHEDULE_ALIASES: Aliases = { cron: { also: ["cron_expression"] } };

/**
 * The body of a request with every field under its own name, so that all that comes after knows one
 * name only. Throws INPUT_INVALID when two names of a field say different things.
 */
export function underOwnNames(value: unknown, aliases: Aliases, place = "body"): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const fields: Record<string, unknown> = { ...value };
  for (const [name, { also = [], within }] of Object.entries(aliases)) {
    let saying: string | null = null;
    for (const each of [name, ...also]) {
      if (!Object.hasOwn(fields, each)) continue;
      const said =
        within === undefined
          ? fields[each]
          : underOwnNames(fields[each], within, `${place}.${each}`);
      if (each !== name) delete fields[each];
      if (saying === null) fields[name] = said;
      else if (!isSame(fields[name], said))
        throw sayingDifferently(`${place}.${each}`, `${place}.${saying}`);
      saying ??= each;
    }
  }
  return fields;
}

function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson(one) === canonicalJson(other);
}

/** The refusal of two names of one field that say different things. */
export function sayingDifferently(one: string, other: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `${one} is another name of ${other}, and the two say different things: send one of them.`,
    { details: { fields: [one, other] } },
  );
}
