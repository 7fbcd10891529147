import type { AttentionDocument, AttentionKind } from "../../work/server-api.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { isLedgerWatch } from "../../work/sensor/ledger-watch.ts";
import { SPECS } from "../../work/definition/rows.ts";
import { SCHEDULES } from "../../work/schedule/rows.ts";
import {
  SENSOR_MESSAGES,
  type SensorMessageRow,
  type SensorRow,
  SENSORS,
} from "../../work/sensor/rows.ts";
import type { Probe, Reader } from "../../store/store.ts";
import { countedText, OF_A_KIND_MAX, because, changedAt, namesText, syncName } from "./item.ts";
import { type BackfillRow, BACKFILLS } from "../../work/backfill/rows.ts";
import { MOVES } from "../../work/move/rows.ts";
import { SYNCS } from "../../work/sync/rows.ts";
import type { AnyRow, Table } from "../../kernel/table.ts";

/** What has been due for longer than this is late. */
const LATE_MS = 60_000;

/** Schedules with a time that should have been decided by now. */
export async function lateSchedules(reader: Reader, now: Instant): Promise<AttentionDocument[]> {
  const schedules = await reader.find({
    table: SCHEDULES,
    where: [{ cell: "due_at", is: "<", value: addMs(now, -LATE_MS) }],
    order: [{ cell: "due_at" }],
    limit: OF_A_KIND_MAX,
  });
  return schedules.map(({ schedule_id, name, due_at, next_scheduled_for }) => ({
    kind: "schedule",
    id: schedule_id,
    name,
    what: "late",
    since: due_at,
    text: `The tick at ${next_scheduled_for ?? due_at ?? "unknown"} is overdue.`,
  }));
}

/** Sensors that should have looked by now, or whose messages wait. */
export async function lateSensors(reader: Reader, now: Instant): Promise<AttentionDocument[]> {
  const before = addMs(now, -LATE_MS);
  const looks = await overdueLooks(reader, before, now);
  const messages = await waitingMessages(reader, before);
  const ids = [...new Set([...looks.keys(), ...messages.keys()])];
  const rows = await reader.load(
    SENSORS,
    ids.map((id) => [id]),
  );
  const acting = rows.filter(({ state }) => state === "ACTIVE" || state === "ERROR");
  const watching = await ledgerWatchers(reader, acting);
  return acting.flatMap(({ sensor_id, name, spec_hash }): AttentionDocument[] => {
    const item = { kind: "sensor", id: sensor_id, name, what: "late" } as const;
    const waiting = messages.get(sensor_id);
    if (waiting !== undefined) {
      const { received_at: since } = waiting.oldest;
      const text = `${countedText(waiting.count, "message")} not evaluated yet.`;
      return [{ ...item, since, text }];
    }
    const since = looks.get(sensor_id) ?? null;
    // What watches the ledger is due all the time, and looked at when there is something.
    if (since === null || watching.has(spec_hash)) return [];
    return [{ ...item, since, text: "A poll is overdue: no worker has taken it." }];
  });
}

/** When sensors should have been looked for that were not, by id. */
async function overdueLooks(
  reader: Reader,
  before: Instant,
  now: Instant,
): Promise<Map<string, Instant>> {
  const probes = await reader.probesOf("poll", null, OF_A_KIND_MAX);
  const isOverdue = ({ due_at, leased_until }: Probe): boolean =>
    due_at < before && (leased_until === null || leased_until < now);
  return new Map(probes.filter(isOverdue).map(({ subject, due_at }) => [subject, due_at]));
}

type Waiting = { oldest: SensorMessageRow; count: number };

async function waitingMessages(reader: Reader, before: Instant): Promise<Map<string, Waiting>> {
  const rows = await reader.find({
    table: SENSOR_MESSAGES,
    where: [
      { cell: "state", is: "=", value: "PENDING" },
      { cell: "received_at", is: "<", value: before },
    ],
    order: [{ cell: "received_pos" }],
    limit: OF_A_KIND_MAX,
  });
  const bySensor = new Map<string, Waiting>();
  for (const row of rows) {
    const known = bySensor.get(row.sensor_id);
    bySensor.set(row.sensor_id, {
      oldest: known?.oldest ?? row,
      count: (known?.count ?? 0) + 1,
    });
  }
  return bySensor;
}

async function ledgerWatchers(
  reader: Reader,
  sensors: readonly SensorRow[],
): Promise<ReadonlySet<string>> {
  const hashes = [...new Set(sensors.map(({ spec_hash }) => spec_hash))];
  const specs = await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  );
  const watching = specs.filter(({ body }) => body.kind === "sensor" && isLedgerWatch(body.watch));
  return new Set(watching.map(({ spec_hash }) => spec_hash));
}

/** Everything that somebody or a limit has paused. */
export async function pausedThings(reader: Reader): Promise<AttentionDocument[]> {
  const paused = async <Row extends AnyRow>(table: Table<Row>): Promise<Row[]> => {
    const where = [{ cell: "state", is: "=", value: "PAUSED" }] as const;
    const order = table.key.map((cell) => ({ cell }));
    return reader.find({ table, where, order, limit: OF_A_KIND_MAX });
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
    items.push({ kind, id, name, what: "paused", since, text: `Paused${reason}${cause}` });
  };
  for (const row of await paused(BACKFILLS)) {
    await add("backfill", row.backfill_id, namesText(row.asset_selection), row, failures(row));
  }
  for (const row of await paused(SCHEDULES)) {
    await add("schedule", row.schedule_id, row.name, row);
  }
  for (const row of await paused(SENSORS)) {
    await add("sensor", row.sensor_id, row.name, row);
  }
  for (const row of await paused(SYNCS)) {
    await add("sync", row.sync_id, syncName(row), row);
  }
  for (const row of await paused(MOVES)) {
    // One with quarantined segments is shown as stuck.
    if (row.segments_poisoned === 0) await add("move", row.move_id, row.name ?? row.move_id, row);
  }
  return items;
}

function failures({ partitions_failed, first_error }: BackfillRow): string {
  if (partitions_failed === 0) return "";
  return ` ${countedText(partitions_failed, "partition")} failed${because(first_error)}`;
}
