import type { BackfillDocument } from "../core/api/backfill-documents.ts";
import { addMs, type Instant, msBetween } from "../core/instant.ts";
import type { BackfillRow, ChunkRow } from "../core/rows/backfill-rows.ts";

/** How many of the newest finished chunks tell how fast a backfill goes. */
export const RATE_CHUNKS = 20;

/** A backfill as the API shows it; `recent` are its newest finished chunks. */
export function backfillDocument(
  row: BackfillRow,
  recent: readonly ChunkRow[],
  now: Instant,
): BackfillDocument {
  const chunks_pending =
    row.total_chunks -
    (row.chunks_planned +
      row.chunks_running +
      row.chunks_succeeded +
      row.chunks_failed +
      row.chunks_cancelled);
  const partitions_pending =
    row.partitions_total -
    (row.partitions_planned +
      row.partitions_running +
      row.partitions_succeeded +
      row.partitions_failed +
      row.partitions_cancelled);
  const rate = row.state === "RUNNING" ? rateOf(recent, now) : null;
  const left = partitions_pending + row.partitions_planned + row.partitions_running;
  const failed = row.partitions_failed > 0 || row.chunks_failed > 0;
  return {
    ...row,
    display_status: row.state === "PAUSED" && failed ? "PAUSED_WITH_FAILURES" : row.state,
    chunks_pending,
    partitions_pending,
    rate_per_second: rate,
    eta_at: rate === null ? null : etaOf(left, rate, now),
  };
}

/** Partitions a second since the oldest of the chunks was planned: pauses before it do not count. */
function rateOf(recent: readonly ChunkRow[], now: Instant): number | null {
  let since: Instant | null = null;
  let partitions = 0;
  for (const { planned_at, partitions: count } of recent) {
    if (planned_at === null) continue;
    if (since === null || planned_at < since) since = planned_at;
    partitions += count;
  }
  if (since === null) return null;
  const seconds = Math.max(0.001, msBetween(since, now) / 1_000);
  return Math.round((partitions / seconds) * 1_000) / 1_000;
}

/** A rate that would end after the year 9999 says nothing. */
function etaOf(left: number, rate: number, now: Instant): Instant | null {
  if (rate <= 0) return null;
  const ms = (left / rate) * 1_000;
  return ms > 250_000_000_000_000 ? null : addMs(now, Math.round(ms));
}
