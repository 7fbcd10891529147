import type { Client } from "../client/client.ts";
import type { SensorDocument } from "../core/api/sensor-documents.ts";
import { workNameOf } from "../core/sync-spec.ts";

/** The sensors or heads that should have been looked at by now, and when each was last. */
export type OwedLooks = ReadonlyMap<string, string | null>;

const ACTING = { status: "ACTIVE,ERROR", limit: 200 } as const;
const ALL = { query: { limit: 200 } } as const;

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

/** The heads of own syncs that are due: one pass owes each of them one look. */
export async function owedHeads(client: Client, ownWork: ReadonlySet<string>): Promise<OwedLooks> {
  const owed = new Map<string, string | null>();
  for await (const { name, source, looked_at, look_due } of client.each("listSyncSources", ALL)) {
    if (look_due && ownWork.has(workNameOf(name))) owed.set(headName(name, source), looked_at);
  }
  return owed;
}

/** Whether every head that was due has had its look. */
export async function areHeadsIdle(client: Client, owed: OwedLooks): Promise<boolean> {
  if (owed.size === 0) return true;
  for await (const { name, source, looked_at, look_due } of client.each("listSyncSources", ALL)) {
    if (look_due && owed.get(headName(name, source)) === looked_at) return false;
  }
  return true;
}

function headName(name: string, source: string): string {
  return JSON.stringify([name, source]);
}

/** Whether there is, or is about to be, somebody to evaluate it: no waiting helps the others. */
function mayBeEvaluated({ needs_function, has_worker, origin }: SensorDocument): boolean {
  return !needs_function || has_worker || origin === "code";
}
