import { describe, expect, test } from "vitest";
import type { Json } from "../../kernel/canonical.ts";
import type { ClaimedSegment } from "../../work/sync/segment-protocol.ts";
import { Narrowing, SegmentProgress } from "./progress.ts";
import { piecesBetween } from "./run-segment.ts";

const SEGMENT: ClaimedSegment = {
  sync_id: "sync_1",
  sync: "blocks",
  target: { chain: "main" },
  source: "main",
  segment_index: 0,
  generation: 0,
  purpose: "fetch",
  from_block: 100,
  to_block: 199,
  last_processed_block: null,
  undo: false,
  is_live: false,
  splittable: true,
  was_quarantined: false,
  quarantine_after: 5,
  request_size: null,
  requests_per_second: null,
};

function progressOf(checkpoint: Json, more: Partial<ClaimedSegment> = {}) {
  const kept: Json[] = [];
  const keeper = {
    checkpoint: async (value: Json) => void kept.push(value),
    progressed: () => undefined,
  };
  const progress = new SegmentProgress({ ...SEGMENT, ...more }, checkpoint, keeper, () => 0);
  return { progress, kept };
}

const failure = { class: "user", message: "Broken." };

describe("SegmentProgress", () => {
  test("goes on behind its own checkpoint, or else behind what an earlier run reported", () => {
    const checkpoint = { last_processed_block: 150, end_hash: "h", rows: 7, quarantined: [] };

    expect(progressOf(checkpoint, { last_processed_block: 120 }).progress.position).toBe(150);
    expect(progressOf(null, { last_processed_block: 120 }).progress.position).toBe(120);
    expect(progressOf(null).progress.position).toBe(99);
    expect(progressOf(null, { last_processed_block: 5_000 }).progress.position).toBe(99);
    expect(progressOf({ offset: 1 }, { last_processed_block: 120 }).progress.position).toBe(120);
  });

  test("I50: remembers the hash and the rows of an earlier run that it goes on behind", () => {
    const earlier = { generation: 1, end_hash: "h", rows: 7 };

    const { progress } = progressOf(null, { ...earlier, last_processed_block: 120 });
    progress.addRows(2);
    expect(progress.report(true)).toMatchObject({ end_hash: "h", rows: 9 });
    expect(progressOf(null, earlier).progress.report(true)).toMatchObject({
      end_hash: null,
      rows: 0,
    });
    const own = { last_processed_block: null, end_hash: null, rows: 0, quarantined: [] };
    const again = progressOf(own, { ...earlier, last_processed_block: 120 }).progress;
    expect(again.report(true)).toMatchObject({ end_hash: null, rows: 0 });
  });

  test("keeps what changed, once", async () => {
    const { progress, kept } = progressOf(null);
    progress.setEndHash("h");
    progress.advance(120);
    await progress.keep();
    await progress.keep();

    expect(kept).toEqual([{ last_processed_block: 120, end_hash: "h", rows: 0, quarantined: [] }]);
  });

  test("lets a run that follows come again to blocks that were passed over", () => {
    const { progress } = progressOf(null);
    progress.advance(119);
    progress.passOver(120, failure);
    progress.advance(150);

    expect(progress.report(false)).toMatchObject({ last_processed_block: 119, blocks: 51 });
    expect(progress.report(true)).toMatchObject({
      last_processed_block: 150,
      quarantined: [{ block: 120, error: failure }],
    });
  });

  test("remembers across attempts that what was stored is void", async () => {
    const { progress, kept } = progressOf(null);
    expect(progress.undo).toBe(false);
    progress.advance(150);
    progress.startOver();
    progress.advance(110);
    await progress.keep();

    const next = progressOf(kept[0] ?? null).progress;
    expect([next.position, next.undo]).toEqual([110, true]);
    expect(progressOf(null, { generation: 1 }).progress.undo).toBe(true);
  });
});

describe("Narrowing", () => {
  test("halves what failed until it stands alone, and forgets it behind that", () => {
    const narrowing = new Narrowing();
    const bad = 137;
    const asked: [number, number][] = [];
    let from = 100;
    while (from <= 199) {
      const to = narrowing.endOf(from, 199);
      asked.push([from, to]);
      const fails = from <= bad && bad <= to;
      if (fails && from === to) from++;
      else if (fails) narrowing.failed(to);
      else from = to + 1;
    }

    expect(asked).toContainEqual([bad, bad]);
    expect(asked.length).toBeLessThan(20);
    expect(asked.at(-1)?.[1]).toBe(199);
  });
});

describe("piecesBetween", () => {
  test("leaves out single blocks, also at the ends and beside each other", () => {
    expect(piecesBetween(1, 9, [])).toEqual([{ from: 1, to: 9 }]);
    expect(piecesBetween(1, 9, [1, 4, 5, 9])).toEqual([
      { from: 2, to: 3 },
      { from: 6, to: 8 },
    ]);
    expect(piecesBetween(5, 5, [5])).toEqual([]);
  });
});
