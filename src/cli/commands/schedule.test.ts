import { describe, expect, test } from "vitest";
import { definitionOfFlags, type ScheduleFlags } from "./schedule.ts";

describe("definitionOfFlags", () => {
  test.each<[ScheduleFlags, object]>([
    [{}, {}],
    [
      { cron: "@daily", jitter: 30_000 },
      { cron: "@daily", jitter_ms: 30_000 },
    ],
    [{ asset: ["a,b", "c"] }, { asset_selection: ["a", "b", "c"] }],
    [{ partition: "current" }, { selection: { type: "tick_time", offset: 0 } }],
    [{ partition: "previous" }, { selection: { type: "tick_time", offset: -1 } }],
    [{ partition: "-7" }, { selection: { type: "tick_time", offset: -7 } }],
    [{ partitions: "a,b" }, { selection: { type: "explicit", partition_keys: ["a", "b"] } }],
    [{ selection: "all" }, { selection: { type: "all" } }],
    [{ selection: "stale", limit: 5 }, { selection: { type: "stale", limit: 5 } }],
    [
      { selection: "stale", reason: ["CODE_CHANGED"] },
      { selection: { type: "stale", reasons: ["CODE_CHANGED"] } },
    ],
    [
      { startsAt: "2026-01-01", endsAt: "none" },
      { starts_at: "2026-01-01", ends_at: null },
    ],
    [{ disabled: true }, { enabled: false }],
    [{ enabled: true }, { enabled: true }],
    [{ catchUpOnResume: false }, { catch_up_on_resume: false }],
  ])("makes of %j", (flags, definition) => {
    expect(definitionOfFlags(flags)).toEqual(definition);
  });

  test.each<[ScheduleFlags, string]>([
    [{ partition: "next" }, 'got "next"'],
    [{ partition: "1" }, 'got "1"'],
    [{ partition: "-10001" }, "how many before"],
    [{ partition: "current", selection: "all" }, "got --partition together with --selection"],
    [{ limit: 3 }, "--limit: expected only together with --selection stale"],
    [{ selection: "all", reason: ["CODE_CHANGED"] }, "--reason: expected only together"],
    [{ enabled: true, disabled: true }, "got both"],
  ])("refuses %j", (flags, sentence) => {
    expect(() => definitionOfFlags(flags)).toThrow(sentence);
  });
});
