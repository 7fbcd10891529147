import { setImmediate as turnOfOthers } from "node:timers/promises";
import {
  type AssetView,
  displayStatus,
  type LookedAt,
  staleness,
} from "../controllers/partition-status.ts";
import type { PartitionDocument } from "../core/api/asset-documents.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { TaskResultField } from "../core/events/run-events.ts";
import { eachResult } from "../core/fold/repeated-entries.ts";
import type { Instant } from "../core/instant.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Reader } from "../store/store.ts";
import { resultsOf } from "./partition-maps.ts";

/** Characters of events that one list is read for its errors; of what is left, none are told. */
const ERROR_CHARACTERS_MAX = 8_000_000;

/** A partition as the API shows it; why its last attempt failed is told by `withErrors`. */
export function partitionDocument(rows: Rows, lookedAt: LookedAt, now: Instant): PartitionDocument {
  const { view, key, ordinal, row } = lookedAt;
  const stale = staleness(rows, lookedAt, now);
  return {
    asset_key: view.spec.asset_key,
    partition_key: key,
    partition_values: row?.partition_values ?? valuesOf(view, ordinal),
    ordinal,
    status: displayStatus(lookedAt, stale !== null),
    stale_reason: stale?.reason ?? null,
    stale_reason_code: stale?.reason ?? null,
    stale_since: stale?.since ?? null,
    last_materialization_run_id: row?.last_materialization_run_id ?? null,
    last_materialization_at: row?.last_materialization_at ?? null,
    last_materialization_code_version: row?.last_materialization_code_version ?? null,
    last_materialization_start_pos: row?.last_materialization_start_pos ?? null,
    metadata: row?.metadata ?? null,
    last_attempt_run_id: row?.last_attempt_run_id ?? null,
    last_attempt_at: row?.last_attempt_at ?? null,
    last_attempt_outcome: row?.last_attempt_outcome ?? null,
    last_attempt_start_pos: row?.last_attempt_start_pos ?? null,
    last_attempt_error: null,
    row_version: row?.row_version ?? null,
  };
}

function valuesOf(view: AssetView, ordinal: number | null): Record<string, string> | null {
  if (view.keyspace === null || ordinal === null) return null;
  return view.keyspace.dimensions.length > 1 ? view.keyspace.valuesAt(ordinal) : null;
}

/**
 * The partitions with why the last attempt at each failed. A row is of the event that recorded the
 * attempt, so that event is all that is read, once for all partitions that it is about.
 */
export async function withErrors(
  reader: Reader,
  partitions: readonly PartitionDocument[],
): Promise<PartitionDocument[]> {
  const failed = partitions.filter(({ last_attempt_outcome: outcome }) => outcome === "FAILED");
  const errors = new Map<PartitionDocument, PartitionDocument["last_attempt_error"]>();
  let left = ERROR_CHARACTERS_MAX;
  for (const [pos, alike] of Map.groupBy(failed, ({ row_version }) => row_version ?? 0)) {
    if (left <= 0) break;
    const [event] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
    left -= event?.data.length ?? 0;
    const found = event === undefined ? new Map<string, never>() : errorsOf(event);
    for (const each of alike) {
      errors.set(each, found.get(`${each.asset_key}\n${each.partition_key}`) ?? null);
    }
    await turnOfOthers();
  }
  return partitions.map((each) => ({ ...each, last_attempt_error: errors.get(each) ?? null }));
}

type AttemptError = NonNullable<PartitionDocument["last_attempt_error"]>;

/** Why attempts failed that an event ended, by asset and partition. */
function errorsOf(event: RecordedEvent): Map<string, AttemptError> {
  const errors = new Map<string, AttemptError>();
  for (const result of resultsOf(event).flatMap(eachResult)) {
    for (const [index, key] of result.partition_keys.entries()) {
      const error = errorAt(result, index);
      if (error === null) continue;
      const { class: name, message } = error;
      errors.set(`${result.asset_key}\n${key}`, {
        task_key: result.task_key,
        class: name,
        message,
      });
    }
  }
  return errors;
}

/** What went wrong with one partition of a task, as a whole or by itself. */
function errorAt(
  { outcome, error, exceptions }: TaskResultField,
  index: number,
): { class: string; message: string } | null {
  const own = exceptions?.find((exception) => exception.index === index);
  if (own !== undefined) return own.outcome === "FAILED" ? (own.error ?? error ?? null) : null;
  return outcome === "FAILED" ? (error ?? null) : null;
}
