import type { Refusal } from "../../api/call.ts";

/** What is wrong with which field of a schedule's form, and what is to be said as a whole. */
export type Problems = { at: Readonly<Record<string, string>>; whole: Refusal | null };

/** Fields that a form has a place for, as the API names them. */
const PLACES: readonly string[] = [
  "name",
  "description",
  "asset_selection",
  "offset",
  "limit",
  "partition_keys",
  "cron",
  "timezone",
  "catchup_window_minutes",
  "max_catchup_ticks",
  "jitter_ms",
  "starts_at",
  "ends_at",
  "priority",
  "config",
  "labels",
];

/** What keeps a schedule from being saved, at the fields that it is about. */
export function problemsOf(error: Refusal | SyntaxError | null): Problems {
  if (error === null) return { at: {}, whole: null };
  if (!("fields" in error)) {
    return { at: { config: `The config is not JSON: ${error.message}` }, whole: null };
  }
  const at: Record<string, string> = {};
  let isAllSaid = error.fields.length > 0;
  for (const { field, message } of error.fields) {
    const place = field.split(".").find((part) => PLACES.includes(part));
    if (place === undefined) isAllSaid = false;
    else at[place] ??= message;
  }
  return { at, whole: isAllSaid ? null : error };
}
