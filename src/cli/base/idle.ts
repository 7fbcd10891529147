import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../client/client.ts";
import { msBetween } from "../../kernel/instant.ts";
import type { BackfillDocument } from "../../work/backfill/documents.ts";
import type { RunDocument } from "../../work/run/api.ts";
import type { SensorDocument } from "../../work/sensor/api.ts";
import { workNameOf } from "../../work/sync/spec.ts";

/** How often to look whether there is anything left to do. */
const IDLE_POLL_MS = 200;

/** What a pass recorded, how far the ledger is, and whether nothing is left that could be done. */
export type Pass = { events: number; pos: number; idle: boolean };

/** Makes one pass of everything due and waits until nothing is left, for as long as there is time. */
export async function passUntilIdle(
  client: Client,
  assets: ReadonlySet<string>,
  leftMs: () => number,
): Promise<Pass> {
  const owed = await owedLooks(client);
  const pass = await client.call("tick");
  // Heads that are needed are known once everything was gone through.
  const heads = await owedHeads(client, assets);
  const isDone = async () =>
    (await areHeadsIdle(client, heads)) &&
    (await isIdle(client, assets)) &&
    (await areSensorsIdle(client, owed));
  let idle = await isDone();
  while (!idle && leftMs() > 0) {
    await sleep(Math.min(IDLE_POLL_MS, Math.max(1, leftMs())));
    // Twice: the lists are read one after the other, and work may move on between them.
    idle = (await isDone()) && (await isDone());
  }
  const { pos } = await client.call("listEvents", { query: { limit: 1 } });
  return { events: pos - (pass.pos - pass.events), pos, idle };
}

/**
 * Whether nothing is left that could go on by itself. What waits for a person to decide, or for a
 * worker that has its function, is left too, but no amount of waiting here helps it.
 */
export async function isIdle(client: Client, ownAssets: ReadonlySet<string>): Promise<boolean> {
  /** Backfills whose active runs all wait for a worker. */
  const stuck = new Set<string>();
  const runs = client.each("listRuns", { query: { status: "PENDING,RUNNING", limit: 200 } });
  for await (const run of runs) {
    if (!(await lacksWorker(client, run, ownAssets))) return false;
    if (run.backfill_id !== null) stuck.add(run.backfill_id);
  }
  const query = { status: "PENDING,RUNNING,CANCELLING", limit: 200 };
  for await (const backfill of client.each("listBackfills", { query })) {
    if (!(await isHeldUp(client, backfill, stuck))) return false;
  }
  return true;
}

/** Whether all that is left of a run waits for a worker that has its function. */
async function lacksWorker(
  client: Client,
  run: RunDocument,
  ownAssets: ReadonlySet<string>,
): Promise<boolean> {
  if (run.tasks_running > 0 || run.tasks_retry_wait > 0 || run.tasks_ready === 0) return false;
  const ready = client.each("listTasks", {
    params: { run_id: run.run_id },
    query: { status: "READY", limit: 200 },
  });
  for await (const { lacks_worker, asset_key } of ready) {
    // A worker of this command may be about to ask for the first time.
    if (!lacks_worker || ownAssets.has(asset_key)) return false;
  }
  return true;
}

/** Whether a backfill cannot go on: for want of a worker, or until a person decides. */
async function isHeldUp(
  client: Client,
  backfill: BackfillDocument,
  stuck: ReadonlySet<string>,
): Promise<boolean> {
  switch (backfill.state) {
    case "PAUSED":
      return true;
    case "RUNNING":
      // Its active runs were looked at before: none is left that could go on.
      return stuck.has(backfill.backfill_id) || !backfill.window_open;
    case "CANCELLING":
      return stuck.has(backfill.backfill_id);
    case "PENDING":
      if (!backfill.window_open) return true;
      break;
    default:
      return false;
  }
  const { after_backfill_id: backfill_id, continue_on_failure } = backfill;
  if (backfill_id === null) return false;
  const before = await client.call("getBackfill", { params: { backfill_id } });
  if (before.state === "SUCCEEDED") return false;
  if (before.state === "FAILED" || before.state === "CANCELLED") return !continue_on_failure;
  return isHeldUp(client, before, stuck);
}

/** The sensors or heads that should have been looked at by now, and when each was last. */
export type OwedLooks = ReadonlyMap<string, string | null>;

const ACTING = { status: "ACTIVE,ERROR", limit: 200 } as const;
const ALL = { query: { limit: 200 } } as const;

/** The poll sensors that are due: one pass owes each of them one look, however short its interval. */
export async function owedLooks(client: Client): Promise<OwedLooks> {
  const owed = new Map<string, string | null>();
  for await (const sensor of client.each("listSensors", { query: ACTING })) {
    const isDue = sensor.lag_seconds > 0 || sensor.last_looked_at === null || isHeld(sensor);
    if (sensor.mode === "poll" && isDue && mayBeEvaluated(sensor)) {
      owed.set(sensor.sensor_id, sensor.last_looked_at);
    }
  }
  return owed;
}

/** Beyond this a sensor is later than its interval makes it. */
const HELD_MS = 1_000;

/**
 * Whether somebody who was ended amid a look still holds the sensor: it would be due by its interval,
 * and is again once that lease has run out.
 */
function isHeld({ state, last_looked_at, next_due_at, min_interval_ms }: SensorDocument): boolean {
  if (state !== "ACTIVE" || last_looked_at === null || next_due_at === null) return false;
  return msBetween(last_looked_at, next_due_at) > min_interval_ms + HELD_MS;
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
