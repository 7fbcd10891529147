import { lookOf, type Tone } from "./status-look.ts";

/** A mark inside a cell, so that states are told apart without colour. */
export type Mark = "none" | "hollow" | "dot" | "half" | "cross" | "bar" | "slash";

/** How a cell of a map looks: the name of its colour, and its mark. */
export type MapLook = { colour: string; mark: Mark };

const LOOKS: Readonly<Record<string, MapLook>> = {
  PENDING: { colour: "--map-pending", mark: "hollow" },
  NEVER_MATERIALIZED: { colour: "--map-pending", mark: "hollow" },
  PLANNED: { colour: "--map-planned", mark: "dot" },
  RUNNING: { colour: "--map-running", mark: "half" },
  IN_PROGRESS: { colour: "--map-running", mark: "half" },
  SUCCEEDED: { colour: "--map-succeeded", mark: "none" },
  MATERIALIZED: { colour: "--map-succeeded", mark: "none" },
  BEING_REMADE: { colour: "--map-succeeded", mark: "half" },
  FAILED: { colour: "--map-failed", mark: "cross" },
  MATERIALIZED_LAST_ATTEMPT_FAILED: { colour: "--map-failed", mark: "slash" },
  CANCELLED: { colour: "--map-cancelled", mark: "bar" },
  SPLIT: { colour: "--map-pending", mark: "slash" },
  STALE: { colour: "--map-stale", mark: "slash" },
  COPIED: { colour: "--map-planned", mark: "dot" },
  EXCLUDED: { colour: "--map-cancelled", mark: "bar" },
};

const BY_TONE: Readonly<Record<Tone, MapLook>> = {
  good: { colour: "--map-succeeded", mark: "none" },
  busy: { colour: "--map-running", mark: "half" },
  wait: { colour: "--map-pending", mark: "hollow" },
  warn: { colour: "--map-stale", mark: "slash" },
  bad: { colour: "--map-failed", mark: "cross" },
  odd: { colour: "--map-odd", mark: "bar" },
};

/** How cells in a state look; a state that has no look of its own has that of its tone. */
export function mapLookOf(state: string): MapLook {
  return LOOKS[state] ?? BY_TONE[lookOf(state).tone];
}
