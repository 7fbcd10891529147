import type { Concern } from "../../../../src/work/server-api.ts";
import type { Look } from "../../parts/status-look.ts";
import { countText } from "../../parts/time-text.ts";

/** What can be wrong, the most urgent first. */
export const CONCERNS: readonly Concern[] = ["failed", "stuck", "late", "stale", "paused"];

const LOOKS: Readonly<Record<Concern, Omit<Look, "word"> & { title: string }>> = {
  failed: { tone: "bad", sign: "✕", title: "Failed" },
  stuck: { tone: "odd", sign: "⚠", title: "Stuck" },
  late: { tone: "warn", sign: "!", title: "Late" },
  stale: { tone: "warn", sign: "↻", title: "Stale" },
  paused: { tone: "wait", sign: "‖", title: "Paused" },
};

/** A number, which may be the least that there is: `200+`; of nothing so far, that it is not known. */
export function leastText(count: number, isLeast: boolean): string {
  if (isLeast && count === 0) return "?";
  return `${countText(count)}${isLeast ? "+" : ""}`;
}

/** How a concern is shown. */
export function lookOfConcern(what: Concern): Omit<Look, "word"> & { title: string } {
  return LOOKS[what];
}
