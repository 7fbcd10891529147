import type { AnswerOf } from "../../../../src/work/operations.ts";
import { countText, durationText, momentText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** A sensor as the API shows it. */
export type Sensor = AnswerOf<"getSensor">;

/** An evaluation as the API shows it. */
export type Evaluation = AnswerOf<"listEvals">["items"][number];

/** A run that an evaluation asked for. */
export type RunRequest = Evaluation["run_requests"][number];

/** A message of a push sensor as the API shows it. */
export type Message = AnswerOf<"listMessages">["items"][number];

/** A sensor is late when what it should do has been waiting for longer than this. */
const LATE_SECONDS = 60;

/** How long a sensor has been waiting beyond what is usual; null while it is not. */
export function lateMs({ lag_seconds }: Sensor): number | null {
  return lag_seconds > LATE_SECONDS ? lag_seconds * 1_000 : null;
}

/** Whether nobody is there who could evaluate the sensor. */
export function lacksWorker({ state, has_worker }: Sensor): boolean {
  return (state === "ACTIVE" || state === "ERROR") && !has_worker;
}

/** What a sensor looks at, or waits for. */
export function watchText({ mode, watch, needs_function }: Sensor): string {
  if (mode === "push") return "messages";
  if (watch === null) return needs_function ? "what its function polls" : "nothing";
  switch (watch.type) {
    case "files":
      return `files ${watch.pattern} in ${watch.folder}${watch.recursive ? " and below" : ""}`;
    case "objects":
      return `objects ${watch.pattern}${watch.prefix === "" ? "" : ` under ${watch.prefix}`}`;
    case "rows":
      return `rows of ${watch.table} by ${watch.watermark}`;
    case "materializations":
      return `new materializations of ${watch.asset_key}`;
    case "run_failures":
      return watch.assets.length === 0
        ? "failed runs"
        : `failed runs of ${watch.assets.join(", ")}`;
  }
}

/** What a sensor asks for. */
export function targetText({ target }: Sensor): string {
  if (target === null) return "what its function decides";
  const { asset_selection, partition_key } = target;
  const assets = asset_selection.join(", ");
  return partition_key === null ? assets : `${assets}, partition ${partition_key}`;
}

/** What made a sensor be evaluated. */
export function sourceText({ trigger_source: source }: Evaluation): string {
  switch (source.type) {
    case "push":
      return `message ${source.message_id}`;
    case "poll":
      return "poll";
    case "manual":
      return "manual";
  }
}

/** What an evaluation came to, in a sentence, as on a time line. */
export function evaluationTitle(evaluation: Evaluation): string {
  const { status, error, run_requests, evaluated_at } = evaluation;
  const at = momentText(evaluated_at);
  if (status === "error")
    return visibleText(`${at} failed: ${error?.message ?? "no reason given"}`);
  if (status === "skipped_stale_cursor") return `${at} outdated cursor, ignored`;
  if (run_requests.length === 0) return `${at} nothing new`;
  const runs = run_requests.length === 1 ? "1 run" : `${countText(run_requests.length)} runs`;
  return `${at} triggered ${runs}`;
}

/** What resuming a sensor does with what came meanwhile. */
export function resumeConsequence({ mode, messages_pending }: Sensor): string {
  if (mode === "poll") {
    return "The sensor polls again from its cursor and finds what came in while it was paused.";
  }
  const waiting =
    messages_pending === 0
      ? "No message is pending."
      : messages_pending === 1
        ? "1 pending message is evaluated at once."
        : `${countText(messages_pending)} pending messages are evaluated at once, oldest first.`;
  return `The sensor evaluates messages again. ${waiting}`;
}

/** How often a poll sensor looks. */
export function intervalText({ mode, min_interval_ms }: Sensor): string | null {
  return mode === "push" ? null : `every ${durationText(min_interval_ms)} at most`;
}
