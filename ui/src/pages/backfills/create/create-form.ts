import type { Only, StaleReason } from "../../../../../src/kernel/keyspace/selector.ts";

/** The ways to say which partitions are meant. */
export type SelectorKind = "range" | "keys" | "filter" | "all" | "stale" | "left";

/** What is wanted of one dimension; a dimension that is not named may be anything. */
export type DimensionWish =
  | { mode: "range"; start: string; end: string }
  | { mode: "values"; values: readonly string[] }
  | { mode: "pattern"; pattern: string };

/** How partitions of an earlier backfill ended. */
export const OUTCOMES = ["FAILED", "CANCELLED", "SKIPPED", "SUCCEEDED"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Why partitions are stale, in the order of the API. */
export const REASONS = [
  "NEVER_MATERIALIZED",
  "CODE_CHANGED",
  "UPSTREAM_CHANGED",
  "FRESHNESS_POLICY",
] as const satisfies readonly StaleReason[];

/** What may be taken of a selection, in the order of the API. */
export const ONLY = [
  "missing",
  "failed",
  "missing_or_failed",
  "stale",
] as const satisfies readonly Only[];

/** What somebody has filled in so far; texts stand as they were typed. */
export type CreateForm = {
  assets: readonly string[];
  /** Null until something was chosen: the first way that fits the asset is shown then. */
  kind: SelectorKind | null;
  start: string;
  end: string;
  /** One key a line. */
  keys: string;
  filter: Readonly<Record<string, DimensionWish>>;
  /** What is taken of a range, of keys, of a filter or of everything; all of it when null. */
  only: Only | null;
  /** Stale for one of these; for any reason when empty. */
  reasons: readonly StaleReason[];
  limit: string;
  /** The earlier backfill whose partitions are meant. */
  of: string;
  /** Those that ended so; what is missing when empty. */
  outcomes: readonly Outcome[];
  chunk_size: string;
  concurrency: string;
  order: "ascending" | "descending";
  priority: string;
  /** A number, or a share as `10%`. */
  failure_limit: string;
  attempts: string;
  retry_delay_ms: string;
  /** One `name=value` a line. */
  labels: string;
  config: string;
  after: string;
  start_at: string;
  /** The time of the day in which chunks are planned. */
  window: string;
  allow_overlap: boolean;
  continue_on_failure: boolean;
};

/** Nothing is chosen yet; the numbers are those that the API takes when none is given. */
export const EMPTY_FORM: CreateForm = {
  assets: [],
  kind: null,
  start: "",
  end: "",
  keys: "",
  filter: {},
  only: null,
  reasons: [],
  limit: "10000",
  of: "",
  outcomes: [],
  chunk_size: "10",
  concurrency: "2",
  order: "ascending",
  priority: "0",
  failure_limit: "",
  attempts: "",
  retry_delay_ms: "",
  labels: "",
  config: "",
  after: "",
  start_at: "",
  window: "",
  allow_overlap: false,
  continue_on_failure: false,
};

/** Fields that stand in the address under their own name, as they were typed. */
const PLAIN = [
  "chunk_size",
  "concurrency",
  "priority",
  "failure_limit",
  "attempts",
  "retry_delay_ms",
  "labels",
  "config",
  "after",
  "start_at",
  "window",
] as const;

/** The keys in a text, one a line; blanks around them and repeats are left out. */
export function keysIn(text: string): string[] {
  const keys = text.split(/[\n\r\u2028\u2029]/).map((key) => key.trim());
  return [...new Set(keys.filter((key) => key !== ""))];
}

/** What is pasted as a list of keys, as lines: a JSON list is understood too. */
export function pastedKeys(text: string): string {
  return textsOf(jsonOf(text))?.join("\n") ?? text;
}

/** What the address says; what it does not say, or says wrongly, is as in the empty form. */
export function formOfQuery(query: URLSearchParams): CreateForm {
  const text = (name: string): string => query.get(name) ?? "";
  const plain = Object.fromEntries(
    PLAIN.map((name) => [name, query.get(name) ?? EMPTY_FORM[name]]),
  );
  return {
    ...EMPTY_FORM,
    ...(plain as Pick<CreateForm, (typeof PLAIN)[number]>),
    assets: [...new Set(query.getAll("asset").filter((key) => key !== ""))],
    ...selectorOfQuery(query),
    only: listed(text("only"), ONLY)[0] ?? null,
    order: text("order") === "descending" ? "descending" : "ascending",
    allow_overlap: text("allow_overlap") === "1",
    continue_on_failure: text("continue_on_failure") === "1",
  };
}

function selectorOfQuery(query: URLSearchParams): Partial<CreateForm> {
  const text = (name: string): string => query.get(name) ?? "";
  if (query.has("keys")) {
    const keys = textsOf(jsonOf(text("keys"))) ?? [];
    return { kind: "keys", keys: keysIn(keys.join("\n")).join("\n") };
  }
  if (query.has("filter")) return { kind: "filter", filter: filterOf(jsonOf(text("filter"))) };
  if (query.has("start") || query.has("end")) {
    return { kind: "range", start: text("start"), end: text("end") };
  }
  if (text("all") === "1") return { kind: "all" };
  if (text("stale") === "1") {
    const limit = query.get("limit") ?? EMPTY_FORM.limit;
    return { kind: "stale", reasons: listed(text("reasons"), REASONS), limit };
  }
  if (query.has("of")) {
    return { kind: "left", of: text("of"), outcomes: listed(text("outcomes"), OUTCOMES) };
  }
  return {};
}

/** The address's query for a form: only what differs from the empty one. */
export function queryOfForm(form: CreateForm): URLSearchParams {
  const query = new URLSearchParams();
  for (const asset of form.assets) query.append("asset", asset);
  writeSelector(form, query);
  if (form.only !== null) query.set("only", form.only);
  if (form.order !== EMPTY_FORM.order) query.set("order", form.order);
  for (const name of PLAIN) if (form[name] !== EMPTY_FORM[name]) query.set(name, form[name]);
  if (form.allow_overlap) query.set("allow_overlap", "1");
  if (form.continue_on_failure) query.set("continue_on_failure", "1");
  return query;
}

function writeSelector(form: CreateForm, query: URLSearchParams): void {
  switch (form.kind) {
    case "range":
      query.set("start", form.start);
      query.set("end", form.end);
      break;
    case "keys":
      query.set("keys", JSON.stringify(keysIn(form.keys)));
      break;
    case "filter":
      query.set("filter", JSON.stringify(patternsOf(form.filter)));
      break;
    case "all":
      query.set("all", "1");
      break;
    case "stale":
      query.set("stale", "1");
      if (form.reasons.length > 0) query.set("reasons", form.reasons.join(","));
      if (form.limit !== EMPTY_FORM.limit) query.set("limit", form.limit);
      break;
    case "left":
      query.set("of", form.of);
      if (form.outcomes.length > 0) query.set("outcomes", form.outcomes.join(","));
      break;
    case null:
      break;
  }
}

/** A pattern as selectors have it, complete or not. */
export type PatternDraft = string | readonly string[] | { start: string; end: string };

/** The wishes by dimension as patterns of a selector, the dimensions in the order of their names. */
export function patternsOf(filter: CreateForm["filter"]): Record<string, PatternDraft> {
  const names = Object.keys(filter).toSorted();
  return Object.fromEntries(names.map((name) => [name, patternOf(filter[name])]));
}

function patternOf(wish: DimensionWish | undefined): PatternDraft {
  if (wish?.mode === "range") return { start: wish.start, end: wish.end };
  return wish?.mode === "values" ? wish.values : (wish?.pattern ?? "");
}

function filterOf(value: unknown): Record<string, DimensionWish> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const wishes = Object.entries(value).flatMap(([name, pattern]): [string, DimensionWish][] => {
    const wish = wishOf(pattern);
    return wish === null ? [] : [[name, wish]];
  });
  return Object.fromEntries(wishes);
}

function wishOf(pattern: unknown): DimensionWish | null {
  if (typeof pattern === "string") return { mode: "pattern", pattern };
  const values = textsOf(pattern);
  if (values !== null) return { mode: "values", values: [...new Set(values)] };
  if (typeof pattern !== "object" || pattern === null) return null;
  const { start = "", end = "" } = pattern as { start?: unknown; end?: unknown };
  if (typeof start !== "string" || typeof end !== "string") return null;
  return { mode: "range", start, end };
}

function listed<Item extends string>(text: string, known: readonly Item[]): Item[] {
  const named = text.split(",");
  return known.filter((item) => named.includes(item));
}

function textsOf(value: unknown): string[] | null {
  if (!Array.isArray(value)) return null;
  return value.every((item) => typeof item === "string") ? value : null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
