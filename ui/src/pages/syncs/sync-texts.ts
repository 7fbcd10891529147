import type { SegmentDocument, SyncDocument } from "../../../../src/work/sync/documents.ts";
import { whyNot } from "../../../../src/work/command.ts";
import { SYNC_RULES } from "../../../../src/work/sync/rules.ts";
import { counted, countText, durationText, rateText } from "../../parts/time-text.ts";
import { visibleText } from "../../parts/visible-text.ts";

/** A sync as the API shows it. */
export type Sync = SyncDocument;

/** A segment as the API shows it. */
export type Segment = SegmentDocument;

/** Where a sync is shown. */
export function syncHref(syncId: string): string {
  return `/syncs/${encodeURIComponent(syncId)}`;
}

/** The version that a change is for, as requests say it. */
export function expected(version: number | undefined): { expected_state_version?: number } {
  return version === undefined ? {} : { expected_state_version: version };
}

/** Why a command about a sync makes no sense now; null when it does. */
export function whyNotSync(sync: Sync, command: keyof typeof SYNC_RULES): string | null {
  const isInCode = () => sync.origin === "code" && sync.defined;
  return whyNot(SYNC_RULES[command], sync.state, { ...sync, planned_to: sync.to_block, isInCode });
}

/** What a sync is called: its name and its target. */
export function syncLabel({ name, target_key }: { name: string; target_key: string }): string {
  return visibleText(`${name}@${target_key}`);
}

/** Whether segments of a sync are being worked on or will be by themselves. */
export function isBusy({ state, segments_running, verify_waiting, verify_active }: Sync): boolean {
  const isAtWork = state === "PENDING" || state === "RUNNING" || state === "FOLLOWING";
  return isAtWork || segments_running + verify_waiting + verify_active > 0;
}

/** How far a sync is behind what may be synced; null while that is not known. */
export function lagText({ lag_blocks: lag }: { lag_blocks: number | null }): string | null {
  if (lag === null) return null;
  return lag === 0 ? "at the head" : counted(lag, "block");
}

/** Blocks a second; null where nothing is left or nothing is known. */
export function speedText({ rate_blocks_per_second: rate }: Sync): string | null {
  return rate === null ? null : `${rateText(rate)}/s`;
}

/** How long a sync still takes; null where that is not known. */
export function leftText({ eta_seconds }: { eta_seconds: number | null }): string | null {
  return eta_seconds === null ? null : durationText(eta_seconds * 1_000);
}

/** The segments of a sync by where they stand. */
export function segmentParts(sync: Sync): { state: string; count: number }[] {
  return [
    { state: "COMPLETE", count: sync.segments_complete },
    { state: "RUNNING", count: sync.segments_running },
    { state: "FAILED", count: sync.segments_failed },
    { state: "QUARANTINED", count: sync.segments_quarantined },
  ];
}

/** Where a segment stands; one that may stay unfetched is told as such. */
export function segmentState({ status, excluded }: Segment): string {
  return excluded === null ? status : "EXCLUDED";
}

/** The blocks of a segment. */
export function rangeText({
  from_block,
  to_block,
}: {
  from_block: number;
  to_block: number;
}): string {
  return from_block === to_block
    ? `block ${countText(from_block)}`
    : `blocks ${countText(from_block)} to ${countText(to_block)}`;
}

/** What is to be known about a segment besides where it stands, in words. */
export function segmentNotes(segment: Segment): string[] {
  const { verification, excluded, error_class, error_message, reason, set_aside } = segment;
  const notes: string[] = [];
  if (excluded !== null) notes.push(`Excluded by ${excluded.by}: ${excluded.reason}`);
  else if (error_message !== null) notes.push(`${error_class}: ${error_message}`);
  if (reason !== null) notes.push(`To be fetched again: ${reason}`);
  if (verification !== null) notes.push(verificationText(verification));
  if (set_aside !== null) notes.push(`${counted(set_aside.length, "block")} quarantined so far`);
  return notes.map(visibleText);
}

const VERIFICATIONS = {
  REQUESTED: "Verification requested",
  RUNNING: "Verifying",
  PASSED: "Verified",
  FAILED: "Verification failed",
  ERROR: "Verification error",
} as const;

/** What a verification found, or how far it is. */
export function verificationText({ status, note }: NonNullable<Segment["verification"]>): string {
  return `${VERIFICATIONS[status]}${note === null ? "" : ` (${note})`}`;
}
