import { epochMsOf } from "../../kernel/instant.ts";
import { countIntervals, mergeIntervals } from "../../kernel/intervals.ts";
import { type Pairs, pairsNote, pairsText } from "../../kernel/keyspace/pairs-text.ts";
import {
  type Only,
  onlyOf,
  StaleReason,
  type StaleReasons,
} from "../../kernel/keyspace/selector.ts";
import type { BackfillPreview, CreatedBackfill } from "../../work/backfill/api.ts";
import type {
  BackfillDocument,
  ChunkDocument,
  ChunkPartitionDocument,
} from "../../work/backfill/documents.ts";
import { shortId } from "../base/api.ts";
import { formatDuration, relativeTime } from "../base/options.ts";
import {
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paint,
  paintState,
  someKeys,
  type Terminal,
} from "../base/terminal.ts";
import type { ProgressState } from "../base/waiting.ts";

/** Keys that a cell of a table shows. */
const KEYS_SHOWN = 5;

/** Says in a line or two what a request created. */
export function createdText(created: CreatedBackfill, isIdle: boolean): string {
  const lines = created.backfills.flatMap(
    ({ backfill_id, asset_selection, stale_reasons, ...made }) => [
      `Created backfill ${backfill_id}: ${asset_selection.join(", ")}, ` +
        `${sizeText({ asset_selection, ...made })}.`,
      ...(stale_reasons === null ? [] : [`Stale: ${staleReasonsText(stale_reasons)}.`]),
    ],
  );
  if (isCut(created)) {
    lines.push(
      `That is as many as --limit allows; there may be more. Ask again when it has ended.`,
    );
  }
  if (isIdle) lines.push("No server is running; it begins when one is started with `pawl start`.");
  return lines.join("\n");
}

/** Whether a search for stale partitions ended because it had found enough. */
function isCut({ selector, backfills }: Pick<BackfillPreview, "selector" | "backfills">): boolean {
  if (selector.type !== "stale") return false;
  const found = backfills.reduce((sum, { stale_reasons }) => sum + staleCount(stale_reasons), 0);
  return found >= selector.limit;
}

/** From which partition to which, where that was given. */
function rangeText({ selector }: BackfillPreview): string | null {
  return selector.type === "range" ? `${selector.start} to ${selector.end}` : null;
}

/** How many the selector names, and why not all of them are made; null when all of them are. */
function selectedText({ selector, partitions_selected, backfills }: BackfillPreview) {
  const only = onlyOf(selector);
  if (only === undefined || partitions_selected === null) return null;
  const taken = backfills.reduce((sum, { partitions_total }) => sum + partitions_total, 0);
  const left = partitions_selected - taken;
  return `${partitions_selected}, of which ${left} ${left === 1 ? "is" : "are"} ${LEFT_OUT[only]}`;
}

/** What is said of those that `--only` leaves out; what a task works on is left out, too. */
const LEFT_OUT: Readonly<Record<Only, string>> = {
  missing: "there already, or being made",
  failed: "not failed, or being made",
  missing_or_failed: "there already, or being made",
  stale: "fresh, or being made",
};

function staleText(preview: BackfillPreview): string | null {
  const { stale_reasons } = preview;
  if (stale_reasons === null) return null;
  const more = isCut(preview) ? " (as many as --limit allows; there may be more)" : "";
  return staleReasonsText(stale_reasons) + more;
}

/** What a later backfill of the same request would be. */
function thenText(next: BackfillPreview["backfills"][number]): string {
  const { asset_selection, stale_reasons } = next;
  const stale = stale_reasons === null ? "" : ` (${staleReasonsText(stale_reasons)})`;
  return `${asset_selection.join(", ")}, ${sizeText(next)}${stale}`;
}

type Size = Omit<CreatedBackfill["backfills"][number], "backfill_id" | "stale_reasons">;

/** How large a backfill is, in words. */
export function sizeText(made: Size): string {
  const chunks = `${made.total_chunks} ${made.total_chunks === 1 ? "chunk" : "chunks"}`;
  return `${pairsText(pairsIn(made))} in ${chunks}`;
}

/** What a backfill would do. */
export function previewText(preview: BackfillPreview): string {
  const { estimated_seconds: seconds, first_chunk_partitions: first, overlaps } = preview;
  return layoutFields([
    ["assets", preview.asset_selection.join(", ")],
    ["partitions", `${preview.partitions_total}${pairsNote(pairsIn(preview))}`],
    ["range", rangeText(preview)],
    ["selected", selectedText(preview)],
    ["stale", staleText(preview)],
    ["chunks", String(preview.total_chunks)],
    ...preview.backfills.slice(1).map((next): Field => ["then", thenText(next)]),
    ["runs", String(preview.estimated_runs)],
    ["starts at", preview.opens_at],
    ["first chunk", someKeys(first, KEYS_SHOWN)],
    ["estimate", seconds === null ? "no past runs to go by" : formatDuration(seconds * 1_000)],
    ["overlaps", overlaps.map(({ backfill_id }) => backfill_id).join(", ") || "none"],
    ["plan hash", preview.plan_hash],
  ]);
}

/** A page of backfills. */
export function backfillsText(terminal: Terminal, page: Page<BackfillDocument>): string {
  const now = terminal.now();
  return layoutPage(page, "There are no backfills.", [
    ["ID", ({ backfill_id }) => shortId(backfill_id)],
    ["STATE", ({ display_status }) => paintState(terminal, display_status)],
    ["ASSETS", ({ asset_selection }) => asset_selection.join(", ")],
    ["PARTITIONS", (each) => `${donePartitions(each)}/${each.partitions_total}`, "right"],
    ["FAILED", ({ partitions_failed }) => String(partitions_failed), "right"],
    [
      "CHUNKS",
      ({ chunks_succeeded, chunks_failed, total_chunks }) =>
        `${chunks_succeeded + chunks_failed}/${total_chunks}`,
      "right",
    ],
    ["CREATED", ({ created_at }) => relativeTime(created_at, now)],
    // When it came to its end, or will.
    ["DONE", (each) => doneText(each, now)],
  ]);
}

function doneText(backfill: BackfillDocument, now: number): string {
  const { finished_at, eta_at, window_changes_at } = backfill;
  if (isWaiting(backfill)) return `opens ${relativeTime(window_changes_at, now)}`;
  return relativeTime(finished_at ?? eta_at, now);
}

/** Whether it plans nothing because its time has not come. */
function isWaiting({ window_open, finished_at, state }: BackfillDocument): boolean {
  return !window_open && finished_at === null && (state === "PENDING" || state === "RUNNING");
}

/** When a backfill may plan chunks; null where that is always. */
function windowLine(backfill: BackfillDocument, now: number): string | null {
  const { start_at, window, window_changes_at: at } = backfill;
  if (start_at === null && window === null) return null;
  const parts = [
    ...(window === null ? [] : [window]),
    ...(start_at === null ? [] : [`not before ${start_at}`]),
    ...(isWaiting(backfill) ? [`opens ${at} (${relativeTime(at, now)})`] : []),
  ];
  return parts.join("; ");
}

/** A backfill and its first chunks. */
export function backfillText(
  terminal: Terminal,
  document: BackfillDocument,
  chunks: readonly ChunkDocument[],
): string {
  const now = terminal.now();
  const { stale_reasons: stale, chunk_size, followers } = document;
  const fields = layoutFields([
    ["backfill", document.backfill_id],
    [
      "state",
      `${paintState(terminal, document.display_status)} (version ${document.state_version})`,
    ],
    ["reason", document.reason],
    ["assets", document.asset_selection.join(", ")],
    ["selector", JSON.stringify(document.partition_selector)],
    ["stale were", stale === null ? null : staleReasonsText(stale)],
    ["partitions", partitionCounts(document)],
    ["chunks", chunkCounts(document)],
    [
      "plan",
      `${chunk_size} ${chunk_size === 1 ? "key" : "keys"} in a chunk, ` +
        `${document.max_concurrent_runs} at once, ${document.order}, priority ${document.priority}`,
    ],
    ["window", windowLine(document, now)],
    ["created", `${relativeTime(document.created_at, now)} by ${document.created_by}`],
    ["finished", relativeTime(document.finished_at, now)],
    ["retries", document.parent_backfill_id],
    ["after", document.after_backfill_id],
    ["then", followers.join(", ") || null],
    ["first error", errorText(document.first_error)],
  ]);
  if (chunks.length === 0) return fields;
  return `${fields}\n\n${chunksText(terminal, chunks, document.total_chunks)}`;
}

function partitionCounts(document: BackfillDocument): string {
  return countsOf(`${document.partitions_total}${pairsNote(pairsIn(document))}`, [
    [`${document.partitions_pending} pending`, document.partitions_pending],
    [`${document.partitions_planned} planned`, document.partitions_planned],
    [`${document.partitions_running} running`, document.partitions_running],
    [succeededText(document), document.partitions_succeeded],
    [`${document.partitions_failed} failed`, document.partitions_failed],
    [`${document.partitions_cancelled} cancelled`, document.partitions_cancelled],
  ]);
}

function chunkCounts(document: BackfillDocument): string {
  return countsOf(String(document.total_chunks), [
    [`${document.chunks_pending} pending`, document.chunks_pending],
    [`${document.chunks_planned} planned`, document.chunks_planned],
    [`${document.chunks_running} running`, document.chunks_running],
    [`${document.chunks_succeeded} succeeded`, document.chunks_succeeded],
    [`${document.chunks_failed} failed`, document.chunks_failed],
    [`${document.chunks_cancelled} cancelled`, document.chunks_cancelled],
  ]);
}

function countsOf(total: string, counts: readonly (readonly [string, number])[]): string {
  const shown = counts.filter(([, count]) => count > 0);
  return `${total}: ${shown.map(([text]) => text).join(", ") || "none"}`;
}

function chunksText(terminal: Terminal, chunks: readonly ChunkDocument[], total: number): string {
  const table = layoutTable(chunks, [
    ["CHUNK", ({ chunk_index }) => String(chunk_index), "right"],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["FIRST", ({ first_partition_key }) => first_partition_key ?? "-"],
    ["LAST", ({ last_partition_key }) => last_partition_key ?? "-"],
    ["PARTITIONS", ({ partitions }) => String(partitions), "right"],
    ["RUN", ({ run_id }) => (run_id === null ? "-" : shortId(run_id))],
    ["FINISHED", ({ finished_at }) => relativeTime(finished_at, terminal.now())],
  ]);
  const rest = total - chunks.length;
  return rest > 0 ? `${table}\n… and ${rest} more` : table;
}

/** A page of chunks with their keys. */
export function chunkKeysText(terminal: Terminal, page: Page<ChunkDocument>): string {
  return layoutPage(page, "There are no such chunks.", [
    ["CHUNK", ({ chunk_index }) => String(chunk_index), "right"],
    ["STATE", ({ state }) => paintState(terminal, state)],
    ["PARTITIONS", (chunk) => keysText(chunk.partition_keys, chunk.partition_count)],
    ["FAILED", (chunk) => keysText(chunk.failed_partition_keys, failedCount(chunk))],
    ["RUN KEY", ({ run_key }) => run_key],
  ]);
}

function keysText(keys: readonly string[], count: number): string {
  return someKeys(keys, KEYS_SHOWN, count) || "-";
}

/** How many keys of a chunk an asset failed of. */
function failedCount({ failed }: ChunkDocument): number {
  const intervals = (failed ?? []).flatMap(({ ordinals }) => ordinals);
  return countIntervals(mergeIntervals(intervals));
}

/** A page of the keys of a chunk, and what became of them. */
export function partitionsText(page: Page<ChunkPartitionDocument>): string {
  return layoutPage(page, "There are no such partitions.", [
    ["PARTITION", ({ partition_key }) => partition_key],
    ["FAILED", ({ failed }) => failed.join(", ") || "-"],
    ["CANCELLED", ({ cancelled }) => cancelled.join(", ") || "-"],
    ["SKIPPED", ({ skipped }) => skipped.join(", ") || "-"],
  ]);
}

/** What the partitions of a backfill are of. */
function pairsIn(
  made: Pick<BackfillDocument, "asset_selection" | "total_partitions" | "partitions_total">,
): Pairs {
  const { asset_selection, total_partitions: keys, partitions_total: pairs } = made;
  return { pairs, keys, assets: asset_selection.length };
}

/**
 * How many pairs of asset and partition were worked through; skipped ones are among the succeeded.
 * What was cancelled was not.
 */
export function donePartitions(document: BackfillDocument): number {
  return document.partitions_succeeded + document.partitions_failed;
}

/** How many succeeded, and how many of those had nothing to do: `4 succeeded (1 skipped)`. */
export function succeededText(document: BackfillDocument): string {
  const { partitions_succeeded: succeeded, partitions_skipped: skipped } = document;
  return `${succeeded} succeeded${skipped === 0 ? "" : ` (${skipped} skipped)`}`;
}

/** How far some backfills are together. */
export function totalsOf(documents: readonly BackfillDocument[], now: number): ProgressState {
  const sum = (pick: (document: BackfillDocument) => number): number =>
    documents.reduce((total, document) => total + pick(document), 0);
  const rates = documents.flatMap(({ rate_per_second: rate }) => (rate === null ? [] : [rate]));
  const etas = documents.flatMap(({ eta_at: eta }) => (eta === null ? [] : [epochMsOf(eta) - now]));
  return {
    total: sum((document) => document.partitions_total),
    done: sum(donePartitions),
    failed: sum((document) => document.partitions_failed),
    ratePerSecond: rates.length === 0 ? null : rates.reduce((total, rate) => total + rate, 0),
    etaMs: etas.length === 0 ? null : Math.max(0, ...etas),
    note: documents.flatMap(pausedText).join("; "),
  };
}

/** Why a backfill does not go on, and what lets it, where somebody has paused it. */
function pausedText({ state, backfill_id, reason }: BackfillDocument): string[] {
  if (state !== "PAUSED") return [];
  const id = shortId(backfill_id);
  const why = reason === null ? "" : ` (${reason})`;
  return [`${id} is paused${why}, until \`pawl backfill resume ${id}\``];
}

/** How a backfill ended, in a line. */
export function endText(terminal: Terminal, document: BackfillDocument): string {
  const { created_at, finished_at, started_at, paused_ms, partitions_total } = document;
  const ms =
    finished_at === null
      ? 0
      : epochMsOf(finished_at) - epochMsOf(started_at ?? created_at) - paused_ms;
  const counts: [string, number][] = [
    [succeededText(document), document.partitions_succeeded],
    [`${document.partitions_failed} failed`, document.partitions_failed],
    [`${document.partitions_cancelled} cancelled`, document.partitions_cancelled],
  ];
  const settled = counts.filter(([, count]) => count > 0);
  const what = settled.map(([text]) => text).join(", ") || "nothing done";
  const rate = ms > 0 ? ` (${(document.partitions_succeeded / (ms / 1_000)).toFixed(1)}/s)` : "";
  const length = finished_at === null ? "" : ` in ${formatDuration(ms)}${rate}`;
  const state = paintState(terminal, document.display_status);
  const id = paint(terminal, "bold", document.backfill_id);
  const noun = partitions_total === 1 ? "partition" : "partitions";
  return `Backfill ${id} ${state}: ${what} of ${partitions_total} ${noun}${length}.`;
}

/** Why a backfill that did not succeed counts as failed. */
export function failureText(document: BackfillDocument): string {
  const {
    state,
    partitions_failed: failed,
    partitions_total: total,
    first_error: error,
  } = document;
  const id = shortId(document.backfill_id);
  const first = error === null ? "" : ` The first error: ${error.message.replace(/\.$/, "")}.`;
  if (state === "PAUSED")
    return `Backfill ${id} was paused: ${document.reason ?? "failures"}.${first}`;
  if (state === "PENDING") return `Backfill ${id} did not start, because the one before it failed.`;
  if (state === "CANCELLED") return `Backfill ${id} was cancelled.${first}`;
  return `Backfill ${id} failed: ${failed} of ${total} ${total === 1 ? "partition" : "partitions"}.${first}`;
}

/** How many partitions are stale, for whatever reason. */
export function staleCount(reasons: StaleReasons | null): number {
  return reasons === null ? 0 : StaleReason.options.reduce((sum, each) => sum + reasons[each], 0);
}

/**
 * Says for which reasons how many partitions are stale. Of those that were never materialized, the
 * ones that failed are called that where it is known, as wherever they are counted.
 */
export function staleReasonsText(reasons: StaleReasons, failed = 0): string {
  const parts = StaleReason.options.flatMap((reason): [number, string][] =>
    reason === "NEVER_MATERIALIZED"
      ? [
          [reasons[reason] - failed, wordsOf(reason)],
          [failed, "failed"],
        ]
      : [[reasons[reason], wordsOf(reason)]],
  );
  const texts = parts.filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`);
  return texts.length === 0 ? "none" : texts.join(", ");
}

/** A reason as a person says it. */
function wordsOf(reason: StaleReason): string {
  return reason === "FRESHNESS_POLICY" ? "out of date" : reason.toLowerCase().replaceAll("_", " ");
}
