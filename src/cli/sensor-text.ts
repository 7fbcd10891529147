import type {
  EvaluatedSensor,
  SensorDocument,
  SensorEvalDocument,
  SensorRunRequestDocument,
} from "../core/api/sensor-documents.ts";
import { shortId } from "./short-id.ts";

/** What a sensor waits for, in a few words. */
export function watchText({ mode, watch }: SensorDocument): string {
  if (mode === "push") return "messages";
  switch (watch?.type) {
    case undefined:
      return "its function";
    case "files":
      return `files ${watch.folder}/${watch.recursive ? "**/" : ""}${watch.pattern}`;
    case "objects":
      return `objects ${watch.prefix}${watch.pattern}`;
    case "rows":
      return `rows of ${watch.table} by ${watch.watermark}`;
    case "materializations":
      return `materializations of ${watch.asset_key}`;
    case "run_failures":
      return watch.assets.length === 0
        ? "failures of runs"
        : `failures of runs of ${watch.assets.join(", ")}`;
  }
}

/** What a sensor asks for, in a few words. */
export function targetText({ target }: SensorDocument): string {
  if (target === null) return "what its function decides";
  const { asset_selection, partition_key } = target;
  const assets = asset_selection.join(", ");
  return partition_key === null ? assets : `${assets} @ ${partition_key}`;
}

/** Who evaluates a sensor, and whether there is one; null when the server does it itself. */
export function workerText({ needs_function, has_worker }: SensorDocument): string | null {
  if (has_worker) return needs_function ? "one with its function asks for work" : null;
  return needs_function
    ? "none with its function has asked for work lately"
    : "none has asked for work lately";
}

/** What made a sensor be evaluated. */
export function sourceText({ trigger_source: source }: SensorEvalDocument): string {
  switch (source.type) {
    case "push":
      return `message ${source.message_id}`;
    case "poll":
      return "look";
    case "manual":
      return `request ${source.request_id}`;
  }
}

/** A cursor that may be long, shortened for a table. */
export function cursorText(cursor: string | null): string {
  if (cursor === null) return "the start";
  return cursor.length <= 24 ? cursor : `${cursor.slice(0, 23)}…`;
}

type Runs = readonly SensorRunRequestDocument[];

/** What became of runs that were asked for: `run_abcdefgh SUCCEEDED`, `2 created, 1 existing`. */
export function runsText(requests: Runs): string {
  const [first, second] = requests;
  if (first === undefined) return "-";
  if (second === undefined) {
    if (first.run_id === null || first.outcome === "refused") return first.outcome;
    const state = first.run_state === null ? first.outcome : first.run_state;
    return `${shortId(first.run_id)} ${state}`;
  }
  const counts = new Map<string, number>();
  for (const { outcome } of requests) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
}

/** Why an evaluation failed, or why the first of its runs was refused. */
export function evalNote({
  error,
  run_requests,
}: Pick<EvaluatedSensor, "error" | "run_requests">): string {
  const why = error ?? run_requests.find((request) => request.error !== null)?.error ?? null;
  return why === null ? "" : `${why.class}: ${why.message}`;
}
