import type { Client } from "../../client/client.ts";
import type { BackfillDocument } from "../../work/backfill/documents.ts";
import { epochMsOf } from "../../kernel/instant.ts";
import type { Pairs } from "../../kernel/keyspace/pairs-text.ts";
import type { Cli } from "../cli.ts";
import { formatDuration } from "../base/options.ts";
import { openProgress, type Progress } from "../base/progress.ts";
import { type Api, watchApi } from "../base/api.ts";
import { shortId, note, paint, paintState, type Terminal } from "../base/terminal.ts";

/** How backfills ended that were waited for. */
export type Waited = {
  documents: BackfillDocument[];
  /** A line for each of them, for people. */
  text: string;
  /** Why the work counts as failed; null when all of it succeeded. */
  failure: string | null;
};

const TERMINAL_STATES = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

/**
 * Shows the progress of backfills until all have ended, or cannot go on without a person. When the
 * server of another command goes, this one takes over. Rejects when the command is interrupted.
 */
export async function waitForBackfills(
  cli: Cli,
  api: Api,
  ids: readonly string[],
): Promise<Waited> {
  const progress = openProgress(cli.terminal, "partitions");
  try {
    const look = (client: Client) =>
      Promise.all(
        ids.map((backfill_id) => client.call("getBackfill", { params: { backfill_id } })),
      );
    const documents = await watchApi(cli, api, look, (seen) => {
      progress.update(totalsOf(seen, cli.terminal.now()));
      return seen.every((document) => isSettled(document, seen));
    });
    return waitedOf(cli.terminal, documents);
  } catch (error) {
    if (cli.signal.aborted) noteInterruption(cli, api, ids);
    throw error;
  } finally {
    progress.close();
  }
}

/** Whether a backfill has ended, or waits for somebody to decide. */
function isSettled(document: BackfillDocument, all: readonly BackfillDocument[]): boolean {
  if (TERMINAL_STATES.has(document.state)) return true;
  if (document.state === "PAUSED" && document.failure_limit_reached) return true;
  const before = all.find(({ backfill_id }) => backfill_id === document.after_backfill_id);
  return (
    before !== undefined &&
    document.state === "PENDING" &&
    !document.continue_on_failure &&
    before.state !== "SUCCEEDED" &&
    isSettled(before, all)
  );
}

/** What the partitions of a backfill are of. */
export function pairsIn(
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

function totalsOf(
  documents: readonly BackfillDocument[],
  now: number,
): Parameters<Progress["update"]>[0] {
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
    note: documents.some(({ state }) => state === "PAUSED") ? "paused" : "",
  };
}

function waitedOf(terminal: Terminal, documents: BackfillDocument[]): Waited {
  const failed = documents.filter(({ state }) => state !== "SUCCEEDED");
  return {
    documents,
    text: documents.map((document) => endText(terminal, document)).join("\n"),
    failure: failed.length === 0 ? null : failed.map((document) => failureText(document)).join(" "),
  };
}

function endText(terminal: Terminal, document: BackfillDocument): string {
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

function failureText(document: BackfillDocument): string {
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

function noteInterruption(cli: Cli, api: Api, ids: readonly string[]): void {
  const where = api.isEmbedded
    ? "What is finished is kept; it goes on when it is watched again, or with `pawl start`"
    : "The work goes on; see it again";
  note(cli.terminal, `Interrupted. ${where}: pawl backfill watch ${shortId(ids[0] ?? "")}`);
}
