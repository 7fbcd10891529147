import type { RunRow } from "../core/rows/run-rows.ts";
import type { SensorEvalRow } from "../core/rows/sensor-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVAL_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:msg|poll|manual):./s;

/** The evaluation that an id names, if something came of it; null when it names none. */
export async function findEvaluation(
  reader: Reader,
  evalId: string,
): Promise<SensorEvalRow | null> {
  const sensorId = EVAL_ID.exec(evalId)?.[1];
  if (sensorId === undefined) return null;
  const [found] = (await reader.find({
    table: TABLES.sensorEvals,
    where: [
      { cell: "sensor_id", is: "=", value: sensorId },
      { cell: "eval_id", is: "=", value: evalId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  })) as SensorEvalRow[];
  return found ?? null;
}

/** The positions of the runs that an evaluation made. */
export async function runsOfEvaluation(
  reader: Reader,
  { run_requests }: SensorEvalRow,
): Promise<number[]> {
  const runIds = run_requests.flatMap(({ run_id, outcome }) =>
    outcome === "created" && run_id !== null ? [run_id] : [],
  );
  if (runIds.length === 0) return [];
  const runs = (await reader.find({
    table: TABLES.runs,
    where: [{ cell: "run_id", is: "in", values: runIds }],
    order: [{ cell: "run_id" }],
    limit: runIds.length,
  })) as RunRow[];
  return runs.map(({ run_pos }) => run_pos);
}
