import type { Client } from "../../client/client.ts";
import type { SegmentDocument, SyncDocument } from "../../work/sync/documents.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Cli } from "../cli.ts";
import { openProgress, type ProgressState } from "../base/progress.ts";
import { type Api, watchApi } from "../base/api.ts";
import { shortId, note, paintState, type Terminal } from "../base/terminal.ts";
import { countText, segmentNote, syncLabel } from "../text/sync.ts";

/** What waits for somebody to decide, and for nothing else. */
const ASIDE: ReadonlySet<string> = new Set(["QUARANTINED", "ABANDONED"]);

/** Most segments that are named when a wait ends badly. */
const NAMED_MAX = 3;

/** Shows a sync until it is whole, has caught up, or cannot go on without a person. */
export function waitForSync(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  const since = new Date(cli.terminal.now()).toISOString();
  return watched(cli, api, sync, async (client, document) => {
    if (!isSettled(document)) return false;
    if (document.state !== "FOLLOWING" || !api.isEmbedded) return true;
    // Nobody looked at the head while nothing ran, so it may have moved on.
    return document.lag_blocks === 0 && (await isLookedAt(client, document, since));
  });
}

async function isLookedAt(client: Client, sync: SyncDocument, since: string): Promise<boolean> {
  const query = { name: sync.name, limit: 200 };
  for await (const { source, looked_at } of client.each("listSyncSources", { query })) {
    if (source === sync.source) return looked_at !== null && looked_at >= since;
  }
  return true;
}

/** Shows a sync until none of its segments is to be verified any more. */
export function waitForVerified(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  return watched(cli, api, sync, (_client, document) => {
    const { verify_waiting, verify_active, state, defined } = document;
    const isOver = verify_waiting + verify_active === 0 || state === "REMOVED" || !defined;
    return Promise.resolve(isOver);
  });
}

/** Blocks of a sync, both ends included. */
export type Range = { from: number; to: number };

/** A sync, and segments of a range that are not complete. */
export type Left = { document: SyncDocument; open: SegmentDocument[] };

/** What is left of a range when nothing of it is under way: segments that are not complete. */
export async function waitForRange(
  cli: Cli,
  api: Api,
  sync: string,
  { from, to }: Range,
): Promise<Left> {
  const params = { sync };
  const range = { from_block: from, to_block: to };
  const status = "PENDING,RUNNING,FAILED,QUARANTINED,ABANDONED";
  let open: SegmentDocument[] = [];
  const document = await watched(cli, api, sync, async (client, { state }) => {
    const query = { ...range, status, limit: 200 };
    open = (await client.call("listSegments", { params, query })).items;
    return !isActing(state) || open.every((segment) => ASIDE.has(segment.status));
  });
  return { document, open };
}

function isActing(state: SyncDocument["state"]): boolean {
  return state !== "PAUSED" && state !== "REMOVED";
}

async function watched(
  cli: Cli,
  api: Api,
  sync: string,
  isOver: (client: Client, document: SyncDocument) => Promise<boolean>,
): Promise<SyncDocument> {
  const progress = openProgress(cli.terminal, "segments");
  const params = { sync };
  try {
    const look = async (client: Client) => {
      const document = await client.call("getSync", { params });
      return { document, isOver: await isOver(client, document) };
    };
    const seen = await watchApi(cli, api, look, ({ document, isOver: over }) => {
      progress.update(progressOf(document));
      return over;
    });
    return seen.document;
  } catch (error) {
    if (cli.signal.aborted) noteInterruption(cli, api, sync);
    throw error;
  } finally {
    progress.close();
  }
}

/** Whether a sync is where it should be, or waits for somebody to decide. */
function isSettled(sync: SyncDocument): boolean {
  if (["COMPLETE", "FOLLOWING", "REMOVED"].includes(sync.state)) return true;
  return isStuck(sync) || !sync.defined;
}

/** Whether all that is left was set aside. */
function isStuck(sync: SyncDocument): boolean {
  const left = sync.segments_pending + sync.segments_running + sync.segments_failed;
  return sync.segments_quarantined > 0 && left === 0;
}

function progressOf(sync: SyncDocument): ProgressState {
  const { lag_blocks: lag, state } = sync;
  const behind = lag === null || lag === 0 ? "" : `${countText(lag)} blocks behind`;
  return {
    total: sync.segments_total,
    done: sync.segments_complete,
    failed: sync.segments_failed + sync.segments_quarantined,
    ratePerSecond: sync.rate_blocks_per_second,
    etaMs: sync.eta_seconds === null ? null : sync.eta_seconds * 1_000,
    note: state === "PAUSED" ? "paused" : sync.to_block === null ? "not planned yet" : behind,
  };
}

/** Where a sync stands when nobody waits for it any more. */
export function endText(terminal: Terminal, sync: SyncDocument): string {
  const through = sync.synced_to === null ? "nothing" : `all up to ${sync.synced_to}`;
  return (
    `Sync ${syncLabel(sync)} ${paintState(terminal, sync.status)}: ${through} is synced, ` +
    `${sync.segments_complete} of ${sync.segments_total} segments, ` +
    `${countText(sync.rows_stored)} rows.`
  );
}

/** Why a sync that nobody waits for any more counts as failed; null when all is well. */
export function failureOfSync(sync: SyncDocument): PawlError | null {
  const label = syncLabel(sync);
  if (sync.state === "REMOVED") return failed(`Sync ${label} was removed.`);
  if (isStuck(sync)) {
    return failed(
      `Sync ${label} cannot go on: ${setAsideText(sync.segments_quarantined)}; ` +
        `see \`pawl sync quarantine ${shortId(sync.sync_id)}\`.`,
    );
  }
  if (sync.defined || sync.state === "COMPLETE") return null;
  return failed(`Sync ${label} stands still, because its definition is gone.`);
}

/** Why a range counts as failed of which some segments are left; null when none is. */
export function failureOfRange(left: Left | null): PawlError | null {
  if (left === null || left.open.length === 0) return null;
  const { document: sync, open } = left;
  const label = syncLabel(sync);
  if (!isActing(sync.state)) {
    return failed(`Sync ${label} is ${sync.state}: ${open.length} of the segments are left.`);
  }
  return failed(`Sync ${label}: ${setAsideText(open.length)}: ${namesOf(open)}`);
}

function setAsideText(count: number): string {
  return count === 1 ? "1 segment was set aside" : `${count} segments were set aside`;
}

/** The first of some segments and why, as the end of a sentence. */
export function namesOf(segments: readonly SegmentDocument[]): string {
  const named = segments.slice(0, NAMED_MAX).map((segment) => {
    const { segment_index: index, from_block, to_block } = segment;
    const reason = segmentNote(segment).replace(/\.$/, "");
    return `${index} (${from_block} to ${to_block})${reason === "" ? "" : `, ${reason}`}`;
  });
  return `${named.join("; ")}${segments.length > NAMED_MAX ? "; …" : ""}.`;
}

function failed(message: string): PawlError {
  return new PawlError("WORK_FAILED", message);
}

function noteInterruption(cli: Cli, api: Api, sync: string): void {
  const where = api.isEmbedded
    ? "What is stored is kept; it goes on when it is watched again, or with `pawl start`"
    : "The work goes on; see it again";
  note(cli.terminal, `Interrupted. ${where}: pawl sync watch ${sync}`);
}
