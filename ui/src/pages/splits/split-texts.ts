import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { Phase, PhasePlace } from "../../parts/phases.tsx";
import { countText, momentText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** A split as the API shows it. */
export type Split = AnswerOf<"getSplit">;

type LedgerEvent = AnswerOf<"listEvents">["items"][number];

const PHASES = [
  ["planning", "Planning"],
  ["dual_write", "Dual write"],
  ["backfill", "Backfill"],
  ["tailing", "Tailing"],
  ["cutover_pending", "Cutover pending"],
  ["reversible", "Reversible"],
  ["completed", "Completed"],
] as const;

/** Phases by which splits are told apart in lists. */
export const PHASE_OPTIONS: readonly (readonly [string, string])[] = [
  ...PHASES,
  ["rolled_back", "Rolled back"],
];

/** The events that take a split from phase to phase. */
export const PHASE_EVENTS = "SplitPlanned,SplitPhaseChanged,SplitCaughtUp,SplitCutOver";

/** When a split came to which phase, the first time since its plan was last begun, and was handed back. */
export type PhaseTimes = ReadonlyMap<string, string>;

/** Reads the times of phases off the events of a split. */
export function phaseTimes(events: readonly LedgerEvent[]): PhaseTimes {
  const times = new Map<string, string>();
  for (const event of events) {
    const phase = phaseOf(event);
    if ((event.data as { from_phase?: string }).from_phase === "rolled_back") forgetRun(times);
    if (phase !== null && !times.has(phase)) times.set(phase, event.occurred_at);
  }
  return times;
}

/** A plan that is run again has come to nothing yet but being planned. */
function forgetRun(times: Map<string, string>): void {
  for (const phase of times.keys()) if (phase !== "planning") times.delete(phase);
}

function phaseOf({ type, data }: LedgerEvent): string | null {
  const fields = data as { to_phase?: string; direction?: string };
  switch (type) {
    case "SplitPlanned":
      return "planning";
    case "SplitPhaseChanged":
      return fields.to_phase ?? null;
    case "SplitCaughtUp":
      return "cutover_pending";
    case "SplitCutOver":
      return fields.direction === "forward" ? "reversible" : "handed_back";
    default:
      return null;
  }
}

/** The phases of a split as steps. */
export function phasesOf(split: Split, times: PhaseTimes): Phase[] {
  const isBack = split.phase === "rolled_back";
  const at = PHASES.findIndex(([name]) => name === split.phase);
  const placeOf = (name: string, index: number): PhasePlace => {
    if (isBack) return times.has(name) ? "done" : "skipped";
    if (index < at || split.phase === "completed") return "done";
    if (index > at) return "ahead";
    return split.step?.state === "FAILED" ? "failed" : "now";
  };
  const steps = PHASES.map(([name, text], index) => ({
    name,
    text,
    place: placeOf(name, index),
    at: times.get(name) ?? null,
  }));
  if (!isBack) return steps;
  const back = { name: "rolled_back", text: "Rolled back", place: "now" as const };
  return [...steps.slice(0, -1), { ...back, at: times.get("rolled_back") ?? split.finished_at }];
}

/** Tenants that are named one by one. */
const NAMED_MAX = 3;

/** Some tenants by name, and how many there are besides. */
export function tenantsText(tenants: readonly string[]): string {
  const named = visibleText(tenants.slice(0, NAMED_MAX).join(", "));
  const rest = tenants.length - NAMED_MAX;
  return rest > 0 ? `${named} and ${countText(rest)} more` : named;
}

/** Whether a split has come to its end. */
export function isEnded({ phase }: Split): boolean {
  return phase === "completed" || phase === "rolled_back";
}

/** Which shard follows the other: after the cutover it is the source, so that there is a way back. */
export function followerOf({ phase, source, target }: Split): string {
  return phase === "reversible" ? source : target;
}

/** Where to plan a split like this one. */
export function planAgainHref({ source, target, tenants }: Split): string {
  const query = new URLSearchParams({ source, target });
  for (const tenant of tenants) query.append("tenant", tenant);
  return `/splits/new?${query.toString()}`;
}

/** Whether somebody works on it or is about to, so that it changes without an event. */
export function isBusy({ step }: Split): boolean {
  return step?.state === "RUNNING" || step?.state === "QUEUED";
}

/** What wants attention about a split, in a few words; null when nothing does. */
export function troubleOf({ step, error_message }: Split): string | null {
  if (step?.state === "FAILED") return `${step.step} failed: ${error_message ?? "no reason given"}`;
  if (step?.lacks_worker === true) return "no worker polls for it";
  if ((step?.retry_at ?? null) !== null) return `retrying: ${error_message ?? ""}`;
  return null;
}

/** What the server says of a split, with moments as the clocks here show them. */
export function nextText({ next }: Split): string {
  const text = next.text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, momentText);
  return visibleText(text);
}

/** A sentence of the server, which begins in the middle of one. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}
