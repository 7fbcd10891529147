import type { AttentionDocument, AttentionKind } from "../core/api/overview-documents.ts";
import type { Instant } from "../core/instant.ts";
import { type BackfillRow, BACKFILLS } from "../core/rows/backfill-rows.ts";
import { type MoveRow, MOVES } from "../core/rows/move-rows.ts";
import { type ScheduleRow, SCHEDULES } from "../core/rows/schedule-rows.ts";
import { type SensorRow, SENSORS } from "../core/rows/sensor-rows.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { AnyTable } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import {
  because,
  changedAt,
  counted,
  namesText,
  OF_A_KIND_MAX,
  syncName,
} from "./overview-item.ts";

/** Everything that somebody or a limit has paused. */
export async function pausedThings(reader: Reader): Promise<AttentionDocument[]> {
  const paused = async <Row>(table: AnyTable): Promise<Row[]> => {
    const where = [{ cell: "state", is: "=", value: "PAUSED" }] as const;
    const order = table.key.map((cell) => ({ cell }));
    return (await reader.find({ table, where, order, limit: OF_A_KIND_MAX })) as Row[];
  };
  const items: AttentionDocument[] = [];
  const add = async (
    kind: AttentionKind,
    id: string,
    name: string,
    row: { row_version: number; reason: string | null; paused_at?: Instant | null },
    cause = "",
  ): Promise<void> => {
    const since = row.paused_at ?? (await changedAt(reader, row));
    const reason = row.reason === null ? "." : because({ class: "", message: row.reason });
    items.push({ kind, id, name, what: "paused", since, text: `It is paused${reason}${cause}` });
  };
  for (const row of await paused<BackfillRow>(BACKFILLS)) {
    await add("backfill", row.backfill_id, namesText(row.asset_selection), row, failures(row));
  }
  for (const row of await paused<ScheduleRow>(SCHEDULES)) {
    await add("schedule", row.schedule_id, row.name, row);
  }
  for (const row of await paused<SensorRow>(SENSORS)) {
    await add("sensor", row.sensor_id, row.name, row);
  }
  for (const row of await paused<SyncRow>(SYNCS)) {
    await add("sync", row.sync_id, syncName(row), row);
  }
  for (const row of await paused<MoveRow>(MOVES)) {
    // One with segments that were set aside is shown as stuck.
    if (row.segments_poisoned === 0) await add("move", row.move_id, row.name ?? row.move_id, row);
  }
  return items;
}

function failures({ partitions_failed, first_error }: BackfillRow): string {
  if (partitions_failed === 0) return "";
  return ` ${counted(partitions_failed, "partition")} failed${because(first_error)}`;
}
