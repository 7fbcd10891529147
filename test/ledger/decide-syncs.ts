import {
  addSync,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
} from "../../src/work/sync/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { recordHead } from "../../src/work/sync/head.ts";
import {
  excludeSyncSegment,
  repairSync,
  retrySegment,
  verifySync,
} from "../../src/work/sync/repair.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import { SyncSpec } from "../../src/work/sync/spec.ts";
import type { Deciding } from "./decide-automation.ts";

const everything = { head: true, hash: true, verify: true };
const CHAIN = SyncSpec.parse({
  kind: "sync",
  name: "chain",
  source: "{node}",
  targets: [
    { node: "one", wallet: "a" },
    { node: "one", wallet: "b,c" },
    { node: "two", wallet: "a" },
  ],
  from: 0,
  segments: { max: 6, min_size: 10 },
  finality: 2,
  max_parallel: 2,
  has: everything,
  pool: "api",
});
const PAGED = SyncSpec.parse({
  kind: "sync",
  name: "paged",
  source: "paged",
  targets: [{ topic: "ü" }],
  from: 5,
  to: 99,
  splittable: false,
  has: { head: false, hash: false, verify: false },
});

/** The syncs of the project, for who works on them. */
export const SYNC_SPECS: readonly SyncSpec[] = [CHAIN, PAGED];

/** A block that no worker of these decisions can fetch, and one whose copy is wrong at first. */
const POISON = 137;
const WRONG = 60;

/** How a worker ends a segment: mostly well, sometimes half-way, now and then not at all. */
export function segmentResult(
  { segment }: ClaimedGroup,
  ref: Pick<ReportedResult, "run_pos" | "task_key" | "attempt">,
  choose: () => number,
): ReportedResult | null {
  if (segment === undefined) return null;
  const { from_block, to_block, purpose, generation } = segment;
  const report = {
    last_processed_block: to_block,
    end_hash: segment.sync === "chain" ? `h${to_block}` : null,
    rows: to_block - from_block,
    blocks: to_block - from_block + 1,
    work_ms: 40,
    requests: 1,
    quarantined: [] as { block: number; error: { class: string; message: string } }[],
    verification: null as { ok: boolean; note: string | null } | null,
  };
  const error = { class: "user", message: "no luck" };
  if (purpose === "verify") {
    const ok = from_block > WRONG || to_block < WRONG || generation > 0;
    return {
      ...ref,
      outcome: "SUCCEEDED",
      segment: { ...report, verification: { ok, note: null } },
    };
  }
  if (choose() < 0.15) {
    const half = { ...report, last_processed_block: from_block, blocks: 1 };
    return { ...ref, outcome: "FAILED", error, segment: half };
  }
  if (choose() < 0.1) return { ...ref, outcome: "FAILED", error, released: true };
  if (from_block <= POISON && to_block >= POISON && segment.source === "one") {
    report.quarantined.push({ block: POISON, error });
  }
  return { ...ref, outcome: "SUCCEEDED", segment: report };
}

function seen(source: string, head: number, fork: number | null = null) {
  const block = head - CHAIN.finality;
  return recordHead({
    sync: "chain",
    source,
    outcome: {
      type: "seen",
      head,
      safe: { block, hash: `h${block}` },
      fork: fork === null ? null : { block: fork },
    },
  });
}

/** The index of the segment that was quarantined of a sync. */
function setAside(targetKey: string): Decide<number> {
  return (rows) => {
    const target = { cell: "target_key", is: "=", value: targetKey } as const;
    const [sync] = rows.syncs.find([target], [{ cell: "sync_id" }], 1);
    const where = [
      { cell: "sync_id", is: "=", value: sync?.sync_id ?? "" },
      { cell: "status", is: "=", value: "QUARANTINED" },
    ] as const;
    const [segment] = rows.segments.find(where, [{ cell: "from_block" }], 1);
    return { events: [], result: segment?.segment_index ?? -1 };
  };
}

/** Has syncs be planned, run, rewritten, repaired and verified in every way there is. */
export async function decideSyncs(specs: readonly Spec[], deciding: Deciding): Promise<void> {
  const { submit, pass, work } = deciding;
  const all = [...specs, ...SYNC_SPECS];
  await submit(publishDefinitions({ origin: "code", specs: all, prune: true }));
  await submit(seen("one", 200));
  await submit(seen("one", 199));
  await work(10);
  await submit(seen("two", 50));
  const target = { node: "two", wallet: "z" };
  await submit(addSync({ name: "chain", target, from_block: 20, max_parallel: 1, priority: 3 }));
  await work(40);
  for (const head of [52, 55, 59]) {
    await submit(seen("two", head));
    await work(6);
  }
  const a = "chain@node=one,wallet=a";
  await submit(pauseSync({ sync: a, reason: "wait" }));
  await pass(60_000);
  await submit(seen("one", 204));
  await submit(retuneSync({ sync: a, max_parallel: 5, priority: -2 }));
  await submit(resumeSync({ sync: a }));
  await work(60);
  await submit(seen("one", 203, 180));
  await work(3);
  await submit(repairSync({ sync: a, from_block: 20, to_block: 55, reason: "doubt" }));
  await work(60);
  const first = await submit(setAside("node=one,wallet=a"));
  await submit(retrySegment({ sync: a, segment_index: first }));
  const second = await submit(setAside("node=one,wallet=b%2Cc"));
  const b = "chain@node=one,wallet=b%2Cc";
  await submit(excludeSyncSegment({ sync: b, segment_index: second, reason: "it is elsewhere" }));
  await work(60);
  await submit(verifySync({ sync: a, from_block: 0, to_block: 120, repair: true }));
  await submit(verifySync({ sync: b, repair: false }));
  await work(60);
  const fewer = { ...CHAIN, targets: CHAIN.targets.slice(0, 1), max_parallel: 3 };
  await submit(
    publishDefinitions({ origin: "code", specs: [...specs, fewer, PAGED], prune: true }),
  );
  await submit(removeSync({ sync: "chain@node=two,wallet=z" }));
  await work(20);
}
