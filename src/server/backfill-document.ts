import { type BackfillDocument, BackfillStateField } from "../core/api/backfill-documents.ts";
import type { EventData } from "../core/events/index.ts";
import { addMs, type Instant, msBetween } from "../core/instant.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { BackfillRow, ChunkRow } from "../core/rows/backfill-rows.ts";
import type { Reader } from "../store/store.ts";

/** How many of the newest finished chunks tell how fast a backfill goes. */
export const RATE_CHUNKS = 20;

/** Created, and started: a backfill with no more versions was never paused. */
const VERSIONS_UNPAUSED = 2;

/** The newest changes of a backfill that are looked through for pauses. */
const VERSIONS_MAX = 200;

/** How long a backfill was paused so far, and since when it is. */
export type Pauses = Pick<BackfillDocument, "paused_ms" | "paused_at">;

/** What is known of a backfill besides its row: its newest finished chunks, and its pauses. */
export type BackfillExtras = { recent: readonly ChunkRow[]; pauses: Pauses };

/** The pauses of a backfill, from the events that name its versions. */
export async function pausesOf(reader: Reader, row: BackfillRow): Promise<Pauses> {
  const { backfill_id, created_pos, state_version } = row;
  const pauses: Pauses = { paused_ms: 0, paused_at: null };
  if (state_version <= VERSIONS_UNPAUSED) return pauses;
  const keys: string[] = [];
  const first = Math.max(VERSIONS_UNPAUSED, state_version - VERSIONS_MAX) + 1;
  for (let version = first; version <= state_version; version++) {
    for (const state of BackfillStateField.options) {
      keys.push(IDEMPOTENCY_KEYS.backfillState(backfill_id, version, state));
    }
  }
  const subjects = [created_pos];
  const events = await reader.events({ after: created_pos, subjects, keys, limit: VERSIONS_MAX });
  for (const { data, occurred_at } of events) {
    const { to_state } = JSON.parse(data) as EventData<"BackfillStateChanged">;
    if (pauses.paused_at !== null) pauses.paused_ms += msBetween(pauses.paused_at, occurred_at);
    pauses.paused_at = to_state === "PAUSED" ? occurred_at : null;
  }
  return pauses;
}

/** A backfill as the API shows it. */
export function backfillDocument(
  row: BackfillRow,
  { recent, pauses }: BackfillExtras,
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
    failure_limit_reached: row.failure_limit_reached === 1,
    cancel_runs: row.cancel_runs === 1,
    continue_on_failure: row.continue_on_failure === 1,
    display_status: row.state === "PAUSED" && failed ? "PAUSED_WITH_FAILURES" : row.state,
    chunks_pending,
    partitions_pending,
    rate_per_second: rate,
    eta_at: rate === null ? null : etaOf(left, rate, now),
    ...pauses,
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
