import { setImmediate as turnOfOthers } from "node:timers/promises";
import { type AssetView, assetView, countOf } from "../../controllers/partition-status.ts";
import {
  type CollectedStale,
  collectStale,
  type CollectStaleOptions,
  type StalePlace,
} from "../../controllers/stale-partitions.ts";
import type { MapStatus, PartitionSummary } from "../../core/api/asset-documents.ts";
import type { Instant } from "../../core/instant.ts";
import {
  addStaleReasons,
  NO_STALE_REASONS,
  type StaleReasons,
} from "../../core/partitions/stale-reason.ts";
import { lookAt } from "../../engine/commit.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { CELL_STATUSES, cellOf, countCells } from "../partition-cells.ts";
import { mapsOfEngine, plainCells } from "../partition-map.ts";
import type { PartitionMaps } from "../partition-maps.ts";

/** The most partitions that are counted on a map; of more, their rows are counted. */
const MAPPED_MAX = 1_000_000;

/** Partitions that a summary looks at to say which are stale, those upstream included. */
const LOOKS_MAX = 10_000;

/** How many of them at once, so that others get their turn in between. */
const LOOKS_AT_ONCE = 1_000;

async function summarizePartitions(call: Call<"summarizePartitions">): Promise<Reply> {
  const { asset_key } = call.params;
  const maps = mapsOfEngine(call.engine);
  const now = await call.server.store.now();
  // Who waits for a position holds up nobody whose turn it is.
  await readAt(call, () => Promise.resolve());
  const { counts, pos } = await maps.inTurn(asset_key, () =>
    call.engine.read(async (reader) => {
      const view = await lookAt(reader, (rows) => assetView(rows, asset_key, { now }));
      const { pos: at } = await reader.head();
      return { counts: await countsOf(reader, maps, view, now), pos: at };
    }),
  );
  // On a later snapshot than the counts, so that nobody waits for it who wants the map: the pos is
  // the earlier one, which both have reached.
  const { reasons, isComplete } = await call.engine.read((reader) =>
    staleReasons(reader, asset_key, now),
  );
  const answer: PartitionSummary = {
    asset_key,
    ...counts,
    stale_reasons: { ...reasons, NEVER_MATERIALIZED: counts.never_materialized + counts.failed },
    stale_complete: isComplete,
    pos,
  };
  return { answer, pos };
}

const LAST_FAILED = "MATERIALIZED_LAST_ATTEMPT_FAILED";

type Counts = Pick<
  PartitionSummary,
  | "total"
  | "in_progress"
  | "never_materialized"
  | "failed"
  | "materialized_last_attempt_failed"
  | "materialized"
  | "being_remade"
>;

async function countsOf(
  reader: Reader,
  maps: PartitionMaps,
  view: AssetView,
  now: Instant,
): Promise<Counts> {
  const total = countOf(view);
  const { running, spec } = view;
  if (total > MAPPED_MAX) {
    const counts = await countCells(reader, spec.asset_key, running);
    // Most have no row: neither those that were never tried, nor those that are for the first time.
    const rest = total - running.size - countedIn(counts, ["MATERIALIZED", LAST_FAILED, "FAILED"]);
    counts[cellOf("NEVER_MATERIALIZED")] = Math.max(0, rest);
    counts[cellOf("IN_PROGRESS")] = running.size - countedIn(counts, ["BEING_REMADE"]);
    return countsIn(counts, total);
  }
  const counts = CELL_STATUSES.map(() => 0);
  for (const cell of await plainCells(reader, maps, view, { from: 0, through: total }, now)) {
    counts[cell] = (counts[cell] ?? 0) + 1;
  }
  return countsIn(counts, total);
}

function countsIn(counts: readonly number[], total: number): Counts {
  return {
    total,
    in_progress: countedIn(counts, ["IN_PROGRESS", "BEING_REMADE"]),
    never_materialized: countedIn(counts, ["NEVER_MATERIALIZED"]),
    failed: countedIn(counts, ["FAILED"]),
    materialized_last_attempt_failed: countedIn(counts, [LAST_FAILED]),
    materialized: countedIn(counts, ["MATERIALIZED", "BEING_REMADE"]),
    being_remade: countedIn(counts, ["BEING_REMADE"]),
  };
}

function countedIn(counts: readonly number[], statuses: readonly MapStatus[]): number {
  return statuses.reduce((sum, status) => sum + (counts[cellOf(status)] ?? 0), 0);
}

/** Counts what is stale by reason, as far as the looks go. */
async function staleReasons(
  reader: Reader,
  assetKey: string,
  now: Instant,
): Promise<{ reasons: StaleReasons; isComplete: boolean }> {
  let reasons = NO_STALE_REASONS;
  let from: StalePlace | null = { asset_index: 0, ordinal: 0 };
  for (let looks = LOOKS_MAX; from !== null && looks > 0; ) {
    const budget = Math.min(looks, LOOKS_AT_ONCE);
    const options: CollectStaleOptions = { budget, limit: budget, from };
    const collected: CollectedStale = await lookAt(reader, (rows) =>
      collectStale(rows, [assetKey], { now }, options),
    );
    reasons = addStaleReasons(reasons, collected.reasons);
    from = collected.next;
    looks -= Math.max(1, collected.looked);
    await turnOfOthers();
  }
  return { reasons, isComplete: from === null };
}

/** What counts partitions. */
export const PARTITION_SUMMARY_HANDLERS: {
  summarizePartitions: Handler<"summarizePartitions">;
} = { summarizePartitions };
