import type { Decide } from "../work/decision.ts";
import { reportTasks } from "../work/run/report.ts";
import { reportStep } from "../work/split/report-step.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { type Actor, boundedFailure } from "../work/envelope.ts";
import {
  type AcceptedAnswer,
  type CheckpointRequest,
  METADATA_LENGTH_MAX,
  type ReportAnswer,
  type ReportedResult,
  type ReportRequest,
  type ClaimFound,
} from "../work/run/protocol.ts";
import type { StepAnswer, StepWord } from "../work/shard/step-protocol.ts";
import { leaseKeyOf, type ClaimQueue, tokenEnded, type WaitingClaim } from "./claim-queue.ts";
import { type DecisionCause, type Commit, STAGE_PARTS } from "./commit.ts";
import { isStoreFailure, TO_BE_CONTINUED, type Afterwards, reasonOf } from "./commit-loop.ts";
import { type Claimed, claimTasks } from "../work/run/claim.ts";
import { addMs } from "../kernel/instant.ts";
import type { Environment } from "./config.ts";

/** Longest sentence of a result that had to be replaced. */
const MESSAGE_MAX = 2_000;
/** Most characters of what is said of the partitions of one task that failed or were skipped. */
const MESSAGES_LENGTH_MAX = 200_000;

/** What a worker reports or takes: caused by who was authenticated, whatever it says of itself. */
export function workerCause(actor: Actor): DecisionCause {
  return { actor, correlationId: null };
}

/**
 * Records a report from the first result on that has no verdict yet, and adds theirs; answers that it
 * has to go on when its part of the commit is full.
 */
export async function reportIn(
  commit: Commit,
  request: ReportRequest,
  actor: Actor,
  verdicts: ReportAnswer["results"],
): Promise<null | typeof TO_BE_CONTINUED> {
  const part = commit.part(STAGE_PARTS.reports);
  while (verdicts.length < request.results.length) {
    if (part.isFull()) return TO_BE_CONTINUED;
    const results = request.results.slice(verdicts.length).map(bounded);
    verdicts.push(...(await reportFirst(commit, { ...request, results }, workerCause(actor))));
  }
  for (const leaseId of request.released_leases) {
    commit.leasesReleased.push(leaseKeyOf(actor, leaseId));
  }
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
  cause: DecisionCause,
): Promise<ReportAnswer["results"]> {
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
    const half = results.slice(0, Math.ceil(results.length / 2));
    return reportFirst(commit, { ...request, results: half }, cause);
  }
}

/**
 * The result as it may stand in the ledger, which is for ever: long words are cut, and more about a
 * materialization than is kept is a failure that says so.
 */
function bounded(result: ReportedResult): ReportedResult {
  const { metadata, error, exceptions } = result;
  const length = metadata === undefined ? 0 : JSON.stringify(metadata).length;
  if (length > METADATA_LENGTH_MAX) {
    const said = `the metadata has ${length} characters of JSON; at most ${METADATA_LENGTH_MAX} are kept`;
    return refused(result, new PawlError("INPUT_INVALID", said));
  }
  const each = Math.floor(MESSAGES_LENGTH_MAX / Math.max(1, exceptions?.length ?? 0));
  return {
    ...result,
    ...(error === undefined ? {} : { error: boundedFailure(error) }),
    ...(exceptions === undefined
      ? {}
      : {
          exceptions: exceptions.map((exception) => ({
            ...exception,
            error: exception.error === null ? null : boundedFailure(exception.error, each),
          })),
        }),
  };
}

/** The result in place of one that cannot be recorded. */
function refused(result: ReportedResult, error: PawlError): ReportedResult {
  const { run_pos, task_key, attempt, final } = result;
  const message = `its result could not be recorded: ${error.message}`.slice(0, MESSAGE_MAX);
  const failed = { outcome: "FAILED", error: { class: "input", message } } as const;
  return { run_pos, task_key, attempt, ...failed, ...(final === true ? { final } : {}) };
}

/** What hearing how far a step is takes: keeping it, recording what it asks for, and looking. */
type StepHearing = {
  keep(items: CheckpointRequest["items"]): Promise<AcceptedAnswer>;
  record(decide: Decide<StepAnswer>): Promise<StepAnswer>;
  evaluate(decide: Decide<StepAnswer>): Promise<{ result: StepAnswer }>;
};

/** Keeps how far a step on shards is, records what it asks for, and answers whether to stop. */
export async function hearStep(word: StepWord, hearing: StepHearing): Promise<StepAnswer> {
  const { run_pos, task_key, attempt } = word;
  const value = word.report as Json;
  const decide = reportStep(word);
  // While a commit is asked for writes stand still: how far the step is can wait.
  if (word.record === "commit") return hearing.record(decide);
  const kept = await hearing.keep([{ run_pos, task_key, attempt, value }]);
  if (word.record !== null) return hearing.record(decide);
  const { result } = await hearing.evaluate(decide);
  return kept.accepted[0] === true ? result : { ...result, status: "lost" };
}

/** Gives ready tasks to the claims that wait, as far as one commit goes. */
export async function serveClaims(
  commit: Commit,
  claims: ClaimQueue,
  leaseMs: number,
  environment: Environment,
  afterwards: Afterwards,
): Promise<void> {
  const part = commit.part(STAGE_PARTS.claims);
  for (const claim of claims.worthTrying()) {
    if (part.isFull()) return;
    const { request, actor } = claim;
    if (!(await commit.isTokenGood(actor))) {
      claim.refuse(tokenEnded());
      continue;
    }
    const result = await decideClaim(commit, claims, claim, environment);
    if (result.tasks.length === 0) {
      // An empty answer asks whether anybody is there: who is, claims again, and gets the task then.
      if (result.isUnheard || result.suspects_wait === true) claim.resolve(foundOf(result));
      else claims.wasEmpty(claim);
      continue;
    }
    claim.isServed = true;
    commit.leasesGranted.push({
      lease_id: claim.leaseKey,
      worker_id: request.worker_id,
      granted_at: commit.now,
      expires_at: addMs(commit.now, leaseMs),
      tasks: result.tasks,
    });
    if (result.alone_ms !== undefined) claims.endTurn(claim);
    afterwards.push(() => claim.resolve(foundOf(result)));
  }
}

function foundOf(claimed: Claimed): ClaimFound {
  const { tasks: _tasks, isUnheard: _isUnheard, ...found } = claimed;
  return found;
}

/** A claim that cannot be decided gets nothing, and harms nobody else. */
async function decideClaim(
  commit: Commit,
  claims: ClaimQueue,
  claim: WaitingClaim,
  environment: Environment,
): Promise<Claimed> {
  try {
    const { request, actor, heardPos } = claim;
    const drainedMs = (suspects: number): number | null => claims.drainedMs(claim, suspects);
    const decide = claimTasks(request, heardPos, drainedMs);
    return (await commit.decide(decide, workerCause(actor))).result;
  } catch (error) {
    if (isStoreFailure(error)) throw error;
    environment.warn("a claim failed", { reason: reasonOf(error) });
    return { groups: [], tasks: [], isUnheard: false };
  }
}
