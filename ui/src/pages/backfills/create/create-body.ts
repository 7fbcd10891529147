import type { CallInput } from "../../../../../src/client/client.ts";
import { type CreateForm, keysIn, type PatternDraft, patternsOf } from "./create-form.ts";

/** What the API takes to preview or create a backfill. */
export type CreateBody = CallInput<"createBackfill">["body"];

/** What is wrong, by field of the form. */
export type Problems = Readonly<Record<string, string>>;

/** What a form comes to. */
export type Drafted = {
  /** What to ask for; null while something is wrong or missing. */
  body: CreateBody | null;
  problems: Problems;
  /** What to fill in next, as a sentence; null when there is nothing. */
  next: string | null;
};

/** What a form asks for. Whether the API can do it is for the API to say. */
export function bodyOf(form: CreateForm): Drafted {
  const problems: Record<string, string> = {};
  const options = optionsOf(form, problems);
  const { selector, next } = selectorOf(form, problems);
  if (form.assets.length === 0) {
    return { body: null, problems, next: "Choose what to fill: one asset, or several." };
  }
  if (next !== null || selector === null || Object.keys(problems).length > 0) {
    return { body: null, problems, next };
  }
  const body = { assets: [...form.assets], selector: narrowed(selector, form), ...options };
  return { body, problems, next: null };
}

/** What is stale, or was left by a backfill, is a part already. */
function narrowed(selector: Selector, { only }: CreateForm): Selector {
  const { type } = selector;
  if (only === null || type === "stale" || type === "outcome" || type === "missing") {
    return selector;
  }
  return { ...selector, only };
}

/** Whether only some of what is chosen this way may be taken. */
export function isNarrowable(kind: CreateForm["kind"]): boolean {
  return kind !== null && kind !== "stale" && kind !== "left";
}

type NumberField = "chunk_size" | "concurrency" | "priority" | "attempts" | "retry_delay_ms";

function optionsOf(
  form: CreateForm,
  problems: Record<string, string>,
): Omit<CreateBody, "selector"> {
  const number = (field: NumberField): number | undefined => numberIn(form[field], field, problems);
  return given({
    chunk_size: number("chunk_size"),
    max_concurrent_runs: number("concurrency"),
    order: form.order,
    priority: number("priority"),
    failure_limit: failureLimitOf(form.failure_limit, problems),
    retry: retryOf(number("attempts"), number("retry_delay_ms")),
    labels: labelsOf(form.labels, problems),
    config: configOf(form.config, problems),
    after_backfill_id: filledIn(form.after),
    start_at: filledIn(form.start_at),
    window: filledIn(form.window),
    allow_overlap: form.allow_overlap,
    continue_on_failure: form.continue_on_failure,
  });
}

function filledIn(text: string): string | undefined {
  return text.trim() === "" ? undefined : text.trim();
}

/** The fields that have a value. */
function given<Fields extends Record<string, unknown>>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };
}

function numberIn(
  text: string,
  field: string,
  problems: Record<string, string>,
): number | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (/^-?\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  problems[field] = `must be a number, not ${JSON.stringify(trimmed)}`;
  return undefined;
}

function failureLimitOf(
  text: string,
  problems: Record<string, string>,
): { count: number } | { percent: number } | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const [, digits = "", sign] = /^(\d+(?:\.\d+)?)\s*(%?)$/.exec(trimmed) ?? [];
  if (digits !== "") return sign === "%" ? { percent: Number(digits) } : { count: Number(digits) };
  problems["failure_limit"] =
    `must be a number of partitions such as 20, or a share such as 5%, not ${JSON.stringify(trimmed)}`;
  return undefined;
}

function retryOf(
  attempts: number | undefined,
  delayMs: number | undefined,
): CreateBody["retry"] | undefined {
  if (attempts === undefined && delayMs === undefined) return undefined;
  return given({ max_attempts: attempts, delay_ms: delayMs });
}

function labelsOf(
  text: string,
  problems: Record<string, string>,
): Record<string, string> | undefined {
  const lines = keysIn(text);
  if (lines.length === 0) return undefined;
  const bad = lines.find((line) => line.indexOf("=") < 1);
  if (bad !== undefined) {
    problems["labels"] = `must be lines such as team=sales, and one is ${JSON.stringify(bad)}`;
    return undefined;
  }
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

function configOf(text: string, problems: Record<string, string>): CreateBody["config"] {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Exclude<CreateBody["config"], undefined>;
  } catch (error) {
    problems["config"] = `must be JSON: ${error instanceof Error ? error.message : "it is not"}`;
    return undefined;
  }
}

type Selector = CreateBody["selector"];
type Wanted = { selector: Selector | null; next: string | null };

const wanted = (selector: Selector): Wanted => ({ selector, next: null });
const lacking = (next: string | null): Wanted => ({ selector: null, next });

function selectorOf(form: CreateForm, problems: Record<string, string>): Wanted {
  switch (form.kind) {
    case "range": {
      const start = form.start.trim();
      const end = form.end.trim();
      if (start === "" || end === "") {
        return lacking("Choose the first and the last partition, or one of the quick picks.");
      }
      return wanted({ type: "range", start, end });
    }
    case "keys": {
      const partition_keys = keysIn(form.keys);
      if (partition_keys.length === 0) return lacking("Paste keys of partitions, one a line.");
      return wanted({ type: "explicit", partition_keys });
    }
    case "filter":
      return filterSelector(form);
    case "all":
      return wanted({ type: "all" });
    case "stale": {
      const limit = numberIn(form.limit, "limit", problems);
      const reasons = form.reasons.length === 0 ? {} : { reasons: [...form.reasons] };
      return wanted({ type: "stale", ...reasons, ...(limit === undefined ? {} : { limit }) });
    }
    case "left": {
      const backfill_id = form.of.trim();
      if (backfill_id === "") return lacking("Choose the earlier backfill.");
      if (form.outcomes.length === 0) return wanted({ type: "missing", backfill_id });
      return wanted({ type: "outcome", backfill_id, outcomes: [...form.outcomes] });
    }
    case null:
      return lacking("Choose which partitions are meant.");
  }
}

function filterSelector(form: CreateForm): Wanted {
  const patterns = Object.entries(patternsOf(form.filter));
  // Anything in every dimension is everything.
  if (patterns.length === 0) return wanted({ type: "all" });
  const empty = patterns.find(([, pattern]) => isEmpty(pattern));
  if (empty !== undefined) {
    const [name] = empty;
    return lacking(name === "partition" ? "Choose partitions." : `Choose values of ${name}.`);
  }
  return wanted({
    type: "filter",
    dimensions: Object.fromEntries(patterns) as Extract<Selector, { type: "filter" }>["dimensions"],
  });
}

function isEmpty(pattern: PatternDraft): boolean {
  if (typeof pattern === "string") return pattern === "";
  return "start" in pattern ? pattern.start === "" || pattern.end === "" : pattern.length === 0;
}
