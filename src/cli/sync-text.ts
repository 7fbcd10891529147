import type {
  QuarantineDocument,
  SegmentDocument,
  SyncDocument,
} from "../core/api/sync-documents.ts";
import { formatDuration, relativeTime } from "./duration.ts";
import { morePagesText } from "./page-options.ts";
import { shortId } from "./short-id.ts";
import { stripText } from "./sync-strip.ts";
import { layoutFields, layoutTable } from "./table.ts";
import { paintState, type Terminal } from "./terminal.ts";

type Page<Item> = { items: readonly Item[]; next_cursor: string | null };

/** What a sync is called: its name and its target. */
export function syncLabel({ name, target_key }: { name: string; target_key: string }): string {
  return `${name}@${target_key}`;
}

/** A count for people: `1,234,567`. */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** Blocks a second for people, with digits after the point only where they matter. */
export function rateText(rate: number | null): string {
  if (rate === null) return "-";
  return `${rate < 100 ? rate.toFixed(1) : countText(Math.round(rate))}/s`;
}

function etaText(seconds: number | null): string {
  return seconds === null ? "-" : formatDuration(seconds * 1_000);
}

/** A page of syncs. */
export function syncsText(terminal: Terminal, page: Page<SyncDocument>): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) {
    return (
      "There are no such syncs; `sync()` in pawl.config.ts defines one, and `pawl sync add` gives " +
      `it another target.${more}`
    );
  }
  const table = layoutTable(
    [
      { heading: "SYNC" },
      { heading: "STATUS" },
      { heading: "DONE", align: "right" },
      { heading: "SEGMENTS", align: "right" },
      { heading: "SYNCED TO", align: "right" },
      { heading: "LAG", align: "right" },
      { heading: "RATE", align: "right" },
      { heading: "LEFT", align: "right" },
      { heading: "TROUBLE" },
      { heading: "ID" },
    ],
    page.items.map((sync) => [
      syncLabel(sync),
      paintState(terminal, sync.status),
      `${sync.progress_pct.toFixed(1)}%`,
      `${sync.segments_complete}/${sync.segments_total}`,
      sync.synced_to === null ? "-" : String(sync.synced_to),
      sync.lag_blocks === null ? "-" : countText(sync.lag_blocks),
      rateText(sync.rate_blocks_per_second),
      etaText(sync.eta_seconds),
      troubleText(sync),
      shortId(sync.sync_id),
    ]),
  );
  return table + more;
}

function troubleText(sync: SyncDocument): string {
  const parts = [
    sync.defined ? "" : "not defined",
    sync.segments_failed === 0 ? "" : `${sync.segments_failed} failed`,
    sync.segments_quarantined === 0 ? "" : `${sync.segments_quarantined} set aside`,
  ];
  return parts.filter((part) => part !== "").join(", ") || "-";
}

const TROUBLE: ReadonlySet<string> = new Set(["FAILED", "QUARANTINED", "ABANDONED"]);

/** A sync, its segments as a strip, and those in trouble. */
export function syncText(
  terminal: Terminal,
  sync: SyncDocument,
  segments: readonly SegmentDocument[],
): string {
  const trouble = segments.filter(({ status }) => TROUBLE.has(status));
  const shown = trouble.slice(0, 10);
  const rest = trouble.length - shown.length;
  return [
    layoutFields(fieldsOf(terminal, sync)),
    ...(segments.length === 0 ? [] : [stripText(terminal, segments)]),
    ...(shown.length === 0 ? [] : [segmentsTable(terminal, shown)]),
    ...(rest === 0 ? [] : [`… and ${rest} more: pawl sync segments ${shortId(sync.sync_id)}`]),
  ].join("\n\n");
}

function fieldsOf(terminal: Terminal, sync: SyncDocument): [string, string][] {
  const now = terminal.now();
  const { reason, last_error: error, verify_waiting, verify_active } = sync;
  const verifying = verify_waiting + verify_active;
  const fields: [string, string | null][] = [
    ["sync", syncLabel(sync)],
    ["id", sync.sync_id],
    ["status", `${paintState(terminal, sync.status)} (version ${sync.state_version})`],
    ["reason", reason],
    ["definition", sync.defined ? null : "gone, so it stands still"],
    ["source", sync.source],
    ["head", headText(sync, now)],
    ["range", rangeText(sync)],
    ["synced to", syncedText(sync)],
    ["progress", progressText(sync)],
    ["segments", segmentCounts(sync)],
    ["rate", speedText(sync)],
    ["tried again", retryText(sync, now)],
    [
      "last error",
      error === null
        ? null
        : `${error.class}: ${error.message} (${relativeTime(sync.last_error_at, now)})`,
    ],
    ["verifying", verifying === 0 ? null : `${verifying} segments`],
    ["at once", `${sync.max_parallel ?? "-"} segments, priority ${sync.priority ?? "-"}`],
    [
      "added",
      `${relativeTime(sync.created_at, now)} by ${sync.origin === "code" ? "code" : "the API"}`,
    ],
    [
      sync.to_limit === null ? "caught up" : "complete",
      sync.completed_at === null ? null : relativeTime(sync.completed_at, now),
    ],
  ];
  return fields.flatMap(([name, text]) => (text === null ? [] : [[name, text]]));
}

function headText(sync: SyncDocument, now: number): string | null {
  const { head, head_at, safe_block, lag_blocks } = sync;
  // A fixed range may do without a head, and then nobody looks for one.
  if (head === null) return lag_blocks === null ? "not seen yet" : null;
  const safe = safe_block === null || safe_block === head ? "" : `, safe up to ${safe_block}`;
  return `${head} (${relativeTime(head_at, now)})${safe}`;
}

function rangeText({ from_block, to_block, to_limit, blocks_total }: SyncDocument): string {
  const end = to_limit === null ? "follows the head" : `ends at ${to_limit}`;
  if (to_block === null) return `from ${from_block}, not planned yet; ${end}`;
  return `${from_block} to ${to_block}, ${countText(blocks_total)} blocks; ${end}`;
}

function syncedText({ synced_to, lag_blocks }: SyncDocument): string {
  const behind = lag_blocks === 0 ? "nothing" : `${countText(lag_blocks ?? 0)} blocks`;
  return `${synced_to ?? "nothing yet"}${lag_blocks === null ? "" : `, ${behind} behind`}`;
}

function progressText(sync: SyncDocument): string {
  return (
    `${sync.progress_pct.toFixed(1)}% of segments (${countText(sync.segments_complete)} of ` +
    `${countText(sync.segments_total)}), ${countText(sync.blocks_complete)} of ` +
    `${countText(sync.blocks_total)} blocks, ${countText(sync.rows_stored)} rows`
  );
}

function segmentCounts(sync: SyncDocument): string {
  const counts: [number, string][] = [
    [sync.segments_pending, "pending"],
    [sync.segments_running, "running"],
    [sync.segments_failed, "failed"],
    [sync.segments_complete, "complete"],
    [sync.segments_quarantined, "quarantined"],
  ];
  const there = counts.filter(([count]) => count > 0).map(([count, name]) => `${count} ${name}`);
  return `${sync.segments_total}: ${there.join(", ") || "none"}`;
}

function speedText({
  rate_blocks_per_second: rate,
  eta_seconds: eta,
}: SyncDocument): string | null {
  if (rate === null) return null;
  return `${rateText(rate)}${eta === null ? "" : `, ${etaText(eta)} left`}`;
}

function retryText({ retry_count, next_retry_at }: SyncDocument, now: number): string | null {
  if (retry_count === 0) return null;
  const next = next_retry_at === null ? "" : `, next ${relativeTime(next_retry_at, now)}`;
  return `${retry_count} times${next}`;
}

/** A page of segments. */
export function segmentsText(terminal: Terminal, page: Page<SegmentDocument>): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) {
    return `There are no such segments; they are planned when the head is known.${more}`;
  }
  return segmentsTable(terminal, page.items) + more;
}

/** A page of segments of several syncs. */
export function listedSegmentsText(terminal: Terminal, page: Page<QuarantineDocument>): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) return `There are no such segments.${more}`;
  const now = terminal.now();
  const table = layoutTable(
    [
      { heading: "SYNC" },
      { heading: "SEGMENT", align: "right" },
      { heading: "STATUS" },
      { heading: "FROM", align: "right" },
      { heading: "TO", align: "right" },
      { heading: "DONE", align: "right" },
      { heading: "TRIED AGAIN", align: "right" },
      { heading: "UPDATED" },
      { heading: "NOTE" },
    ],
    page.items.map((segment) => [
      syncLabel(segment),
      String(segment.segment_index),
      paintState(terminal, segment.status),
      String(segment.from_block),
      String(segment.to_block),
      `${segment.progress_pct.toFixed(1)}%`,
      String(segment.retry_count),
      relativeTime(segment.updated_at, now),
      segmentNote(segment),
    ]),
  );
  return table + more;
}

function segmentsTable(terminal: Terminal, segments: readonly SegmentDocument[]): string {
  const now = terminal.now();
  return layoutTable(
    [
      { heading: "SEGMENT", align: "right" },
      { heading: "STATUS" },
      { heading: "FROM", align: "right" },
      { heading: "TO", align: "right" },
      { heading: "DONE", align: "right" },
      { heading: "ROWS", align: "right" },
      { heading: "TRIED AGAIN", align: "right" },
      { heading: "NEXT TRY" },
      { heading: "WORKER" },
      { heading: "RUN" },
      { heading: "NOTE" },
    ],
    segments.map((segment) => [
      String(segment.segment_index),
      paintState(terminal, segment.status),
      String(segment.from_block),
      String(segment.to_block),
      `${segment.progress_pct.toFixed(1)}%`,
      String(segment.rows_stored),
      String(segment.retry_count),
      relativeTime(segment.next_retry_at, now),
      segment.worker_id ?? "-",
      segment.run_id === null ? "-" : shortId(segment.run_id),
      segmentNote(segment),
    ]),
  );
}

/** What is to be known about a segment, in words. */
export function segmentNote(segment: SegmentDocument): string {
  const { verification, excluded, error_class, error_message, reason } = segment;
  const notes = [
    excluded === null ? "" : `excluded by ${excluded.by}: ${excluded.reason}`,
    error_message === null || excluded !== null ? "" : `${error_class}: ${error_message}`,
    reason === null ? "" : `again: ${reason}`,
    verification === null ? "" : verificationText(verification),
    segment.set_aside === null ? "" : `${segment.set_aside.length} blocks set aside`,
  ];
  return notes.filter((each) => each !== "").join("; ");
}

function verificationText({ status, note }: NonNullable<SegmentDocument["verification"]>): string {
  const found = note === null ? "" : ` (${note})`;
  return `verification ${status.toLowerCase()}${found}`;
}

/** A page of segments that were set aside. */
export function quarantineText(terminal: Terminal, page: Page<QuarantineDocument>): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0) return `Nothing is set aside.${more}`;
  const table = layoutTable(
    [
      { heading: "SYNC" },
      { heading: "SEGMENT", align: "right" },
      { heading: "FROM", align: "right" },
      { heading: "TO", align: "right" },
      { heading: "TRIED AGAIN", align: "right" },
      { heading: "SINCE" },
      { heading: "ERROR" },
    ],
    page.items.map((segment) => [
      syncLabel(segment),
      String(segment.segment_index),
      String(segment.from_block),
      String(segment.to_block),
      String(segment.retry_count),
      relativeTime(segment.finished_at, terminal.now()),
      `${segment.error_class}: ${segment.error_message}`,
    ]),
  );
  const advice =
    "`pawl sync retry <sync> <segment>` tries one again; `pawl sync exclude <sync> <segment> " +
    "--reason <text>` lets it stay unfetched.";
  return `${table}${more}\n\n${advice}`;
}
