import type { Refusal } from "../../../api/call.ts";
import type { Problems } from "./create-body.ts";
import type { CreateForm } from "./create-form.ts";

/** A refusal, as far as it is about fields of the form, and whether that is all of it. */
export type RefusedFields = { problems: Problems; isAll: boolean };

type Told = Pick<Refusal, "code" | "message" | "details" | "fields">;

/** Where the parts of the body are filled in. */
const PLACES: readonly (readonly [field: RegExp, place: string])[] = [
  [/^(assets|asset_selection)\b/, "assets"],
  [/^selector\.partition_keys\b/, "keys"],
  [/^selector\.(start|end|limit|reasons|outcomes)\b/, "$1"],
  [/^selector\.dimensions\.([^.]+)/, "filter.$1"],
  [/^selector\.backfill_id\b/, "of"],
  [/^selector\b/, "selector"],
  [/^max_concurrent_runs\b/, "concurrency"],
  [/^retry\.max_attempts\b/, "attempts"],
  [/^retry\b/, "retry_delay_ms"],
  [/^after_backfill_id\b/, "after"],
  [/^(chunk_size|order|priority|failure_limit|labels|config|allow_overlap)\b/, "$1"],
  [/^(start_at|window)\b/, "$1"],
];

/** Which fields of the form a refusal is about. */
export function refusedFields(refusal: Told, form: CreateForm): RefusedFields {
  const problems: Record<string, string> = {};
  let isAll = true;
  for (const { field, message } of refusal.fields) {
    const place = placeOf(field.replace(/^body\./, ""));
    if (place === null) isAll = false;
    else problems[place] ??= message;
  }
  if (refusal.fields.length > 0) return { problems, isAll };
  const place = placeOfRefusal(refusal, form);
  return place === null
    ? { problems: {}, isAll: false }
    : { problems: { [place]: refusal.message }, isAll: true };
}

function placeOf(field: string): string | null {
  for (const [pattern, place] of PLACES) {
    const match = pattern.exec(field);
    if (match !== null) return place.replace("$1", match[1] ?? "");
  }
  return null;
}

/** What is refused for what it means rather than how it is written names its value. */
function placeOfRefusal({ code, details }: Told, form: CreateForm): string | null {
  switch (code) {
    case "PARTITION_INVALID":
      return placeOfKey(details, form);
    case "SELECTION_EMPTY":
    case "SELECTION_TOO_LARGE":
      return placeOfDimension(details, form) ?? "selector";
    case "ASSET_NOT_FOUND":
      return "assets";
    case "BACKFILL_NOT_FOUND":
      return details["backfill_id"] === form.after.trim() ? "after" : "of";
    case "INPUT_INVALID":
      if (details["field"] === "window") return "window";
      if ("start" in details) return placeOfDimension(details, form) ?? "end";
      return "selector" in details || "assets" in details ? "selector" : null;
    default:
      return null;
  }
}

function placeOfKey(details: Told["details"], form: CreateForm): string {
  if (form.kind === "range") return details["partition_key"] === form.end.trim() ? "end" : "start";
  if (form.kind === "keys") return "keys";
  return placeOfDimension(details, form) ?? "selector";
}

/** The API leaves the name of an only dimension out. */
function placeOfDimension(details: Told["details"], form: CreateForm): string | null {
  if (form.kind !== "filter") return null;
  const { dimension = "partition" } = details;
  return typeof dimension === "string" && dimension in form.filter ? `filter.${dimension}` : null;
}
