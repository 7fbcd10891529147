import type { Client } from "../client/client.ts";
import type { SensorDocument } from "../core/api/sensor-documents.ts";

/** The sensors that should have looked by now, and when each did so last. */
export type OwedLooks = ReadonlyMap<string, string | null>;

const ACTING = { status: "ACTIVE,ERROR", limit: 200 } as const;

/** The poll sensors that are due: one pass owes each of them one look, however short its interval. */
export async function owedLooks(client: Client): Promise<OwedLooks> {
  const owed = new Map<string, string | null>();
  for await (const sensor of client.each("listSensors", { query: ACTING })) {
    const isDue = sensor.lag_seconds > 0 || sensor.last_looked_at === null;
    if (sensor.mode === "poll" && isDue && mayBeEvaluated(sensor)) {
      owed.set(sensor.sensor_id, sensor.last_looked_at);
    }
  }
  return owed;
}

/** Whether every sensor has had its look, and no message waits for an evaluation. */
export async function areSensorsIdle(client: Client, owed: OwedLooks): Promise<boolean> {
  for await (const sensor of client.each("listSensors", { query: ACTING })) {
    if (!mayBeEvaluated(sensor)) continue;
    // One that was pushed to and looks by itself now leaves its messages where they are.
    if (sensor.mode === "push" && sensor.messages_pending > 0) return false;
    if (owed.get(sensor.sensor_id) === sensor.last_looked_at) return false;
  }
  return true;
}

/** Whether there is, or is about to be, somebody to evaluate it: no waiting helps the others. */
function mayBeEvaluated({ needs_function, has_worker, origin }: SensorDocument): boolean {
  return !needs_function || has_worker || origin === "code";
}
