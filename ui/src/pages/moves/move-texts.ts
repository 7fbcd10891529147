import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { Phase, PhasePlace } from "../../parts/phases.tsx";
import type { ProgressPart } from "../../parts/progress.tsx";
import { counted, countText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** A move with its topologies and lanes. */
export type Move = AnswerOf<"getMove">;

/** A move as lists have it. */
export type ListedMove = AnswerOf<"listMoves">["items"][number];

/** A segment of a move as lists have it. */
export type Segment = AnswerOf<"listMoveSegments">["items"][number];

const PHASES = [
  ["survey", "Survey"],
  ["copy", "Copy"],
  ["remove", "Remove"],
  ["check", "Check"],
  ["done", "Done"],
] as const;

/** States by which moves are told apart in lists. */
export const STATE_OPTIONS = [
  ["PLANNED", "Planned"],
  ["RUNNING", "Running"],
  ["PAUSED", "Paused"],
  ["COMPLETE", "Complete"],
  ["CANCELLED", "Cancelled"],
] as const;

/** What a move is called: its name, or that it has none. */
export function moveName({ name, shards_from, shards_to }: ListedMove): string {
  return name ?? `${shards_from.join(", ")} → ${shards_to.join(", ")}`;
}

/** The phases of a move as steps; a dry run ends with the first. */
export function phasesOf(move: ListedMove): Phase[] {
  const { phase, state, keep_source, dry_run, surveyed } = move;
  const shown = PHASES.filter(([name]) => {
    if (dry_run) return name === "survey";
    return name !== "remove" || !keep_source;
  });
  const at = shown.findIndex(([name]) => name === phase);
  const placeOf = (name: string, index: number): PhasePlace => {
    if (phase === "done" || (name === "survey" && surveyed)) return "done";
    // It came to that phase, and did not end it.
    if (state === "CANCELLED") return index < at ? "done" : "skipped";
    if (index !== at) return index < at ? "done" : "ahead";
    if (state === "PLANNED" && name !== "survey") return "ahead";
    return move.segments_poisoned > 0 ? "failed" : "now";
  };
  const timeOf = (name: string): string | null => {
    if (name === "survey") return move.created_at;
    if (name === "copy") return move.started_at;
    return name === "done" && phase === "done" ? move.finished_at : null;
  };
  return shown.map(([name, text], index) => ({
    name,
    text,
    place: placeOf(name, index),
    at: timeOf(name),
  }));
}

/** The segments of a move by where they stand; those at work are among them, by what they were before. */
export function segmentParts(move: ListedMove): ProgressPart[] {
  return [
    { state: "MOVED", count: move.segments_removed },
    { state: "COPIED", count: move.segments_copied },
    { state: "EXCLUDED", count: move.segments_excluded },
    { state: "POISONED", count: move.segments_poisoned },
  ];
}

/** Whether a segment is still worked on that nobody wants worked on: only comparisons go on in a paused move. */
export function isStopping(
  { state }: Pick<ListedMove, "state">,
  { running, step }: Pick<Segment, "running" | "step">,
): boolean {
  return running && (state === "CANCELLED" || (state === "PAUSED" && step !== "verify"));
}

/** The keys that a segment holds: from the first on, below the last. */
export function keysText({ lower, upper }: Pick<Segment, "lower" | "upper">): string {
  return visibleText(`${lower?.join(", ") ?? "the first"} … ${upper?.join(", ") ?? "the last"}`);
}

/** Bytes for people: `1.5 MB`. */
export function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** A layout of rows over shards, in a line. */
export function topologyText(topology: Move["from"]): string {
  return visibleText(layoutText(topology));
}

function layoutText(topology: Move["from"]): string {
  switch (topology.by) {
    case "tenant": {
      const named = Object.entries(topology.tenants);
      const some = named.slice(0, 3).map(([tenant, shard]) => `${tenant} on ${shard}`);
      const more = named.length > 3 ? `, and ${countText(named.length - 3)} more by name` : "";
      const rest = `all others on ${topology.default}`;
      return named.length === 0
        ? `all on ${topology.default}`
        : `${some.join(", ")}${more}, ${rest}`;
    }
    case "hash":
      return `by hash, ${counted(topology.buckets.length, "bucket")} on ${[...new Set(topology.buckets)].join(", ")}`;
    case "range":
      return topology.ranges
        .slice(0, 4)
        .map(({ below, shard }) =>
          below === null ? `the rest on ${shard}` : `below ${below} on ${shard}`,
        )
        .join(", ")
        .concat(topology.ranges.length > 4 ? " …" : "");
  }
}
