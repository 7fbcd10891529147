import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SegmentsTransition } from "../../work/sync/api.ts";
import type { SegmentDocument, SyncDocument } from "../../work/sync/documents.ts";
import type { Cli } from "../cli.ts";
import type { Api } from "../base/api.ts";
import { shortId } from "../base/short-id.ts";
import { countText } from "../base/tables.ts";
import { waitWithProgress } from "../base/waiting.ts";
import { setAsideText, someSegments, syncLabel } from "../text/sync.ts";

/** What did not pass since it was asked for, as far as it was not fetched again. */
export async function faultsIn(
  { client }: Api,
  { sync_id, accepted_at }: SegmentsTransition,
  range: Range,
): Promise<SegmentDocument[]> {
  const query = { verification: "FAILED,ERROR", ...range, limit: 200 };
  const faults: SegmentDocument[] = [];
  for await (const segment of client.each("listSegments", { params: { sync: sync_id }, query })) {
    if ((segment.verification?.at ?? "") >= accepted_at) faults.push(segment);
  }
  return faults;
}

/** Why a verification counts as failed; null when all passed. */
export function failureOfChecks(
  sync: SyncDocument,
  faults: readonly SegmentDocument[],
): PawlError | null {
  const label = syncLabel(sync);
  if (sync.verify_waiting + sync.verify_active > 0) {
    const why = sync.state === "REMOVED" ? "was removed" : "has no definition any more";
    return failed(`Sync ${label} ${why}, so nobody verifies it.`);
  }
  if (faults.length === 0) return null;
  const count = faults.length === 1 ? "1 segment" : `${faults.length} segments`;
  return new PawlError(
    "WORK_FAILED",
    `${count} of ${label} did not pass: ${someSegments(faults)}`,
    {
      details: { segments: faults.map(({ segment_index }) => segment_index) },
    },
  );
}

/** What waits for somebody to decide, and for nothing else. */
const ASIDE: ReadonlySet<string> = new Set(["QUARANTINED", "ABANDONED"]);

/** Shows a sync until it is whole, has caught up, or cannot go on without a person. */
export function waitForSync(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  const since = new Date(cli.terminal.now()).toISOString();
  return watched(cli, api, sync, async (client, document) => {
    if (!isSettled(document)) return false;
    if (document.state !== "FOLLOWING" || !api.isEmbedded) return true;
    // Nobody polled the head while nothing ran, so it may have moved on.
    return document.lag_blocks === 0 && (await isPolled(client, document, since));
  });
}

async function isPolled(client: Client, sync: SyncDocument, since: string): Promise<boolean> {
  const query = { name: sync.name, limit: 200 };
  for await (const { source, looked_at } of client.each("listSyncSources", { query })) {
    if (source === sync.source) return looked_at !== null && looked_at >= since;
  }
  return true;
}

/** Shows a sync until none of its segments is to be verified any more. */
export function waitForVerified(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  return watched(cli, api, sync, async (_client, document) => {
    const { verify_waiting, verify_active, state, defined } = document;
    return verify_waiting + verify_active === 0 || state === "REMOVED" || !defined;
  });
}

/** Blocks of a sync, both ends included. */
type Range = { from_block: number; to_block: number };

/** A sync, and segments of a range that are not complete. */
type Left = { document: SyncDocument; open: SegmentDocument[] };

/** What is left of a range when nothing of it is under way: segments that are not complete. */
export async function waitForRange(cli: Cli, api: Api, sync: string, range: Range): Promise<Left> {
  const { from_block, to_block } = range;
  const status = "PENDING,RUNNING,FAILED,QUARANTINED,ABANDONED";
  const query = { from_block, to_block, status, limit: 200 };
  let open: SegmentDocument[] = [];
  const document = await watched(cli, api, sync, async (client, { state }) => {
    open = (await client.call("listSegments", { params: { sync }, query })).items;
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
  const { document } = await waitWithProgress(cli, api, {
    noun: "segments",
    async look(client) {
      const seen = await client.call("getSync", { params: { sync } });
      return { document: seen, isSettled: await isOver(client, seen) };
    },
    progressOf: (seen) => progressOf(seen.document),
    isSettled: (seen) => seen.isSettled,
    again: { kept: "What is stored is kept", command: `pawl sync watch ${sync}` },
  });
  return document;
}

/** Whether a sync is where it should be, or waits for somebody to decide. */
function isSettled(sync: SyncDocument): boolean {
  if (["COMPLETE", "FOLLOWING", "REMOVED"].includes(sync.state)) return true;
  return isStuck(sync) || !sync.defined;
}

/** Whether all that is left was quarantined. */
function isStuck(sync: SyncDocument): boolean {
  const left = sync.segments_pending + sync.segments_running + sync.segments_failed;
  return sync.segments_quarantined > 0 && left === 0;
}

function progressOf(sync: SyncDocument) {
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
  return failed(`Sync ${label}: ${setAsideText(open.length)}: ${someSegments(open)}`);
}

function failed(message: string): PawlError {
  return new PawlError("WORK_FAILED", message);
}
