import type {
  SegmentDocument,
  QuarantineDocument,
  SyncDocument,
} from "../../work/sync/documents.ts";
import {
  paint,
  type Terminal,
  shortId,
  layoutFields,
  layoutTable,
  paintState,
} from "../base/terminal.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { morePagesText } from "../base/api.ts";
import { PawlError } from "../../kernel/errors.ts";

/** Most cells of a strip; more segments share cells. */
export const CELLS_MAX = 365;

/** Where nobody says how wide the terminal is. */
const WIDTH_DEFAULT = 80;

type Kind = "complete" | "excluded" | "pending" | "running" | "failed" | "quarantined";

/** What can be in a cell, the worst last: told apart by shape, for those who see no colours. */
const CELLS: Readonly<Record<Kind, { shape: string; colour: Parameters<typeof paint>[1] }>> = {
  complete: { shape: "█", colour: "green" },
  excluded: { shape: "x", colour: "yellow" },
  pending: { shape: "·", colour: "dim" },
  running: { shape: "R", colour: "cyan" },
  failed: { shape: "F", colour: "red" },
  quarantined: { shape: "Q", colour: "magenta" },
};

const KINDS = Object.keys(CELLS) as Kind[];

type Cell = { kind: Kind; from: number };

/** Segments in the order of their blocks, as rows of cells that fit the terminal, and what they mean. */
export function stripText(terminal: Terminal, segments: readonly SegmentDocument[]): string {
  const cells = cellsOf(segments);
  const labelWidth = Math.max(0, ...cells.map(({ from }) => String(from).length));
  const width = Math.max(10, (terminal.stdout.columns ?? WIDTH_DEFAULT) - labelWidth - 3);
  const rows: string[] = [];
  for (let at = 0; at < cells.length; at += width) {
    const row = cells.slice(at, at + width);
    const label = String(row[0]?.from ?? "").padStart(labelWidth);
    rows.push(`${paint(terminal, "dim", label)}  ${rowText(terminal, row)}`);
  }
  return [...rows, legend(terminal, segments)].join("\n");
}

/** One cell for each segment, or for several next to each other, which shows the worst of them. */
function cellsOf(segments: readonly SegmentDocument[]): Cell[] {
  const count = Math.min(CELLS_MAX, segments.length);
  return Array.from({ length: count }, (_, at) => {
    const from = Math.floor((at * segments.length) / count);
    const to = Math.floor(((at + 1) * segments.length) / count);
    const shared = segments.slice(from, to);
    const worst = Math.max(...shared.map((segment) => KINDS.indexOf(kindOf(segment))));
    return { kind: KINDS[worst] ?? "pending", from: shared[0]?.from_block ?? 0 };
  });
}

function kindOf({ status, excluded }: SegmentDocument): Kind {
  if (excluded !== null) return "excluded";
  return status === "ABANDONED" ? "quarantined" : (status.toLowerCase() as Kind);
}

function rowText(terminal: Terminal, cells: readonly Cell[]): string {
  const runs: Cell["kind"][][] = [];
  for (const { kind } of cells) {
    const last = runs.at(-1);
    if (last?.[0] === kind) last.push(kind);
    else runs.push([kind]);
  }
  return runs.map((run) => cellText(terminal, run[0] ?? "pending", run.length)).join("");
}

function cellText(terminal: Terminal, kind: Kind, count: number): string {
  const { shape, colour } = CELLS[kind];
  return paint(terminal, colour, shape.repeat(count));
}

function legend(terminal: Terminal, segments: readonly SegmentDocument[]): string {
  const counts = KINDS.map((kind) => {
    return { kind, count: segments.filter((segment) => kindOf(segment) === kind).length };
  });
  const told = counts
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => `${cellText(terminal, kind, 1)} ${kind} ${count}`);
  const shared = Math.ceil(segments.length / CELLS_MAX);
  return told.join("   ") + (shared > 1 ? `   (a cell is up to ${shared} segments)` : "");
}

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

/** The index of a segment that a text means. Throws INPUT_INVALID. */
export function segmentIndexOf(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the index of a segment, such as 12, got ${JSON.stringify(text)}.`,
    { details: { segment: text } },
  );
}
