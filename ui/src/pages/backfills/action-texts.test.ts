import { describe, expect, test } from "vitest";
import {
  cancelConsequence,
  pauseConsequence,
  resumeConsequence,
  retryChoices,
  retryConsequence,
} from "./action-texts.ts";
import { BACKFILL_RULES } from "../../../../src/work/backfill/rules.ts";
import { whyNot } from "../../../../src/work/command.ts";
import type { Backfill } from "./backfill-texts.ts";

/** A backfill of which only the named fields matter. */
function backfill(fields: Partial<Backfill>): Backfill {
  const plain: Partial<Backfill> = {
    state: "RUNNING",
    chunks_pending: 8,
    chunks_planned: 1,
    chunks_running: 1,
    max_concurrent_runs: 2,
    partitions_failed: 0,
    partitions_cancelled: 0,
    partitions_skipped: 0,
    after_backfill_id: null,
    cancel_runs: false,
    finished_at: null,
  };
  return { ...plain, ...fields } as Backfill;
}

const ended = (fields: Partial<Backfill>): Backfill =>
  backfill({ finished_at: "2025-01-01T00:00:00.000Z", ...fields });

describe("what an action would do", () => {
  test("is told with the numbers of the backfill", () => {
    expect(pauseConsequence(backfill({}))).toBe(
      "No further chunk is planned. 2 chunks that are under way finish. " +
        "8 chunks wait until it is resumed.",
    );
    expect(pauseConsequence(backfill({ chunks_planned: 0, chunks_running: 0 }))).toContain(
      "Nothing is under way.",
    );
    expect(resumeConsequence(backfill({ state: "PAUSED", chunks_pending: 1 }))).toContain(
      "1 chunk is left, at most 2 runs at once.",
    );
  });

  test("differs when active runs are cancelled too", () => {
    const one = backfill({ chunks_planned: 0, chunks_pending: 1 });
    expect(cancelConsequence(one, false)).toMatch(
      /^1 chunk that is not planned never runs and counts as cancelled\. 1 active run goes on/,
    );
    expect(cancelConsequence(one, true)).toContain("1 active run is stopped");
  });

  test("names what a follower does not wait for", () => {
    const follower = backfill({ state: "PENDING", after_backfill_id: "other" });
    expect(resumeConsequence(follower)).toContain("the backfill before it did not succeed");
  });
});

describe("an action that is no use", () => {
  test("says why, and says nothing where it is some", () => {
    const whyNotNow = (command: keyof typeof BACKFILL_RULES, fields: Partial<Backfill>) => {
      const shown = backfill(fields);
      return whyNot(BACKFILL_RULES[command], shown.state, shown);
    };
    expect(whyNotNow("pause", {})).toBeNull();
    expect(whyNotNow("pause", { state: "PAUSED" })).toBe(
      "Only while it is running; now it is paused.",
    );
    expect(whyNotNow("resume", { state: "PAUSED" })).toBeNull();
    expect(whyNotNow("resume", { state: "PENDING", after_backfill_id: "a" })).toBeNull();
    expect(whyNotNow("resume", {})).toContain("now it is running");
    expect(whyNotNow("cancel --now", { state: "CANCELLING" })).toBeNull();
    expect(whyNotNow("cancel --now", { state: "CANCELLING", cancel_runs: true })).toContain(
      "is being cancelled",
    );
    expect(whyNotNow("cancel --now", { state: "FAILED" })).toContain("now it is failed");
    expect(whyNotNow("retune", { state: "PAUSED" })).toBeNull();
    expect(whyNotNow("retune", { state: "SUCCEEDED" })).toContain("now it is succeeded");
    expect(whyNotNow("retry-failed", { partitions_failed: 3 })).toBeNull();
    expect(whyNotNow("retry-failed", { state: "PAUSED" })).toContain("Nothing has failed so far");
    expect(whyNotNow("retry-failed", { state: "FAILED", partitions_failed: 3 })).toBeNull();
    expect(whyNotNow("retry-failed", { state: "SUCCEEDED" })).toContain(
      "Every partition succeeded",
    );
  });
});

test("a retry of a backfill that goes on is of what failed so far", () => {
  const running = backfill({
    partitions_failed: 3,
    partitions_cancelled: 1,
    partitions_skipped: 1,
  });
  expect(retryChoices(running)).toEqual([["FAILED", "The 3 partitions that failed so far"]]);
  expect(retryConsequence(running)).toContain("this one goes on as it is");
});

test("a retry offers only what would have something to do", () => {
  const offered = (fields: Partial<Backfill>) => retryChoices(ended(fields)).map(([name]) => name);
  expect(offered({ partitions_failed: 3 })).toEqual(["FAILED", "missing"]);
  expect(offered({ partitions_cancelled: 2 })).toEqual(["CANCELLED", "missing"]);
  expect(offered({ partitions_failed: 3, partitions_cancelled: 2 })).toEqual([
    "FAILED",
    "FAILED,CANCELLED",
    "missing",
  ]);
  expect(offered({ partitions_skipped: 1 })).toEqual(["SKIPPED", "missing"]);
});
