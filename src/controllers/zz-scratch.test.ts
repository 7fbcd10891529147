import { expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  seeHead,
  segmentsOf,
  strip,
  syncSpec,
  syncWorld,
} from "../../test/properties/sync-world.ts";
import { pauseSync, resumeSync } from "./change-sync.ts";
const FIXED = { to: 99, has: { head: false, hash: false, verify: true } };

test("B1", () => {
  const world = syncWorld(FIXED);
  fetchAll(world);
  world.publish(syncSpec({ to: null }));
  world.settle();
  expect(onlySync(world).state).toBe("FOLLOWING");
});
test("B2 loop", () => {
  const world = syncWorld({ to: 29, segments: { max: 1, min_size: 1 } });
  seeHead(world, 29, { safe: { block: 29, hash: "X" } });
  for (let i = 0; i < 20; i++) {
    const [held] = claimSegments(world);
    if (held === undefined) break;
    endAttempt(world, held, { segment: { end_hash: "Y" } });
  }
  console.log(world.pos, strip(world), segmentsOf(world)[0]?.generation);
});
test("B3 numbers", () => {
  const world = syncWorld({ to: 29, segments: { max: 3, min_size: 1 } }, 29);
  for (const held of claimSegments(world)) {
    endAttempt(world, held, {
      segment: {
        rows: Number.MAX_SAFE_INTEGER,
        blocks: Number.MAX_SAFE_INTEGER,
        work_ms: Number.MAX_SAFE_INTEGER,
      },
    });
  }
  const s = onlySync(world);
  console.log(s.rows_stored, s.work_blocks, s.work_ms);
  expect(Number.isSafeInteger(s.rows_stored)).toBe(true);
});
test("B4 pause loses hash and rows", () => {
  const world = syncWorld({ to: 29, segments: { max: 1, min_size: 1 } }, 29);
  const [held] = claimSegments(world);
  const { sync_id } = onlySync(world);
  world.submit(pauseSync({ sync: sync_id }));
  world.settle();
  endAttempt(world, held!, {
    outcome: "CANCELLED",
    segment: { last_processed_block: 15, end_hash: "X", rows: 100 },
  });
  world.submit(resumeSync({ sync: sync_id }));
  world.settle();
  const [again] = claimSegments(world);
  console.log(again!.segment, segmentsOf(world)[0]);
  endAttempt(world, again!, { segment: { rows: 10, end_hash: "Y" } });
  console.log(onlySync(world).rows_stored);
});
