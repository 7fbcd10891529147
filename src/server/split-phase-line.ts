import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventData } from "../core/events/index.ts";

/** A line of the server's log about a split: where it stands, and what brought it there. */
export type SplitPhaseLine = {
  split_id: string;
  phase: string;
  /** Null for a split that is new, and where the event does not say. */
  from_phase: string | null;
  state_version: number;
  changed_by: string | null;
  reason: string | null;
  routing_version: number | null;
  pos: number;
};

/** What a log says of an event that takes a split to another phase; null for every other one. */
export function splitPhaseLine({ type, data, pos }: RecordedEvent): SplitPhaseLine | null {
  const line = { changed_by: null, reason: null, routing_version: null, pos };
  switch (type) {
    case "SplitPlanned": {
      const { split_id, changed_by, routing_version } = parsed<"SplitPlanned">(data);
      const begun = { split_id, phase: "planning", from_phase: null, state_version: 1 };
      return { ...begun, ...line, changed_by, routing_version };
    }
    case "SplitPhaseChanged": {
      const { split_id, from_phase, to_phase, ...changed } = parsed<"SplitPhaseChanged">(data);
      const { state_version, changed_by, reason } = changed;
      const phases = { split_id, phase: to_phase, from_phase, state_version };
      return { ...phases, ...line, changed_by, reason };
    }
    case "SplitCaughtUp": {
      const { split_id, state_version } = parsed<"SplitCaughtUp">(data);
      return { split_id, phase: "cutover_pending", from_phase: null, state_version, ...line };
    }
    case "SplitCutOver": {
      const { split_id, direction, ...cutover } = parsed<"SplitCutOver">(data);
      const { state_version, routing_version } = cutover;
      // The way back is no phase of its own: the split is rolled back once the copy is discarded.
      if (direction === "back") return null;
      const phases = {
        split_id,
        phase: "reversible",
        from_phase: "cutover_pending",
        state_version,
      };
      return { ...phases, ...line, routing_version };
    }
    default:
      return null;
  }
}

function parsed<
  Type extends "SplitPlanned" | "SplitPhaseChanged" | "SplitCaughtUp" | "SplitCutOver",
>(data: string): EventData<Type> {
  return JSON.parse(data) as EventData<Type>;
}
