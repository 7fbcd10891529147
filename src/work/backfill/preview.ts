import { present } from "../../kernel/errors.ts";
import { msBetween } from "../../kernel/instant.ts";
import { expandIntervals, type Interval } from "../../kernel/intervals.ts";
import type { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { Rows } from "../rows.ts";
import { CONFIG_LENGTH_SHARED_MAX } from "../definition/spec.ts";
import { pairsOf } from "./plan.ts";
import {
  chunksOf,
  type CreateBackfillInput,
  type MadeBackfill,
  planHashOf,
  refuseLargeChunks,
} from "./create.ts";
import type { Decide } from "../decision.ts";
import { findOverlaps, type Overlap } from "./overlaps.ts";
import { refuseLongOptions } from "../run/request.ts";
import { type BackfillTarget, resolveTargets } from "./targets.ts";
import type { StaleSurvey } from "../asset/stale.ts";

/** What a backfill would be. */
export type PreviewedBackfill = {
  asset_selection: string[];
  selector: Selector;
  total_partitions: number;
  partitions_total: number;
  total_chunks: number;
  stale_reasons: StaleReasons | null;
  estimated_runs: number;
  first_chunk_partitions: string[];
  overlaps: Overlap[];
  estimated_seconds: number | null;
  plan_hash: string;
  backfills: Omit<MadeBackfill, "backfill_id">[];
};

/** How many past runs an estimate looks at. */
const PAST_RUNS_READ = 200;

/** Shows what a backfill would do; records nothing. */
export function previewBackfill(
  input: CreateBackfillInput,
  stale?: StaleSurvey,
): Decide<PreviewedBackfill> {
  return (rows, context) => {
    refuseLongOptions(input, CONFIG_LENGTH_SHARED_MAX);
    const targets = resolveTargets(rows, input, context, stale);
    for (const target of targets) refuseLargeChunks(input, target, context);
    const backfills = targets.map((target) => ({
      asset_selection: target.assets.map(({ spec }) => spec.asset_key),
      total_partitions: target.total_partitions,
      partitions_total: target.total_pairs,
      total_chunks: chunksOf(input, target),
      stale_reasons: target.stale_reasons,
    }));
    const first = present(backfills[0], "a request has a target");
    const target = present(targets[0], "a request has a target");
    const result: PreviewedBackfill = {
      ...first,
      selector: target.selector,
      estimated_runs: backfills.reduce((sum, { total_chunks }) => sum + total_chunks, 0),
      first_chunk_partitions: firstChunk(input, target),
      overlaps: findOverlaps(rows, targets),
      estimated_seconds: estimatedSeconds(rows, input, targets),
      plan_hash: planHashOf(input, targets, context),
      backfills,
    };
    return { events: [], result };
  };
}

function firstChunk(input: CreateBackfillInput, target: BackfillTarget): string[] {
  if (target.partitions === null) return [];
  const { keyspace } = target.partitions;
  const count = Math.min(input.chunk_size, target.total_partitions);
  const start = input.order === "ascending" ? 0 : target.total_partitions - count;
  const parts = (target.parts ?? []).map(({ from, to }): Interval => [from, to]);
  return keyspace.keysAt(
    target.selection?.ordinals(start, count) ?? expandIntervals(parts, start, count),
  );
}

/** From the pace of past runs of the same assets; null when there are none. */
function estimatedSeconds(
  rows: Rows,
  input: CreateBackfillInput,
  targets: readonly BackfillTarget[],
): number | null {
  const past = rows.runs.find(
    [{ cell: "state", is: "=", value: "SUCCEEDED" }],
    [{ cell: "run_pos", descending: true }],
    PAST_RUNS_READ,
  );
  let seconds = 0;
  for (const target of targets) {
    const keys = new Set(target.assets.map(({ spec }) => spec.asset_key));
    let ms = 0;
    let pairs = 0;
    for (const run of past) {
      if (run.started_at === null || run.finished_at === null) continue;
      if (!run.asset_selection.some((key) => keys.has(key))) continue;
      ms += msBetween(run.started_at, run.finished_at);
      const count = run.partition_keys?.length ?? 1;
      pairs += pairsOf([{ from: 1, to: count }], run.asset_selection.length);
    }
    if (pairs === 0) return null;
    seconds += (target.total_pairs * ms) / pairs / input.max_concurrent_runs / 1000;
  }
  return Math.round(seconds * 10) / 10;
}
