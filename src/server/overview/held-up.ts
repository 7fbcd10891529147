import { addMs, type Instant } from "../../kernel/instant.ts";
import type { AnyRow, Condition, Table } from "../../kernel/table.ts";
import type { Probe, Reader } from "../../store/store.ts";
import { BACKFILLS, type BackfillRow } from "../../work/backfill/rows.ts";
import { SPECS } from "../../work/definition/rows.ts";
import { MOVE_SEGMENTS, MOVES, OPEN_MOVES } from "../../work/move/rows.ts";
import { RUN_ASSETS, RUNS } from "../../work/run/rows.ts";
import { SCHEDULES } from "../../work/schedule/rows.ts";
import { isLedgerWatch } from "../../work/sensor/poll.ts";
import {
  SENSOR_MESSAGES,
  SENSORS,
  type SensorMessageRow,
  type SensorRow,
} from "../../work/sensor/rows.ts";
import {
  type AttentionDocument,
  type AttentionKind,
  AttentionKind as Kinds,
} from "../../work/server-api.ts";
import { SEGMENTS, SYNCS } from "../../work/sync/rows.ts";
import { because, changedAt, countedText, namesText, OF_A_KIND_MAX, syncName } from "./item.ts";

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

/** A worker has this long to come for work before it is missed. */
const MISSED_MS = 10_000;

const READY: Condition = { cell: "ready", is: ">", value: 0 };

/** Work that is ready and that no worker with its function has asked for lately. */
export async function missingWorkers(
  reader: Reader,
  claimed: ReadonlySet<string>,
  now: Instant,
): Promise<AttentionDocument[]> {
  const waiting = new Map<string, number>();
  for (const { values, count } of await reader.countBy(
    RUN_ASSETS,
    [READY],
    ["asset_key", "ready"],
  )) {
    const name = String(values["asset_key"]);
    if (claimed.has(name)) continue;
    waiting.set(name, (waiting.get(name) ?? 0) + Number(values["ready"]) * count);
  }
  const items: AttentionDocument[] = [];
  for (const [name, tasks] of [...waiting].slice(0, OF_A_KIND_MAX)) {
    const since = await waitingSince(reader, name);
    if (since === null || since > addMs(now, -MISSED_MS)) continue;
    const wait = tasks === 1 ? "waits" : "wait";
    items.push({
      kind: "worker",
      id: name,
      name,
      what: "stuck",
      since,
      text:
        `${countedText(tasks, "task")} ${wait} for a worker: none with the function of ${name} has polled ` +
        "in the last minute.",
    });
  }
  return items;
}

async function waitingSince(reader: Reader, assetKey: string): Promise<Instant | null> {
  const [first] = await reader.find({
    table: RUN_ASSETS,
    where: [READY, { cell: "asset_key", is: "=", value: assetKey }],
    order: [{ cell: "run_pos" }],
    limit: 1,
  });
  if (first === undefined) return null;
  const [run] = await reader.load(RUNS, [[first.run_pos]]);
  return run?.requested_at ?? null;
}

/** Syncs with quarantined segments, which wait for somebody to decide. */
export async function quarantinedSyncs(reader: Reader): Promise<AttentionDocument[]> {
  const where: Condition[] = [
    { cell: "status", is: "=", value: "QUARANTINED" },
    { cell: "excluded", is: "null" },
  ];
  const groups = await reader.countBy(SEGMENTS, where, ["sync_id"]);
  const counts = new Map(
    groups
      .slice(0, OF_A_KIND_MAX)
      .map(({ values, count }): [string, number] => [String(values["sync_id"]), count]),
  );
  const keys = [...counts.keys()].map((id) => [id]);
  const items: AttentionDocument[] = [];
  for (const sync of await reader.load(SYNCS, keys)) {
    if (sync.state === "REMOVED") continue;
    const [first] = await reader.find({
      table: SEGMENTS,
      where: [{ cell: "sync_id", is: "=", value: sync.sync_id }, ...where],
      order: [{ cell: "from_block" }],
      limit: 1,
    });
    if (first === undefined) continue;
    const error = { class: "", message: first.error_message ?? "" };
    items.push({
      kind: "sync",
      id: sync.sync_id,
      name: syncName(sync),
      what: "stuck",
      since: first.finished_at,
      text:
        `${wereQuarantined(counts.get(sync.sync_id) ?? 1)}, from block ` +
        `${first.from_block.toLocaleString("en")} on${because(error)}`,
    });
  }
  return items;
}

function wereQuarantined(count: number): string {
  return `${countedText(count, "segment")} ${count === 1 ? "was" : "were"} quarantined`;
}

/** Moves with segments that failed too often. */
export async function poisonedMoves(reader: Reader): Promise<AttentionDocument[]> {
  const moves = await reader.find({
    table: MOVES,
    where: [OPEN_MOVES, { cell: "segments_poisoned", is: ">", value: 0 }],
    order: [{ cell: "move_id" }],
    limit: OF_A_KIND_MAX,
  });
  const items: AttentionDocument[] = [];
  for (const move of moves) {
    const [first] = await reader.find({
      table: MOVE_SEGMENTS,
      where: [
        { cell: "move_id", is: "=", value: move.move_id },
        { cell: "state", is: "=", value: "POISONED" },
      ],
      order: [{ cell: "table_order" }, { cell: "segment_index" }],
      limit: 1,
    });
    items.push({
      kind: "move",
      id: move.move_id,
      name: move.name ?? move.move_id,
      what: "stuck",
      since: first?.finished_at ?? move.last_error_at,
      text: `${wereQuarantined(move.segments_poisoned)}${because(first?.error ?? move.last_error)}`,
    });
  }
  return items;
}

/** What Pawl itself could not decide: `poisoned` names each with the reason. */
export async function undecided(
  reader: Reader,
  poisoned: Readonly<Record<string, string>>,
): Promise<AttentionDocument[]> {
  const items: AttentionDocument[] = [];
  for (const [name, reason] of Object.entries(poisoned).slice(0, OF_A_KIND_MAX)) {
    const [kind = "", id = ""] = name.split(" ");
    const parsed = Kinds.safeParse(kind);
    if (!parsed.success) continue;
    const known: AttentionKind = parsed.data;
    items.push({
      kind: known,
      id: known === "run" ? await runIdAt(reader, Number(id)) : id,
      name,
      what: "stuck",
      since: null,
      text: `Pawl could not decide the next step${because({ class: "", message: reason })}`,
    });
  }
  return items;
}

async function runIdAt(reader: Reader, pos: number): Promise<string> {
  const [run] = await reader.load(RUNS, [[pos]]);
  return run?.run_id ?? String(pos);
}
