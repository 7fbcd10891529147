import { DEFINITIONS } from "../definition/rows.ts";
import { entitySubject } from "../keys.ts";
import type { KindStories, RowReader, Story, StoryReader, WorkKind } from "../kind.ts";
import { RUNS } from "../run/rows.ts";
import { EVENTS_MAX, eventAt, eventsAbout } from "../run/story.ts";
import {
  SENSOR_EVALS,
  SENSOR_MESSAGES,
  SENSORS,
  type SensorEvalRow,
  type SensorRow,
} from "./rows.ts";

/** The sensor under an id or a name; null when there is none. */
async function sensorAt(reader: RowReader, idOrName: string): Promise<SensorRow | null> {
  const [named] = await reader.load(DEFINITIONS, [["sensor", idOrName]]);
  const key = [named?.entity_id ?? idOrName];
  const [row] = await reader.load(SENSORS, [key]);
  return row ?? null;
}

/**
 * How a sensor came to be as it is: its first definition, who stopped it, started it and moved its
 * cursor, and its last evaluation.
 */
async function sensorStory(reader: StoryReader, row: SensorRow): Promise<Story> {
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
async function evaluationStory(
  reader: StoryReader,
  { sensor_id, pos, trigger_source }: SensorEvalRow,
): Promise<Story> {
  const row = await sensorAt(reader, sensor_id);
  const story = row === null ? [] : await eventAt(reader, row.created_pos);
  if (trigger_source.type === "push") {
    const key = [sensor_id, trigger_source.message_id];
    const [message] = await reader.load(SENSOR_MESSAGES, [key]);
    if (message !== undefined) story.push(...(await eventAt(reader, message.received_pos)));
  }
  return [...story, ...(await eventAt(reader, pos))];
}

const EVAL_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:msg|poll|manual):./s;

/** The evaluation that an id names, if something came of it; null when it names none. */
export async function findEvaluation(
  reader: RowReader,
  evalId: string,
): Promise<SensorEvalRow | null> {
  const sensorId = EVAL_ID.exec(evalId)?.[1];
  if (sensorId === undefined) return null;
  const [found] = await reader.find({
    table: SENSOR_EVALS,
    where: [
      { cell: "sensor_id", is: "=", value: sensorId },
      { cell: "eval_id", is: "=", value: evalId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  });
  return found ?? null;
}

/** The positions of the runs that an evaluation made. */
export async function runsOfEvaluation(
  reader: RowReader,
  { run_requests }: SensorEvalRow,
): Promise<number[]> {
  const runIds = run_requests.flatMap(({ run_id, outcome }) =>
    outcome === "created" && run_id !== null ? [run_id] : [],
  );
  if (runIds.length === 0) return [];
  const runs = await reader.find({
    table: RUNS,
    where: [{ cell: "run_id", is: "in", values: runIds }],
    order: [{ cell: "run_id" }],
    limit: runIds.length,
  });
  return runs.map(({ run_pos }) => run_pos);
}

/** Stories of sensors, and of their evaluations. */
export const SENSOR_STORIES: KindStories = {
  async byId(reader, id) {
    const evaluation = await findEvaluation(reader, id);
    if (evaluation === null) return null;
    const events = await evaluationStory(reader, evaluation);
    for (const runPos of await runsOfEvaluation(reader, evaluation)) {
      events.push(...(await eventsAbout(reader, runPos)));
    }
    return events;
  },
  async byName(reader, idOrName) {
    const row = await sensorAt(reader, idOrName);
    return row === null ? null : sensorStory(reader, row);
  },
  async origin(reader, { trigger_source_ref: source }) {
    const evaluation =
      source.type === "sensor" ? await findEvaluation(reader, source.eval_id) : null;
    return evaluation === null ? [] : evaluationStory(reader, evaluation);
  },
};

/** Runs and backfills when something happened elsewhere. No controller: its polls and messages move it on. */
export const SENSOR: WorkKind = {
  name: "sensor",
  runs: { owns: ({ trigger_source_ref: { type } }) => type === "sensor" },
  stories: SENSOR_STORIES,
};
