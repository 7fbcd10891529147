import type { AttentionDocument } from "../core/api/overview-documents.ts";
import { addMs, type Instant } from "../core/instant.ts";
import { isLedgerWatch } from "../core/ledger-cursor.ts";
import { type SpecRow, SPECS } from "../core/rows/definition-rows.ts";
import { type ScheduleRow, SCHEDULES } from "../core/rows/schedule-rows.ts";
import {
  SENSOR_MESSAGES,
  type SensorMessageRow,
  type SensorRow,
  SENSORS,
} from "../core/rows/sensor-rows.ts";
import type { Probe, Reader } from "../store/store.ts";
import { counted, OF_A_KIND_MAX } from "./overview-item.ts";

/** What has been due for longer than this is late. */
const LATE_MS = 60_000;

/** Schedules with a time that should have been decided by now. */
export async function lateSchedules(reader: Reader, now: Instant): Promise<AttentionDocument[]> {
  const schedules = (await reader.find({
    table: SCHEDULES,
    where: [{ cell: "due_at", is: "<", value: addMs(now, -LATE_MS) }],
    order: [{ cell: "due_at" }],
    limit: OF_A_KIND_MAX,
  })) as ScheduleRow[];
  return schedules.map(({ schedule_id, name, due_at, next_scheduled_for }) => ({
    kind: "schedule",
    id: schedule_id,
    name,
    what: "late",
    since: due_at,
    text: `Its time at ${next_scheduled_for ?? due_at ?? "unknown"} is due and nobody has decided it.`,
  }));
}

/** Sensors that should have looked by now, or whose messages wait. */
export async function lateSensors(reader: Reader, now: Instant): Promise<AttentionDocument[]> {
  const before = addMs(now, -LATE_MS);
  const looks = await overdueLooks(reader, before, now);
  const messages = await waitingMessages(reader, before);
  const ids = [...new Set([...looks.keys(), ...messages.keys()])];
  const rows = (await reader.load(
    SENSORS,
    ids.map((id) => [id]),
  )) as SensorRow[];
  const acting = rows.filter(({ state }) => state === "ACTIVE" || state === "ERROR");
  const watching = await ledgerWatchers(reader, acting);
  return acting.flatMap(({ sensor_id, name, spec_hash }): AttentionDocument[] => {
    const item = { kind: "sensor", id: sensor_id, name, what: "late" } as const;
    const waiting = messages.get(sensor_id);
    if (waiting !== undefined) {
      const { received_at: since } = waiting.oldest;
      const text = `${counted(waiting.count, "message")} of it wait to be evaluated.`;
      return [{ ...item, since, text }];
    }
    const since = looks.get(sensor_id) ?? null;
    // What watches the ledger is due all the time, and looked at when there is something.
    if (since === null || watching.has(spec_hash)) return [];
    return [{ ...item, since, text: "It is due to look and no worker has taken it up." }];
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
  const rows = (await reader.find({
    table: SENSOR_MESSAGES,
    where: [
      { cell: "state", is: "=", value: "PENDING" },
      { cell: "received_at", is: "<", value: before },
    ],
    order: [{ cell: "received_pos" }],
    limit: OF_A_KIND_MAX,
  })) as SensorMessageRow[];
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
  const specs = (await reader.load(
    SPECS,
    hashes.map((hash) => [hash]),
  )) as SpecRow[];
  const watching = specs.filter(({ body }) => body.kind === "sensor" && isLedgerWatch(body.watch));
  return new Set(watching.map(({ spec_hash }) => spec_hash));
}
