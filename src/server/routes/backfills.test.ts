import { describe, expect, test } from "vitest";
import type { BackfillRow, ChunkRow } from "../../work/backfill/rows.ts";
import { addMs } from "../../kernel/instant.ts";
import { backfillDocument, type BackfillExtras } from "./backfills.ts";

const NOW = "2026-01-01T00:01:00.000Z";

const counters = {
  total_chunks: 10,
  chunks_planned: 1,
  chunks_running: 1,
  chunks_succeeded: 2,
  chunks_failed: 0,
  chunks_cancelled: 0,
  window: null,
  window_open: 1,
  partitions_total: 100,
  partitions_planned: 10,
  partitions_running: 10,
  partitions_succeeded: 20,
  partitions_failed: 0,
  partitions_cancelled: 0,
};

function backfill(fields: Partial<BackfillRow>): BackfillRow {
  return { ...counters, state: "RUNNING", ...fields } as BackfillRow;
}

function chunk(plannedMsAgo: number, partitions: number): ChunkRow {
  return { planned_at: addMs(NOW, -plannedMsAgo), partitions } as ChunkRow;
}

function extras(recent: readonly ChunkRow[]): BackfillExtras {
  return { recent, pauses: { paused_ms: 0, paused_at: null } };
}

describe("backfillDocument", () => {
  test("counts as pending what is in no other counter", () => {
    const document = backfillDocument(backfill({}), extras([]), NOW);
    expect(document).toMatchObject({ chunks_pending: 6, partitions_pending: 60 });
  });

  test("shows failures of a paused backfill", () => {
    const failed = { partitions_failed: 1 };
    const shown = (fields: Partial<BackfillRow>) =>
      backfillDocument(backfill(fields), extras([]), NOW).display_status;
    expect(shown({ state: "PAUSED" })).toBe("PAUSED");
    expect(shown({ state: "PAUSED", ...failed })).toBe("PAUSED_WITH_FAILURES");
    expect(shown({ state: "RUNNING", ...failed })).toBe("RUNNING");
  });

  test("takes the pace of the newest chunks for what is left", () => {
    const recent = [chunk(10_000, 10), chunk(20_000, 10)];
    expect(backfillDocument(backfill({}), extras(recent), NOW)).toMatchObject({
      rate_per_second: 1,
      eta_at: addMs(NOW, 80_000),
    });
  });

  test("counts the pace since its window opened, and the time in which it will be open", () => {
    const window = "00:00-00:02 UTC";
    const recent = [chunk(10_000, 10), chunk(20_000, 10), chunk(80_000_000, 10)];
    expect(backfillDocument(backfill({ window }), extras(recent), NOW)).toMatchObject({
      rate_per_second: 1,
      eta_at: "2026-01-02T00:00:20.000Z",
    });
  });

  test("has no pace before the first chunk is done, and none when it does not run", () => {
    const none = { rate_per_second: null, eta_at: null };
    expect(backfillDocument(backfill({}), extras([]), NOW)).toMatchObject(none);
    const paused = backfillDocument(backfill({ state: "PAUSED" }), extras([chunk(1_000, 1)]), NOW);
    expect(paused).toMatchObject(none);
  });
});
