import type { Decide } from "../../src/work/decision.ts";
import {
  cancelMove,
  excludeSegment,
  pauseMove,
  planMove,
  recopySegment,
  resumeMove,
  retrySegments,
  retuneMove,
  startMove,
  verifyMove,
} from "../../src/work/move/commands.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { MovePlan, MoveSpec } from "../../src/work/move/spec.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import type { MoveSegmentState } from "../../src/work/move/rows.ts";
import { ShardsSpec } from "../../src/work/shard/spec.ts";
import type { ClaimedMove, MoveReport } from "../../src/work/shard/step-protocol.ts";
import type { Deciding } from "./decide-automation.ts";

const SHARDS = ShardsSpec.parse({
  kind: "shards",
  name: "shards",
  shards: ["s1", "s2", "s3"].map((shard) => ({ shard, engine: "postgres" })),
  tables: [
    { table: "customers", shard_by: "tenant" },
    { table: "public.orders", shard_by: "tenant" },
  ],
  code_version: "3",
});

const REBALANCE = MoveSpec.parse({
  kind: "move",
  name: "rebalance",
  from: { by: "hash", buckets: ["s1", "s2"] },
  to: { by: "hash", buckets: ["s1", "s3", "s1", "s2"] },
  strategy: { type: "adaptive", rows: 1_000 },
  segment_concurrency: 3,
  segment_attempts: 2,
  retry_budget: 25,
});

const EVACUATE = MovePlan.parse({
  from: { by: "tenant", tenants: { "a b": "s3", ü: "s3" }, default: "s1" },
  to: {
    by: "range",
    ranges: [
      { below: "m", shard: "s1" },
      { below: null, shard: "s2" },
    ],
  },
  tables: ["customers"],
  keep_source: true,
});

/** The shards of the project, for who works on them. */
export const SHARD_NAMES: readonly string[] = SHARDS.shards.map(({ shard }) => shard);

/** A key from which on copies mostly fail, and one whose rows change after they were copied. */
const POISON = "4000";
const CHANGED = "2000";

/** How a worker ends a step of a move: mostly well, sometimes half-way, now and then not at all. */
export function stepResult(
  { step }: ClaimedGroup,
  ref: Pick<ReportedResult, "run_pos" | "task_key" | "attempt">,
  choose: () => number,
): ReportedResult | null {
  if (step?.work !== "move") return null;
  const error = { class: "user", message: "no luck" };
  const done = (report: MoveReport): ReportedResult => ({
    ...ref,
    outcome: "SUCCEEDED",
    step: { work: "move", ...report },
  });
  if (choose() < 0.1) {
    const half: MoveReport = { rows: 10, bytes: 100, work_ms: 5, cursor: ["17"] };
    return { ...ref, outcome: "FAILED", error, step: { work: "move", ...half } };
  }
  if (choose() < 0.05) return { ...ref, outcome: "FAILED", error, released: true };
  const isPoison = step.step === "copy" && step.lower?.[0] === POISON && step.generation < 1;
  if (isPoison && choose() < 0.6) {
    return { ...ref, outcome: "FAILED", error, final: true };
  }
  return done(reportOf(step, choose));
}

function reportOf(step: ClaimedMove, choose: () => number): MoveReport {
  switch (step.step) {
    case "survey":
      return surveyed(step);
    case "copy": {
      const copied = { rows: 1_000, bytes: 9_000, work_ms: 70, position: "7:7:", cursor: ["9"] };
      const isSplit = step.upper !== null && choose() < 0.1;
      const splitAt = isSplit ? [`${step.upper?.[0]}-`] : undefined;
      return {
        ...copied,
        digest: `d${step.index}.${step.generation}`,
        equal: choose() > 0.05,
        note: null,
        ...(splitAt === undefined ? {} : { split_at: splitAt }),
      };
    }
    case "verify":
      return { equal: choose() > 0.2, note: null, rows: 1_000, digest: "d" };
    case "remove": {
      if (step.digest === null) return { rows_removed: 3 };
      const isChanged = step.lower?.[0] === CHANGED && step.generation === 0;
      return { equal: !isChanged, rows_removed: isChanged ? 0 : 1_000, note: null };
    }
    case "check": {
      // Before the first copy it mostly finds nothing.
      const isGood = choose() > (step.lanes === undefined ? 0.3 : 0.1);
      return { equal: isGood, misplaced: [], excepted: 1, note: "a look" };
    }
  }
}

/** Two pages of three segments each, in every lane. */
function surveyed({ lower }: ClaimedMove): MoveReport {
  const first = lower === null ? 1 : 4;
  const bounds = [0, 1, 2].map((place) => ({ upper: [`${(first + place) * 1_000}`], rows: 1_000 }));
  if (lower === null) return { bounds, sealed: false };
  return { bounds: [...bounds.slice(0, 2), { upper: null, rows: 12 }], sealed: true };
}

/** The index of the first segment of a move in a state; -1 when there is none. */
function segmentIn(move: string, state: MoveSegmentState): Decide<number> {
  return (rows) => {
    const where = [
      { cell: "move_id", is: "=", value: move },
      { cell: "state", is: "=", value: state },
      { cell: "run_pos", is: "null" },
    ] as const;
    const order = [{ cell: "table_order" }, { cell: "segment_index" }];
    const [segment] = rows.moveSegments.find(where, order, 1);
    return { events: [], result: segment?.segment_index ?? -1 };
  };
}

/** Has moves be planned, run, quarantined, copied again, compared and cancelled in every way there is. */
export async function decideMoves(specs: readonly Spec[], deciding: Deciding): Promise<void> {
  const { submit, pass, work } = deciding;
  const all = [...specs, SHARDS, REBALANCE];
  await submit(publishDefinitions({ origin: "code", specs: all, prune: true }));
  const dry = await submit(planMove({ plan: EVACUATE }, true));
  const { move_id: move } = await submit(planMove({ move: "rebalance" }));
  await work(8);
  await submit(cancelMove({ move: dry.move_id, reason: "seen enough" }));
  await submit(startMove({ move }));
  await work(6);
  // A look may have paused it before.
  await submit(pauseMove({ move, reason: "wait" })).catch(() => undefined);
  await work(3);
  await submit(retuneMove({ move, segment_concurrency: 5, rows_per_second: 5_000 }));
  await submit(resumeMove({ move }));
  await work(12);
  await submit(verifyMove({ move })).catch(() => undefined);
  for (const state of ["POISONED", "COPIED"] as const) {
    const segment_index = await submit(segmentIn(move, state));
    await submit(recopySegment({ move, segment_index, reason: "doubt" })).catch(() => undefined);
  }
  const segment_index = await submit(segmentIn(move, "POISONED"));
  const reason = "it is elsewhere";
  await submit(excludeSegment({ move, segment_index, reason })).catch(() => undefined);
  const kept = await submit(planMove({ plan: EVACUATE }));
  for (let turn = 0; turn < 8; turn++) {
    await work(30);
    await submit(retrySegments({ move, segment_index: null })).catch(() => undefined);
    await submit(resumeMove({ move })).catch(() => undefined);
    await pass(60_000);
  }
  await submit(startMove({ move: kept.move_id })).catch(() => undefined);
  for (let turn = 0; turn < 3; turn++) {
    await work(30);
    await submit(retrySegments({ move: kept.move_id, segment_index: null })).catch(() => undefined);
    await submit(resumeMove({ move: kept.move_id })).catch(() => undefined);
  }
  await submit(verifyMove({ move: kept.move_id })).catch(() => undefined);
  await work(20);
  // Whatever is decided next may want the same tenants.
  for (const { move_id } of [{ move_id: move }, kept]) {
    await submit(cancelMove({ move: move_id })).catch(() => undefined);
  }
  await work(10);
}
