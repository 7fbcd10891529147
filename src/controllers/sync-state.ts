import type { NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncState } from "../core/rows/sync-rows.ts";
import type { Context } from "./decision.ts";
import { cancelSegmentRuns } from "./segment-lookup.ts";

/** The event that moves a sync to another state. */
export function syncStateChanged(
  sync: SyncRow,
  toState: SyncState,
  said: { changedBy?: string | undefined; reason?: string | null | undefined } = {},
): NewEvent {
  const state_version = sync.state_version + 1;
  return {
    type: "SyncStateChanged",
    idempotency_key: IDEMPOTENCY_KEYS.syncState(sync.sync_id, state_version, toState),
    data: {
      sync_id: sync.sync_id,
      from_state: sync.state,
      to_state: toState,
      state_version,
      changed_by: said.changedBy ?? null,
      reason: said.reason ?? null,
    },
  };
}

/** The change back to work of a sync that was whole and is no more; nothing for others. */
export function syncReopened(sync: SyncRow, reason: string): NewEvent[] {
  const isWhole = sync.state === "COMPLETE" || sync.state === "FOLLOWING";
  return isWhole ? [syncStateChanged(sync, "RUNNING", { reason })] : [];
}

/** Whether any of its segments has a run: counted, so that nothing is looked up in vain. */
export function hasActiveRuns(sync: SyncRow): boolean {
  const { segments_queued, segments_running, segments_failed, verify_active } = sync;
  return segments_queued + segments_running + segments_failed + verify_active > 0;
}

/** Stops the runs of a sync that stands still, as many as fit; the controller goes on with the rest. */
export function stopRuns(
  rows: Rows,
  sync: SyncRow,
  isRemoved: boolean,
  context: Context,
): NewEvent[] {
  if (!hasActiveRuns(sync)) return [];
  const name = `${sync.name}@${sync.target_key}`;
  const reason = `sync ${name} was ${isRemoved ? "removed" : "paused"}`;
  return cancelSegmentRuns(rows, sync.sync_id, reason, context, { verifications: isRemoved });
}
