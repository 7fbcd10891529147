import type { Json } from "../../kernel/canonical.ts";
import { suggestion } from "../../kernel/message-text.ts";

/** Names that every notification has; `title` and `link` are made when it is sent. */
const EVERYWHERE = ["type", "timestamp", "title", "link", "pos", "outcome"] as const;

const ERROR = ["error.class", "error.message"] as const;

/** Names that the notifications of each subject have besides: fields of their `data`, by path. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  run: [
    "run_id",
    ...["succeeded", "failed", "cancelled", "skipped"].map((outcome) => `counts.${outcome}`),
    ...ERROR,
    "asset_selection",
    "partition_keys",
    "partition_count",
    "trigger_source_ref.type",
    "backfill_id",
    "chunk_index",
    "labels.*",
    "requested_at",
    "started_at",
    "finished_at",
  ],
  backfill: [
    "backfill_id",
    "reason",
    "changed_by",
    ...["total", "succeeded", "failed", "cancelled", "skipped"].map((part) => `counts.${part}`),
    ...ERROR,
    "failures",
    "asset_selection",
    "parent_backfill_id",
    "labels.*",
    "created_at",
    "started_at",
  ],
  schedule: [
    "schedule_id",
    "name",
    "tick_id",
    "scheduled_for",
    "through",
    "count",
    "reason",
    ...ERROR,
    "asset_selection",
    "labels.*",
  ],
  sensor: ["sensor_id", "name", "eval_id", "trigger_source", ...ERROR, "labels.*"],
  split: [
    "split_id",
    "description",
    "source",
    "target",
    "tenants",
    "phase",
    "state_version",
    ...ERROR,
    "reason",
    "step",
    "direction",
  ],
  move: [
    "move_id",
    "name",
    "state",
    "state_version",
    "segments_total",
    "segments_poisoned",
    "reason",
    "segment_index",
  ],
};

/** Names that a template may use for some notifications: those that at least one of them has. */
export function templateNames(notifications: readonly string[]): string[] {
  const subjects = new Set(notifications.map((type) => type.slice(0, type.indexOf("."))));
  const own = [...subjects].flatMap((subject) => NAMES[subject] ?? []);
  return [...new Set([...EVERYWHERE, ...own])];
}

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;

/** What is wrong with a template for these notifications, as the end of a sentence; null for nothing. */
export function templateFault(template: string, notifications: readonly string[]): string | null {
  const rest = template.replaceAll(PLACEHOLDER, "");
  if (rest.includes("{{") || rest.includes("}}")) {
    return "has a template with {{ or }} that belongs to no name; write {{run_id}} for a value.";
  }
  const known = templateNames(notifications);
  for (const [, inner = ""] of template.matchAll(PLACEHOLDER)) {
    const name = inner.trim();
    if (known.includes(name) || (isLabel(name) && known.includes("labels.*"))) continue;
    return (
      `has a template that names ${JSON.stringify(name)}, which none of its notifications ` +
      `has${suggestion(name, known)}; they have ${known.join(", ")}.`
    );
  }
  return null;
}

function isLabel(name: string): boolean {
  return /^labels\../.test(name);
}

/** The template with a value for each name. */
export function fillTemplate(template: string, valueOf: (name: string) => string): string {
  return template.replaceAll(PLACEHOLDER, (_, inner: string) => valueOf(inner.trim()));
}

/** Values of a list that are written out. */
const LISTED_MAX = 10;

/** The value under a path of names; what follows `labels.` is one name, whatever is in it. */
export function valueAt(data: Json, path: string): Json {
  if (!isRecord(data)) return null;
  if (Object.hasOwn(data, path)) return data[path] ?? null;
  const dot = path.indexOf(".");
  if (dot < 0) return null;
  const name = path.slice(0, dot);
  return Object.hasOwn(data, name) ? valueAt(data[name] ?? null, path.slice(dot + 1)) : null;
}

/** Whether a value is a document with named members. */
export function isRecord(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value for people: nothing where there is none, the first of a list and how many more there are. */
export function valueText(value: Json): string {
  if (value === null) return "";
  if (typeof value !== "object") return String(value);
  if (!Array.isArray(value)) return JSON.stringify(value);
  const items: readonly Json[] = value;
  const listed = items.slice(0, LISTED_MAX).map(valueText).join(", ");
  const more = items.length - LISTED_MAX;
  return more > 0 ? `${listed} and ${more} more` : listed;
}
