import { reportTasks } from "../controllers/report-tasks.ts";
import { PawlError } from "../core/errors.ts";
import type { ReportAnswer, ReportedResult, ReportRequest } from "../core/protocol.ts";
import type { Cause, Commit } from "./commit.ts";
import { STAGE_PARTS } from "./commit-bounds.ts";
import { isStoreFailure, TO_BE_CONTINUED } from "./commit-loop.ts";

/** Longest sentence of a result that had to be replaced. */
const MESSAGE_MAX = 2_000;

/** A worker, as the one who caused what it reports. */
export function workerCause(workerId: string): Cause {
  return { actor: { principal: `worker:${workerId}`, token_id: null }, correlationId: null };
}

/**
 * Records a report from the first result on that has no verdict yet, and adds theirs; answers that it
 * has to go on when its part of the commit is full.
 */
export async function reportIn(
  commit: Commit,
  request: ReportRequest,
  verdicts: ReportAnswer["results"],
): Promise<null | typeof TO_BE_CONTINUED> {
  const part = commit.part(STAGE_PARTS.reports);
  while (verdicts.length < request.results.length) {
    if (part.isFull()) return TO_BE_CONTINUED;
    const results = request.results.slice(verdicts.length);
    verdicts.push(...(await reportFirst(commit, { ...request, results })));
  }
  commit.leasesReleased.push(...request.released_leases);
  return null;
}

/**
 * Records the first results of a report, as many as one decision has room for, at least one. When they
 * are refused as a whole, their halves are tried, down to the single result that cannot be recorded:
 * that one becomes a failure which says why, and the others are kept.
 */
async function reportFirst(
  commit: Commit,
  request: ReportRequest,
): Promise<ReportAnswer["results"]> {
  const cause = workerCause(request.worker_id);
  try {
    return (await commit.decide(reportTasks(request), cause)).result;
  } catch (error) {
    if (!(error instanceof PawlError) || isStoreFailure(error)) throw error;
    const { results } = request;
    const [only] = results;
    if (only === undefined) throw error;
    if (results.length === 1) {
      const replaced = { ...request, results: [refused(only, error)] };
      return (await commit.decide(reportTasks(replaced), cause)).result;
    }
    return reportFirst(commit, {
      ...request,
      results: results.slice(0, Math.ceil(results.length / 2)),
    });
  }
}

/** The result in place of one that cannot be recorded. */
function refused({ run_pos, task_key, attempt }: ReportedResult, error: PawlError): ReportedResult {
  const message = `its result could not be recorded: ${error.message}`.slice(0, MESSAGE_MAX);
  return { run_pos, task_key, attempt, outcome: "FAILED", error: { class: "input", message } };
}
