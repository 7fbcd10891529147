import type { Client } from "../../client/client.ts";
import type { Json } from "../../kernel/canonical.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import { metadataValueOf, numberText } from "../../kernel/metadata-value.ts";
import type { CheckDocument } from "../../work/asset/checks.ts";
import type { AttemptDocument, RunTimelineDocument, TaskDocument } from "../../work/run/api.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import {
  type Column,
  errorText,
  type Field,
  layoutTable,
  oneLine,
  paint,
  paintState,
  type Terminal,
} from "../base/terminal.ts";

/** An attempt, and the stack of the error that ended it, where the log has one. */
export type ShownAttempt = AttemptDocument & { stack: string | null };

/** Attempts that are listed, and errors that are shown with their stacks. */
const ATTEMPTS_SHOWN = 20;
const ERRORS_SHOWN = 5;
/** Lines at the end of a task's log that are looked through for a stack. */
const LINES_LOOKED = 50;

/**
 * The newest attempts of a run that are worth a look: those at tasks that failed or were tried more
 * than once. The last ones that failed, each at another task, have their stacks.
 */
export async function notableAttempts(
  client: Client,
  { run_id, attempts }: Pick<RunTimelineDocument, "run_id" | "attempts">,
): Promise<ShownAttempt[]> {
  const isNotable = ({ attempt, outcome, check_status: checks }: AttemptDocument): boolean =>
    attempt > 1 ||
    (outcome !== null && outcome !== "SUCCEEDED" && outcome !== "SKIPPED") ||
    (checks !== null && checks !== "PASSED");
  const tasks = new Set(attempts.filter(isNotable).map(({ task_key }) => task_key));
  const notable = attempts.filter(({ task_key }) => tasks.has(task_key)).slice(-ATTEMPTS_SHOWN);
  const lastFailed = new Map(
    notable
      .filter(({ outcome }) => outcome === "FAILED")
      .map((attempt) => [attempt.task_key, attempt]),
  );
  const withStack = new Set([...lastFailed.values()].slice(-ERRORS_SHOWN));
  const shown: ShownAttempt[] = [];
  for (const attempt of notable) {
    const stack = withStack.has(attempt) ? await stackOf(client, run_id, attempt) : null;
    shown.push({ ...attempt, stack });
  }
  return shown;
}

/** The stack stands at the end of what the attempt logged. */
async function stackOf(
  client: Client,
  run_id: string,
  { task_key, attempt }: AttemptDocument,
): Promise<string | null> {
  const params = { run_id, task_key };
  const { last_line } = await client.call("listTaskLogs", { params, query: { limit: 1 } });
  const query = { after: Math.max(0, last_line - LINES_LOOKED), limit: LINES_LOOKED };
  const { items } = await client.call("listTaskLogs", { params, query });
  for (const line of items.toReversed()) {
    const { fields } = line;
    if (line.attempt !== attempt || typeof fields !== "object" || fields === null) continue;
    if ("stack" in fields && typeof fields["stack"] === "string") return fields["stack"];
  }
  return null;
}

/** A table of attempts, and the errors of the last that failed; empty without any. */
export function attemptsText(terminal: Terminal, attempts: readonly ShownAttempt[]): string {
  if (attempts.length === 0) return "";
  const table = layoutTable(attempts, [
    ["TASK", ({ task_key }) => String(task_key), "right"],
    ["ATTEMPT", ({ attempt }) => String(attempt), "right"],
    ["OUTCOME", ({ outcome }) => paintState(terminal, outcome ?? "RUNNING")],
    ["STARTED", ({ started_at }) => relativeTime(started_at, terminal.now())],
    ["TOOK", attemptTook, "right"],
    ["WORKER", ({ worker_id }) => worker_id],
    ["NOTE", attemptNote],
  ]);
  const errors = attempts.flatMap(({ task_key, attempt, stack }) => {
    if (stack === null) return [];
    const title = paint(terminal, "bold", `Error of task ${task_key}, attempt ${attempt}:`);
    return [`\n\n${title}\n${indented(stack)}`];
  });
  return `\n\n${table}${errors.join("")}`;
}

function attemptTook({ started_at, ended_at }: AttemptDocument): string {
  return ended_at === null ? "-" : formatDuration(epochMsOf(ended_at) - epochMsOf(started_at));
}

function attemptNote(attempt: AttemptDocument): string {
  const { error, partitions_failed, partitions, check_status: checks } = attempt;
  const some = partitions > 1 && partitions_failed > 0 ? `${partitions_failed} partitions: ` : "";
  const said = checks === "FAILED" ? "checks failed" : checks === "WARNED" ? "checks warn" : "";
  return [said, `${some}${errorText(error) ?? ""}`].filter((part) => part !== "").join("; ");
}

/** How far a task is by its own word: `40/100 (40%) reading`. */
export function progressText({ progress }: Pick<TaskDocument, "progress">): string {
  if (progress === null) return "";
  const { done, total, note } = progress;
  const share = total === null || total === 0 ? "" : ` (${Math.floor((done / total) * 100)}%)`;
  return `${done}${total === null ? "" : `/${total}`}${share}${note === null ? "" : ` ${note}`}`;
}

/** What further lines of a text stand in by. */
const INDENT = "    ";

/** A text of several lines, such as a stack, below the line that it belongs to. */
export function indented(stack: string): string {
  return stack
    .split("\n")
    .map((text) => `${INDENT}${text.trimEnd()}`)
    .join("\n");
}

/** What a check found, in a line: its name, what it means, and why. */
export function checkText({ name, severity, passed, message, error }: CheckDocument): string {
  const state = passed ? "passed" : severity === "warn" ? "warns" : "failed";
  const why = message ?? (error === null ? null : errorText(error));
  return `${name} ${state}${why === null ? "" : `: ${oneLine(why)}`}`;
}

/** Metadata of a partition as fields under each other: a task says what stands there, so no line of it begins at the edge. */
export function metadataFields(metadata: Readonly<Record<string, Json>>): Field[] {
  return Object.entries(metadata).map(([name, value]): Field => {
    return [oneLine(name), factText(value).replaceAll("\n", `\n${INDENT}`)];
  });
}

/** A fact for people: as what it says it is, else as JSON. */
function factText(value: Json): string {
  const typed = metadataValueOf(value);
  switch (typed?.type) {
    case undefined:
      return typeof value === "string" ? value : JSON.stringify(value);
    case "number":
      return numberText(typed.value, typed.unit);
    case "link":
      return typed.text === undefined ? typed.url : `${typed.text} (${typed.url})`;
    case "markdown":
      return typed.text;
    case "json":
      return JSON.stringify(typed.value);
    case "table": {
      const columns = typed.columns.map(
        (name, at): Column<readonly Json[]> => [name, (row) => cellText(row[at] ?? null)],
      );
      return `\n${layoutTable(typed.rows, columns)}`;
    }
  }
}

function cellText(value: Json): string {
  if (value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
