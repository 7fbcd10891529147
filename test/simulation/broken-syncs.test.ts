import { afterEach, describe, expect, test, vi } from "vitest";
import { SegmentProgress } from "../../src/worker/segments/progress.ts";
import { SegmentRun } from "../../src/worker/segments/run-segment.ts";
import { breakFold } from "./break-fold.ts";
import { simulate } from "./simulate.ts";

// Goal: the checkers of syncs see what they are there for. Method: break one rule of the real system,
// with the fold's own assertion out of the way where there is one, and look for the promise it breaks.

type Variant =
  | "sound"
  | "takes the highest for synced"
  | "does not look at the tiling"
  | "plans what is not safe"
  | "runs more than it may"
  | "overlooks rewrites"
  | "opens everything again"
  | "is content with less";
const broken = vi.hoisted(() => ({ variant: "sound" as Variant }));

vi.mock(import("../../src/work/sync/look-up.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    syncedTo: (rows, sync, change) => {
      if (broken.variant !== "takes the highest for synced") {
        return original.syncedTo(rows, sync, change);
      }
      const { completing } = change;
      const where = [{ cell: "sync_id", is: "=", value: sync.sync_id }] as const;
      return rows.segments
        .find(where, [{ cell: "from_block" }], 10_000)
        .filter(
          ({ status, segment_index }) => status === "COMPLETE" || segment_index === completing,
        )
        .reduce((most, { to_block }) => Math.max(most, to_block), sync.from_block - 1);
    },
    wantedEnd: (sync, spec, source) => {
      const isBroken = broken.variant === "plans what is not safe";
      return original.wantedEnd(sync, isBroken ? { ...spec, finality: 0 } : spec, source);
    },
    parallelOf: (sync, spec) =>
      original.parallelOf(sync, spec) + (broken.variant === "runs more than it may" ? 2 : 0),
  };
});

vi.mock(import("../../src/work/sync/advance.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    tilingFault: (...given) =>
      broken.variant === "does not look at the tiling" ? null : original.tilingFault(...given),
  };
});

vi.mock(import("../../src/work/sync/head.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    recordHead: (seen) => {
      const { outcome } = seen;
      const isHidden = broken.variant === "overlooks rewrites" && outcome.type === "seen";
      return original.recordHead(
        isHidden ? { ...seen, outcome: { ...outcome, fork: null } } : seen,
      );
    },
  };
});

vi.mock(import("../../src/work/sync/reopen.ts"), async (importOriginal) => {
  const original = await importOriginal();
  const from = (given: number): number => (broken.variant === "opens everything again" ? 0 : given);
  return {
    ...original,
    reopenable: (rows, sync, range, most) =>
      original.reopenable(rows, sync, { ...range, from: from(range.from) }, most),
    reopenSegments: (rows, sync, range, ...rest) =>
      original.reopenSegments(rows, sync, { ...range, from: from(range.from) }, ...rest),
  };
});

vi.mock(import("../../src/work/sync/settle.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    checkSegmentReport: (rows, ref, reported) => {
      const { segment, outcome } = reported;
      const isContent = broken.variant === "is content with less" && outcome === "FAILED";
      const row = rows.segments.get(ref.sync_id, ref.segment_index);
      if (!isContent || segment === undefined || row === null || ref.purpose === "verify") {
        return original.checkSegmentReport(rows, ref, reported);
      }
      const whole = { ...segment, last_processed_block: row.to_block, quarantined: [] };
      return { ...reported, outcome: "SUCCEEDED", segment: whole };
    },
  };
});

/** Whether one of some simulations finds the promise broken; `first` is a seed that is known to find it. */
async function isFound(promise: string, first = 1): Promise<boolean> {
  for (let seed = first; seed < first + 60; seed++) {
    const { violations } = await simulate(seed, { syncs: true });
    if (violations.list.some((violation) => violation.promise === promise)) return true;
  }
  return false;
}

afterEach(() => {
  broken.variant = "sound";
  vi.restoreAllMocks();
});

describe("the checkers find", () => {
  test("a sync that takes the highest complete block for synced: I48", async () => {
    broken.variant = "takes the highest for synced";
    expect(await isFound("I48", 4)).toBe(true);
  });

  test("a piece that is lost, where nobody looks at the tiling: I47", async () => {
    broken.variant = "does not look at the tiling";
    breakFold("SyncSegmentsPlanned", (original, rows, { data }) => {
      original();
      const sync = rows.syncs.get(data.sync_id);
      if (sync === null || data.ends.length < 2) return;
      rows.segments.delete(data.sync_id, data.first_index + data.ends.length - 1);
      const { segments_total: total, segments_pending: pending } = sync;
      rows.syncs.put({ ...sync, segments_total: total - 1, segments_pending: pending - 1 });
    });
    expect(await isFound("I47")).toBe(true);
  });

  test("a sync that plans what may still be rewritten: I47", async () => {
    broken.variant = "plans what is not safe";
    expect(await isFound("I47", 9)).toBe(true);
  });

  test("a sync that runs more segments than it may: I51", async () => {
    broken.variant = "runs more than it may";
    expect(await isFound("I51")).toBe(true);
  });

  test("a segment that is run again while its last run goes on: I51", async () => {
    breakFold("SyncSegmentsReopened", (original, rows, { data }) => {
      original();
      for (const { segment_index } of data.segments) {
        const sync = rows.syncs.get(data.sync_id);
        const segment = rows.segments.get(data.sync_id, segment_index);
        if (sync === null || segment === null || segment.run_pos === null) continue;
        rows.segments.put({ ...segment, run_pos: null });
        rows.syncs.put({ ...sync, segments_queued: sync.segments_queued - 1 });
      }
    });
    expect(await isFound("I51")).toBe(true);
  });

  test("rewrites that nobody hears of: I48", async () => {
    broken.variant = "overlooks rewrites";
    expect(await isFound("I48", 5)).toBe(true);
  });

  test("a rewrite that opens what it left alone: I50", async () => {
    broken.variant = "opens everything again";
    expect(await isFound("I50", 9)).toBe(true);
  });

  test("a segment that is complete although its run failed: I48", async () => {
    broken.variant = "is content with less";
    expect(await isFound("I48")).toBe(true);
  });

  test("a worker that says what it will store before it does: I48", async () => {
    const fetch = Reflect.get(SegmentRun.prototype, "fetch");
    vi.spyOn(SegmentRun.prototype, "fetch").mockImplementation(async function (
      this: SegmentRun,
      from,
      to,
    ) {
      this.progress.advance(to);
      await this.progress.keep();
      await fetch.call(this, from, to);
    });
    expect(await isFound("I48")).toBe(true);
  });

  test("a worker that leaves what is void: I49", async () => {
    vi.spyOn(SegmentProgress.prototype, "undo", "get").mockReturnValue(false);
    expect(await isFound("I49", 27)).toBe(true);
  });
});
