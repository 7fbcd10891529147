import type {
  NameTotals,
  QuarantineDocument,
  SegmentDocument,
  SlowSync,
  SyncDocument,
  SyncOverview,
  SyncSourceDocument,
} from "../../work/sync/documents.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { shortId } from "../base/api.ts";
import {
  type Column,
  countsText,
  counted,
  countText,
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paint,
  paintState,
  rateText,
  type Terminal,
} from "../base/terminal.ts";

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

/** What a sync is called: its name and its target. */
export function syncLabel({ name, target_key }: { name: string; target_key: string }): string {
  return `${name}@${target_key}`;
}

function etaText(seconds: number | null): string {
  return seconds === null ? "-" : formatDuration(seconds * 1_000);
}

const NO_SYNCS =
  "`sync()` in pawl.config.ts defines one, and `pawl sync add` gives it another target.";

/** A page of syncs. */
export function syncsText(terminal: Terminal, page: Page<SyncDocument>): string {
  return layoutPage(page, `There are no such syncs; ${NO_SYNCS}`, [
    ["SYNC", syncLabel],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["DONE", doneText, "right"],
    ["SEGMENTS", (sync) => `${sync.segments_complete}/${sync.segments_total}`, "right"],
    ["SYNCED TO", ({ synced_to }) => (synced_to === null ? "-" : String(synced_to)), "right"],
    ["LAG", ({ lag_blocks }) => (lag_blocks === null ? "-" : countText(lag_blocks)), "right"],
    ["RATE", (sync) => rateText(sync.rate_blocks_per_second), "right"],
    ["ETA", ({ eta_seconds }) => etaText(eta_seconds), "right"],
    ["TROUBLE", troubleText],
    ["ID", ({ sync_id }) => shortId(sync_id)],
  ]);
}

function doneText({ progress_pct }: { progress_pct: number }): string {
  return `${progress_pct.toFixed(1)}%`;
}

function troubleText(sync: SyncDocument): string {
  const parts = [
    sync.defined ? "" : "not defined",
    sync.segments_failed === 0 ? "" : `${sync.segments_failed} failed`,
    sync.segments_quarantined === 0 ? "" : `${sync.segments_quarantined} quarantined`,
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
    ...(shown.length === 0 ? [] : [layoutTable(shown, segmentColumns(terminal))]),
    ...(rest === 0 ? [] : [`… and ${rest} more: pawl sync segments ${shortId(sync.sync_id)}`]),
  ].join("\n\n");
}

function fieldsOf(terminal: Terminal, sync: SyncDocument): Field[] {
  const now = terminal.now();
  const { reason, last_error: error, verify_waiting, verify_active } = sync;
  const verifying = verify_waiting + verify_active;
  return [
    ["sync", syncLabel(sync)],
    ["id", sync.sync_id],
    ["status", `${paintState(terminal, sync.status)} (version ${sync.state_version})`],
    ["reason", reason],
    ["definition", sync.defined ? null : "gone, so it is stopped"],
    ["source", sync.source],
    ["head", headText(sync, now)],
    ["range", rangeText(sync)],
    ["synced to", syncedText(sync)],
    ["progress", progressText(sync)],
    ["segments", segmentCounts(sync)],
    ["rate", speedText(sync)],
    ["retries", retryText(sync, now)],
    [
      "last error",
      error === null ? null : `${errorText(error)} (${relativeTime(sync.last_error_at, now)})`,
    ],
    ["verifying", verifying === 0 ? null : `${verifying} segments`],
    ["concurrency", `${sync.max_parallel ?? "-"} segments, priority ${sync.priority ?? "-"}`],
    [
      "added",
      `${relativeTime(sync.created_at, now)} by ${sync.origin === "code" ? "code" : "the API"}`,
    ],
    [
      sync.to_limit === null ? "caught up" : "complete",
      sync.completed_at === null ? null : relativeTime(sync.completed_at, now),
    ],
  ];
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
  return `${from_block} to ${to_block}, ${counted(blocks_total, "block")}; ${end}`;
}

function syncedText({ synced_to, lag_blocks }: SyncDocument): string {
  const behind = lag_blocks === 0 ? "nothing" : counted(lag_blocks ?? 0, "block");
  return `${synced_to ?? "nothing yet"}${lag_blocks === null ? "" : `, ${behind} behind`}`;
}

function progressText(sync: SyncDocument): string {
  return (
    `${sync.progress_pct.toFixed(1)}% of segments (${countText(sync.segments_complete)} of ` +
    `${countText(sync.segments_total)}), ${countText(sync.blocks_complete)} of ` +
    `${counted(sync.blocks_total, "block")}, ${counted(sync.rows_stored, "row")}`
  );
}

function segmentCounts(sync: SyncDocument): string {
  const counts = countsText([
    [sync.segments_pending, "pending"],
    [sync.segments_running, "running"],
    [sync.segments_failed, "failed"],
    [sync.segments_complete, "complete"],
    [sync.segments_quarantined, "quarantined"],
  ]);
  return `${sync.segments_total}: ${counts || "none"}`;
}

function speedText({
  rate_blocks_per_second: rate,
  eta_seconds: eta,
}: SyncDocument): string | null {
  if (rate === null) return null;
  return `${rateText(rate)}${eta === null ? "" : `, ETA ${etaText(eta)}`}`;
}

function retryText({ retry_count, next_retry_at }: SyncDocument, now: number): string | null {
  if (retry_count === 0) return null;
  const next = next_retry_at === null ? "" : `, next ${relativeTime(next_retry_at, now)}`;
  return `${retry_count}${next}`;
}

/** The columns that every list of segments begins with. */
const BLOCKS: readonly Column<SegmentDocument>[] = [
  ["FROM", ({ from_block }) => String(from_block), "right"],
  ["TO", ({ to_block }) => String(to_block), "right"],
];

const INDEX: Column<SegmentDocument> = [
  "SEGMENT",
  ({ segment_index }) => String(segment_index),
  "right",
];

const RETRIES: Column<SegmentDocument> = [
  "RETRIES",
  ({ retry_count }) => String(retry_count),
  "right",
];

/** A page of segments. */
export function segmentsText(terminal: Terminal, page: Page<SegmentDocument>): string {
  const none = "There are no such segments; they are planned when the head is known.";
  return layoutPage(page, none, segmentColumns(terminal));
}

/** A page of segments of several syncs. */
export function listedSegmentsText(terminal: Terminal, page: Page<QuarantineDocument>): string {
  return layoutPage(page, "There are no such segments.", [
    ["SYNC", syncLabel],
    INDEX,
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ...BLOCKS,
    ["DONE", doneText, "right"],
    RETRIES,
    ["UPDATED", ({ updated_at }) => relativeTime(updated_at, terminal.now())],
    ["NOTE", segmentNote],
  ]);
}

function segmentColumns(terminal: Terminal): Column<SegmentDocument>[] {
  return [
    INDEX,
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ...BLOCKS,
    ["DONE", doneText, "right"],
    ["ROWS", ({ rows_stored }) => String(rows_stored), "right"],
    RETRIES,
    ["NEXT RETRY", ({ next_retry_at }) => relativeTime(next_retry_at, terminal.now())],
    ["WORKER", ({ worker_id }) => worker_id ?? "-"],
    ["RUN", ({ run_id }) => (run_id === null ? "-" : shortId(run_id))],
    ["NOTE", segmentNote],
  ];
}

/** What is to be known about a segment, in words. */
function segmentNote(segment: SegmentDocument): string {
  const { verification, excluded, error_class, error_message, reason } = segment;
  const notes = [
    excluded === null ? "" : `excluded by ${excluded.by}: ${excluded.reason}`,
    excluded === null ? segmentError(error_class, error_message) : "",
    reason === null ? "" : `again: ${reason}`,
    verification === null ? "" : verificationText(verification),
    segment.set_aside === null ? "" : `${counted(segment.set_aside.length, "block")} quarantined`,
  ];
  return notes.filter((each) => each !== "").join("; ");
}

function segmentError(kind: string | null, message: string | null): string {
  return message === null ? "" : (errorText({ class: kind ?? "unknown", message }) ?? "");
}

function verificationText({ status, note }: NonNullable<SegmentDocument["verification"]>): string {
  const found = note === null ? "" : ` (${note})`;
  return `verification ${status.toLowerCase()}${found}`;
}

/** A page of quarantined segments. */
export function quarantineText(terminal: Terminal, page: Page<QuarantineDocument>): string {
  const table = layoutPage(page, "Nothing is quarantined.", [
    ["SYNC", syncLabel],
    INDEX,
    ...BLOCKS,
    RETRIES,
    ["SINCE", ({ finished_at }) => relativeTime(finished_at, terminal.now())],
    ["ERROR", ({ error_class, error_message }) => segmentError(error_class, error_message)],
  ]);
  if (page.items.length === 0) return table;
  const advice =
    "`pawl sync retry <sync> <segment>` tries one again; `pawl sync exclude <sync> <segment> " +
    "--reason <text>` lets it stay unfetched.";
  return `${table}\n\n${advice}`;
}

/** Where a sync stands when nobody waits for it any more. */
export function syncEndText(terminal: Terminal, sync: SyncDocument): string {
  const through = sync.synced_to === null ? "nothing" : `all up to ${sync.synced_to}`;
  return (
    `Sync ${syncLabel(sync)} ${paintState(terminal, sync.status)}: ${through} is synced, ` +
    `${sync.segments_complete} of ${sync.segments_total} segments, ` +
    `${counted(sync.rows_stored, "row")}.`
  );
}

/** How many segments were quarantined. */
export function setAsideText(count: number): string {
  return count === 1 ? "1 segment was quarantined" : `${count} segments were quarantined`;
}

/** Most segments that are named when a wait ends badly. */
const NAMED_MAX = 3;

/** The first of some segments and why, as the end of a sentence. */
export function someSegments(segments: readonly SegmentDocument[]): string {
  const named = segments.slice(0, NAMED_MAX).map((segment) => {
    const { segment_index: index, from_block, to_block } = segment;
    const reason = segmentNote(segment).replace(/\.$/, "");
    return `${index} (${from_block} to ${to_block})${reason === "" ? "" : `, ${reason}`}`;
  });
  return `${named.join("; ")}${segments.length > NAMED_MAX ? "; …" : ""}.`;
}

/** All syncs together, those that lag most, and what they are fetched from. */
export function overviewText(
  terminal: Terminal,
  overview: SyncOverview,
  sources: readonly SyncSourceDocument[],
): string {
  if (overview.syncs === 0) return `There are no syncs; ${NO_SYNCS}`;
  return [
    namesTable(overview),
    ...(overview.slowest.length === 0 ? [] : [slowestTable(terminal, overview.slowest)]),
    ...(sources.length === 0 ? [] : [sourcesTable(terminal, sources)]),
  ].join("\n\n");
}

function namesTable(overview: SyncOverview): string {
  const { names, pos: _, ...totals } = overview;
  const all: NameTotals = { name: "all", defined: true, ...totals };
  return layoutTable(names.length === 1 ? names : [...names, all], [
    ["SYNC", ({ name, defined }) => (defined ? name : `${name} (not defined)`)],
    ["TARGETS", ({ syncs }) => countText(syncs), "right"],
    ["STATUS", statusCounts],
    ["DONE", doneText, "right"],
    [
      "SEGMENTS",
      (row) => `${countText(row.segments_complete)}/${countText(row.segments_total)}`,
      "right",
    ],
    ["FAILED", (row) => countText(row.segments_failed), "right"],
    ["QUARANTINED", (row) => countText(row.segments_quarantined), "right"],
    ["BLOCKS", (row) => countText(row.blocks_complete), "right"],
    ["ROWS", (row) => countText(row.rows_stored), "right"],
    [
      "LARGEST LAG",
      ({ lag_blocks_max }) => (lag_blocks_max === null ? "-" : countText(lag_blocks_max)),
      "right",
    ],
    ["RATE", (row) => rateText(row.rate_blocks_per_second || null), "right"],
  ]);
}

function statusCounts({ syncs_by_status }: NameTotals): string {
  const counts = Object.entries(syncs_by_status);
  return countsText(counts.map(([status, count]) => [count, status.toLowerCase()]));
}

function slowestTable(terminal: Terminal, slowest: readonly SlowSync[]): string {
  return layoutTable(slowest, [
    ["FURTHEST BEHIND", syncLabel],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["DONE", doneText, "right"],
    ["LAG", ({ lag_blocks }) => countText(lag_blocks), "right"],
    ["RATE", (slow) => rateText(slow.rate_blocks_per_second), "right"],
    ["ETA", ({ eta_seconds }) => etaText(eta_seconds), "right"],
  ]);
}

function sourcesTable(terminal: Terminal, sources: readonly SyncSourceDocument[]): string {
  const now = terminal.now();
  return layoutTable(sources, [
    ["SOURCE", ({ source }) => source],
    ["OF", ({ name }) => name],
    ["TARGETS", ({ targets }) => countText(targets), "right"],
    ["HEAD", ({ head }) => (head === null ? "-" : String(head)), "right"],
    ["MOVED", ({ head_at }) => relativeTime(head_at, now)],
    ["POLLED", ({ looked_at }) => relativeTime(looked_at, now)],
    [
      "REQUEST SIZE",
      ({ request_size }) => (request_size === null ? "-" : countText(request_size)),
      "right",
    ],
    [
      "PAUSE",
      ({ interval_ms }) => (interval_ms === 0 ? "-" : formatDuration(interval_ms)),
      "right",
    ],
    ["WORKERS", ({ workers }) => String(workers), "right"],
    ["NOTE", (source) => sourceNote(source, now)],
  ]);
}

function sourceNote(source: SyncSourceDocument, now: number): string {
  const { failures, error, rewrites, last_rewrite: rewrite, throttled_until: until } = source;
  const isThrottled = until !== null && Date.parse(until) > now;
  const notes = [
    failures === 0 ? "" : `${failures} polls failed: ${error?.message ?? "no reason given"}`,
    rewrite === null
      ? ""
      : `${rewrites} rewrites, the last above ${rewrite.fork_block} ${relativeTime(rewrite.at, now)}`,
    isThrottled ? `nothing is asked before ${relativeTime(until, now)}` : "",
  ];
  return notes.filter((each) => each !== "").join("; ");
}
