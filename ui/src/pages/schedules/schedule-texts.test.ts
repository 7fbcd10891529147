import { describe, expect, test } from "vitest";
import { epochOfTickKey, type Tick, tickKey, tickTitle } from "./schedule-texts.ts";

const TICK: Tick = {
  schedule_id: "sched_1",
  pos: 1,
  tick_id: "sched_1:1772355600",
  scheduled_for: "2026-03-01T09:00:00.000Z",
  through: "2026-03-01T09:00:00.000Z",
  count: 1,
  manual: false,
  status: "triggered",
  reason: null,
  error: null,
  run_key: "k",
  run_id: "r",
  run_state: "RUNNING",
  backfill_id: null,
  backfill_state: null,
  asset_selection: ["report"],
  partition_keys: null,
  partition_count: null,
  stale_reasons: null,
  definition_version: 1,
  decided_at: "2026-03-01T09:00:00.000Z",
};

describe("tickTitle", () => {
  test("says what became of a time", () => {
    expect(tickTitle(TICK, "UTC")).toBe("2026-03-01 09:00 UTC triggered, run running");
    expect(tickTitle({ ...TICK, manual: true }, "UTC")).toContain("triggered manually");
    expect(tickTitle({ ...TICK, status: "skipped", reason: "overlap" }, "UTC")).toBe(
      "2026-03-01 09:00 UTC skipped: the run before was still active",
    );
    const error = { class: "user", message: "no such asset" } as Tick["error"];
    expect(tickTitle({ ...TICK, status: "failed", error }, "UTC")).toContain("no such asset");
  });

  test("speaks of many at once", () => {
    const many = {
      ...TICK,
      tick_id: null,
      count: 539,
      through: "2026-03-01T18:00:00.000Z",
      status: "skipped",
      reason: "catchup_window",
    } as const;
    expect(tickTitle(many, "UTC")).toBe(
      "539 times from 2026-03-01 09:00 UTC to 2026-03-01 18:00 skipped: " +
        "outside the catch-up window",
    );
  });
});

describe("the name of a tick in an address", () => {
  test("leads back to its second", () => {
    expect(epochOfTickKey(tickKey(TICK))).toBe(1_772_355_600);
    expect(epochOfTickKey("sched_1:manual:1772355600:2")).toBe(1_772_355_600);
    expect(epochOfTickKey("sched_1:manual:1772355600")).toBe(1_772_355_600);
    expect(epochOfTickKey(tickKey({ ...TICK, tick_id: null }))).toBe(1_772_355_600);
    expect(epochOfTickKey("nothing")).toBeNull();
  });
});
