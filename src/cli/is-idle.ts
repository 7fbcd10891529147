import type { Client } from "../client/client.ts";
import type { BackfillDocument } from "../core/api/backfill-documents.ts";
import type { RunDocument } from "../core/api/run-documents.ts";

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
    case "CANCELLING":
      return stuck.has(backfill.backfill_id);
    case "PENDING":
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
