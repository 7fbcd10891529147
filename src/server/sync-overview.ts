import type { NameTotals, SlowSync, SyncOverview } from "../core/api/sync-overview-documents.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import {
  blocksPerSecond,
  etaSeconds,
  type KnownSync,
  knownSyncs,
  lagBlocks,
  percent,
  plannedBlocks,
} from "./sync-document.ts";

/** Syncs that are read at once, so that others get their turn in between. */
const PAGE = 1_000;

/** The slowest that are named. */
const SLOWEST_MAX = 5;

type Totals = Omit<NameTotals, "name" | "defined">;

/** All syncs together and by name, from one pass over them; their segments are not looked at. */
export async function syncOverview(reader: Reader): Promise<Omit<SyncOverview, "pos">> {
  const all = newTotals();
  const names = new Map<string, NameTotals>();
  for await (const known of everySync(reader)) {
    const { name } = known.row;
    let totals = names.get(name);
    if (totals === undefined) {
      totals = { name, defined: known.spec !== null, ...newTotals() };
      names.set(name, totals);
    }
    const slow = slowSync(known);
    count(totals, known, slow);
    count(all, known, slow);
  }
  const finished = [...names.values()].map((totals) => finish(totals));
  return { ...finish(all), names: finished };
}

const ALONG = ["name", "target_key", "sync_id"] as const;

async function* everySync(reader: Reader): AsyncGenerator<KnownSync> {
  const order = ALONG.map((cell) => ({ cell }));
  for (let last: SyncRow | undefined; ; ) {
    const where: Condition[] = [{ cell: "state", is: "<>", value: "REMOVED" }];
    if (last !== undefined) {
      where.push({ cells: ALONG, is: "after", key: [last.name, last.target_key, last.sync_id] });
    }
    const page = (await reader.find({ table: SYNCS, where, order, limit: PAGE })) as SyncRow[];
    yield* await knownSyncs(reader, page);
    last = page.at(-1);
    if (page.length < PAGE) return;
  }
}

function newTotals(): Totals {
  return {
    syncs: 0,
    syncs_by_status: { PENDING: 0, RUNNING: 0, PAUSED: 0, COMPLETE: 0, FOLLOWING: 0, FAILED: 0 },
    segments_total: 0,
    segments_pending: 0,
    segments_running: 0,
    segments_failed: 0,
    segments_complete: 0,
    segments_quarantined: 0,
    blocks_total: 0,
    blocks_complete: 0,
    progress_pct: 0,
    rows_stored: 0,
    lag_blocks_max: null,
    rate_blocks_per_second: 0,
    slowest: [],
  };
}

const SUMMED = [
  "segments_total",
  "segments_pending",
  "segments_running",
  "segments_failed",
  "segments_complete",
  "segments_quarantined",
  "blocks_complete",
  "rows_stored",
] as const;

function count(totals: Totals, known: KnownSync, slow: SlowSync | null): void {
  const { row } = known;
  if (row.status === "REMOVED") return;
  totals.syncs++;
  totals.syncs_by_status[row.status]++;
  for (const field of SUMMED) totals[field] += row[field];
  totals.blocks_total += plannedBlocks(row);
  totals.rate_blocks_per_second += blocksPerSecond(known) ?? 0;
  const lag = lagBlocks(known);
  if (lag !== null) totals.lag_blocks_max = Math.max(lag, totals.lag_blocks_max ?? 0);
  if (slow !== null) keepSlowest(totals.slowest, slow);
}

/** A sync that is behind; null for one that is not, or that nobody wants to go on. */
function slowSync(known: KnownSync): SlowSync | null {
  const { sync_id, name, target_key, status, segments_complete, segments_total } = known.row;
  const lag = lagBlocks(known) ?? 0;
  if (lag === 0 || status === "PAUSED") return null;
  return {
    sync_id,
    name,
    target_key,
    status,
    lag_blocks: lag,
    progress_pct: percent(segments_complete, segments_total),
    rate_blocks_per_second: blocksPerSecond(known),
    eta_seconds: etaSeconds(known),
  };
}

function keepSlowest(slowest: SlowSync[], slow: SlowSync): void {
  if (slowest.length === SLOWEST_MAX) {
    const last = slowest.at(-1);
    if (last !== undefined && last.lag_blocks >= slow.lag_blocks) return;
    slowest.pop();
  }
  const at = slowest.findIndex(({ lag_blocks }) => lag_blocks < slow.lag_blocks);
  slowest.splice(at < 0 ? slowest.length : at, 0, slow);
}

function finish<Some extends Totals>(totals: Some): Some {
  return {
    ...totals,
    progress_pct: percent(totals.segments_complete, totals.segments_total),
    rate_blocks_per_second: Math.round(totals.rate_blocks_per_second * 1_000) / 1_000,
  };
}
