import { describe, expect, test } from "vitest";
import type { SyncRow, SyncSourceRow } from "../../work/sync/rows.ts";
import { SyncSpec } from "../../work/sync/spec.ts";
import {
  blocksPerSecond,
  etaSeconds,
  type KnownSync,
  lagBlocks,
  percent,
} from "./sync-documents.ts";

const SPEC = SyncSpec.parse({
  kind: "sync",
  name: "transfers",
  source: "main",
  from: 100,
  finality: 5,
  has: { head: true, hash: false, verify: false },
});

/** Half of 1,000 blocks is done, in segments of 100, one segment in a second. */
function known(row: Partial<SyncRow> = {}, spec: Partial<SyncSpec> = {}, head = 1_104): KnownSync {
  const half = {
    state: "RUNNING",
    from_block: 100,
    planned_to: 1_099,
    synced_to: 599,
    to_limit: null,
    max_parallel: null,
    segments_pending: 4,
    segments_running: 1,
    segments_failed: 0,
    segments_quarantined: 0,
    blocks_complete: 500,
    work_blocks: 500,
    work_ms: 5_000,
  };
  return {
    row: { ...half, ...row } as SyncRow,
    spec: { ...SPEC, ...spec },
    source: { head } as SyncSourceRow,
  };
}

describe("blocksPerSecond", () => {
  test("is that of the recorded work, for as many segments as can still run at once", () => {
    expect(blocksPerSecond(known())).toBe(400);
    expect(blocksPerSecond(known({ max_parallel: 2 }))).toBe(200);
    expect(blocksPerSecond(known({ segments_pending: 1 }))).toBe(200);
    expect(blocksPerSecond(known({}, { splittable: false }))).toBe(100);
  });

  test("is not known before any work, while nothing runs, and when nothing is left to run", () => {
    expect(blocksPerSecond(known({ work_blocks: 0, work_ms: 0 }))).toBe(null);
    expect(blocksPerSecond(known({ state: "PAUSED" }))).toBe(null);
    const stuck = { segments_pending: 0, segments_running: 0, segments_quarantined: 1 };
    expect(blocksPerSecond(known(stuck))).toBe(null);
    expect(blocksPerSecond({ ...known(), spec: null })).toBe(null);
  });
});

describe("etaSeconds", () => {
  test("is how long the planned blocks take at that rate", () => {
    expect(etaSeconds(known())).toBe(2);
    expect(etaSeconds(known({ max_parallel: 1 }))).toBe(5);
    expect(etaSeconds(known({ state: "PAUSED" }))).toBe(null);
  });
});

describe("lagBlocks", () => {
  test("is what may be synced beyond the complete prefix", () => {
    expect(lagBlocks(known())).toBe(500);
    expect(lagBlocks(known({ to_limit: 699 }))).toBe(100);
    expect(lagBlocks(known({ synced_to: 99 }))).toBe(1_000);
  });

  test("is never below nothing, also when the head goes back", () => {
    expect(lagBlocks(known({}, {}, 300))).toBe(0);
  });

  test("is not known before the head is, unless the range needs none", () => {
    const unseen = { ...known({ to_limit: 999 }), source: null };
    expect(lagBlocks(unseen)).toBe(null);
    const has = { head: false, hash: false, verify: false };
    expect(lagBlocks({ ...unseen, spec: { ...SPEC, has } })).toBe(400);
  });
});

describe("percent", () => {
  test("is 100 only for all of it", () => {
    expect(percent(364, 365)).toBe(99.7);
    expect(percent(9_999, 10_000)).toBe(99.9);
    expect(percent(10_000, 10_000)).toBe(100);
    expect(percent(0, 0)).toBe(0);
  });
});
