import type { RecordedEvent } from "../core/events/envelope.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { SensorEvalRow, SensorMessageRow, SensorRow } from "../core/rows/sensor-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVENTS_MAX = 10_000;

/** The sensor under an id or a name; null when there is none. */
export async function sensorAt(reader: Reader, idOrName: string): Promise<SensorRow | null> {
  const [named] = (await reader.load(TABLES.definitions, [
    ["sensor", idOrName],
  ])) as DefinitionRow[];
  const key = [named?.entity_id ?? idOrName];
  const [row] = (await reader.load(TABLES.sensors, [key])) as SensorRow[];
  return row ?? null;
}

/**
 * How a sensor came to be as it is: its first definition, who stopped it, started it and moved its
 * cursor, and its last evaluation.
 */
export async function sensorStory(reader: Reader, row: SensorRow): Promise<RecordedEvent[]> {
  const subjects = [entitySubject(row.sensor_id)];
  const turns = await reader.events({
    after: 0,
    subjects,
    types: ["SensorPaused", "SensorResumed", "SensorCursorReset"],
    limit: EVENTS_MAX,
  });
  const last = await reader.events({
    after: 0,
    subjects,
    types: ["SensorEvaluated"],
    limit: 1,
    descending: true,
  });
  return [...(await eventAt(reader, row.created_pos)), ...turns, ...last];
}

/** How an evaluation came about: the sensor's first definition, the message, and what it came to. */
export async function evaluationStory(
  reader: Reader,
  { sensor_id, pos, trigger_source }: SensorEvalRow,
): Promise<RecordedEvent[]> {
  const row = await sensorAt(reader, sensor_id);
  const story = row === null ? [] : await eventAt(reader, row.created_pos);
  if (trigger_source.type === "push") {
    const key = [sensor_id, trigger_source.message_id];
    const [message] = (await reader.load(TABLES.sensorMessages, [key])) as SensorMessageRow[];
    if (message !== undefined) story.push(...(await eventAt(reader, message.received_pos)));
  }
  return [...story, ...(await eventAt(reader, pos))];
}

function eventAt(reader: Reader, pos: number): Promise<RecordedEvent[]> {
  return reader.events({ after: pos - 1, through: pos, limit: 1 });
}
