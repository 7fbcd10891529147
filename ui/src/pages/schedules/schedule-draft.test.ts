import { describe, expect, test } from "vitest";
import { definitionOf, draftOf, newDraft } from "./schedule-draft.ts";
import type { Schedule } from "./schedule-texts.ts";

const DEFINITION = {
  description: "Sums up",
  labels: { team: "sales" },
  enabled: false,
  cron: "0 6 * * *",
  timezone: "Europe/Berlin",
  asset_selection: ["a", "b"],
  selection: { type: "stale", limit: 12, reasons: ["CODE_CHANGED"] },
  config: { full: true },
  priority: 5,
  overlap: "skip",
  catchup_window_minutes: 60,
  max_catchup_ticks: 1,
  catch_up_on_resume: true,
  jitter_ms: 1_500,
  starts_at: "2026-03-01T00:00:00.000Z",
  ends_at: null,
} as const;

function scheduleWith(changes: object): Schedule {
  return { name: "refresh", ...DEFINITION, ...changes } as unknown as Schedule;
}

describe("a schedule in a form", () => {
  test.each([
    { selection: { type: "stale", limit: 12, reasons: ["CODE_CHANGED"] } },
    { selection: { type: "tick_time", offset: -2 } },
    { selection: { type: "tick_time", offset: 0 } },
    { selection: { type: "explicit", partition_keys: ["x", "y"] } },
    { selection: { type: "all" }, config: null, labels: {} },
    { selection: { type: "whole" }, starts_at: null, ends_at: "2027-01-01T12:30:00.000Z" },
  ])("comes back as it was: %j", (changes) => {
    const schedule = scheduleWith(changes);
    expect(definitionOf(draftOf(schedule), schedule)).toEqual({ ...DEFINITION, ...changes });
  });

  test("begins as the API would fill it in", () => {
    const made = definitionOf({ ...newDraft("UTC", ["a"]), name: "n" }, null);
    expect(made).toMatchObject({
      enabled: true,
      overlap: "allow",
      catchup_window_minutes: 1_440,
      max_catchup_ticks: 3,
      selection: { type: "whole" },
      config: null,
    });
    expect(made).not.toHaveProperty("description");
  });
});
