import type {
  NameTotals,
  SlowSync,
  SyncOverview,
  SyncSourceDocument,
} from "../../work/sync/documents.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import { countText, rateText, syncLabel } from "./sync.ts";
import { layoutTable, paintState, type Terminal } from "../base/terminal.ts";

/** All syncs together, those that lag most, and what they are fetched from. */
export function overviewText(
  terminal: Terminal,
  overview: SyncOverview,
  sources: readonly SyncSourceDocument[],
): string {
  if (overview.syncs === 0) {
    return (
      "There are no syncs; `sync()` in pawl.config.ts defines one, and `pawl sync add` gives it " +
      "another target."
    );
  }
  return [
    namesTable(overview),
    ...(overview.slowest.length === 0 ? [] : [slowestTable(terminal, overview.slowest)]),
    ...(sources.length === 0 ? [] : [sourcesTable(terminal, sources)]),
  ].join("\n\n");
}

function namesTable(overview: SyncOverview): string {
  const { names, pos: _, ...totals } = overview;
  const all: NameTotals = { name: "all", defined: true, ...totals };
  const rows = names.length === 1 ? names : [...names, all];
  return layoutTable(
    [
      { heading: "SYNC" },
      { heading: "TARGETS", align: "right" },
      { heading: "STATUS" },
      { heading: "DONE", align: "right" },
      { heading: "SEGMENTS", align: "right" },
      { heading: "FAILED", align: "right" },
      { heading: "SET ASIDE", align: "right" },
      { heading: "BLOCKS", align: "right" },
      { heading: "ROWS", align: "right" },
      { heading: "LARGEST LAG", align: "right" },
      { heading: "RATE", align: "right" },
    ],
    rows.map((row) => [
      row.defined ? row.name : `${row.name} (not defined)`,
      countText(row.syncs),
      statusCounts(row),
      `${row.progress_pct.toFixed(1)}%`,
      `${countText(row.segments_complete)}/${countText(row.segments_total)}`,
      countText(row.segments_failed),
      countText(row.segments_quarantined),
      countText(row.blocks_complete),
      countText(row.rows_stored),
      row.lag_blocks_max === null ? "-" : countText(row.lag_blocks_max),
      rateText(row.rate_blocks_per_second === 0 ? null : row.rate_blocks_per_second),
    ]),
  );
}

function statusCounts({ syncs_by_status: counts }: NameTotals): string {
  const there = Object.entries(counts).filter(([, count]) => count > 0);
  return there.map(([status, count]) => `${count} ${status.toLowerCase()}`).join(", ");
}

function slowestTable(terminal: Terminal, slowest: readonly SlowSync[]): string {
  return layoutTable(
    [
      { heading: "FURTHEST BEHIND" },
      { heading: "STATUS" },
      { heading: "DONE", align: "right" },
      { heading: "LAG", align: "right" },
      { heading: "RATE", align: "right" },
      { heading: "LEFT", align: "right" },
    ],
    slowest.map((slow) => [
      syncLabel(slow),
      paintState(terminal, slow.status),
      `${slow.progress_pct.toFixed(1)}%`,
      countText(slow.lag_blocks),
      rateText(slow.rate_blocks_per_second),
      slow.eta_seconds === null ? "-" : formatDuration(slow.eta_seconds * 1_000),
    ]),
  );
}

function sourcesTable(terminal: Terminal, sources: readonly SyncSourceDocument[]): string {
  const now = terminal.now();
  return layoutTable(
    [
      { heading: "SOURCE" },
      { heading: "OF" },
      { heading: "TARGETS", align: "right" },
      { heading: "HEAD", align: "right" },
      { heading: "MOVED" },
      { heading: "LOOKED" },
      { heading: "REQUEST SIZE", align: "right" },
      { heading: "PAUSE", align: "right" },
      { heading: "WORKERS", align: "right" },
      { heading: "NOTE" },
    ],
    sources.map((source) => [
      source.source,
      source.name,
      countText(source.targets),
      source.head === null ? "-" : String(source.head),
      relativeTime(source.head_at, now),
      relativeTime(source.looked_at, now),
      source.request_size === null ? "-" : countText(source.request_size),
      source.interval_ms === 0 ? "-" : formatDuration(source.interval_ms),
      String(source.workers),
      sourceNote(source, now),
    ]),
  );
}

function sourceNote(source: SyncSourceDocument, now: number): string {
  const { failures, error, rewrites, last_rewrite: rewrite, throttled_until: until } = source;
  const isThrottled = until !== null && Date.parse(until) > now;
  const notes = [
    failures === 0 ? "" : `${failures} looks failed: ${error?.message ?? "no reason given"}`,
    rewrite === null
      ? ""
      : `${rewrites} rewrites, the last above ${rewrite.fork_block} ${relativeTime(rewrite.at, now)}`,
    isThrottled ? `nothing is asked before ${relativeTime(until, now)}` : "",
  ];
  return notes.filter((each) => each !== "").join("; ");
}
