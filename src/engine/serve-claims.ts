import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { addMs, type Instant } from "../kernel/instant.ts";
import { keyText } from "../kernel/table.ts";
import type { Lease, Store, WorkspaceId } from "../store/store.ts";
import type { Decide } from "../work/decision.ts";
import { type Actor, boundedFailure, holderOf } from "../work/envelope.ts";
import { type Claimed, claimTasks } from "../work/run/claim.ts";
import {
  type AcceptedAnswer,
  type CheckpointRequest,
  type ClaimAnswer,
  type ClaimFound,
  type ClaimRequest,
  type HeartbeatAnswer,
  type HeartbeatRequest,
  type LogRequest,
  type LookRef,
  METADATA_LENGTH_MAX,
  type ReportAnswer,
  type ReportedResult,
  type ReportRequest,
  type TaskRef,
} from "../work/run/protocol.ts";
import { reportTasks } from "../work/run/report.ts";
import { loadTasks } from "../work/run/task-blocks.ts";
import { isHeldBy } from "../work/run/tasks.ts";
import type { StepAnswer, StepWord } from "../work/shard/step-protocol.ts";
import { reportStep } from "../work/split/report-step.ts";
import { TABLES } from "../work/tables.ts";
import { CheckpointBudget, LogBudget, SAID_LIMITS } from "./budgets.ts";
import {
  type ClaimQueue,
  HeardNames,
  leaseKeyOf,
  tokenEnded,
  type WaitingClaim,
} from "./claim-queue.ts";
import { type Commit, type DecisionCause, STAGE_PARTS } from "./commit.ts";
import { type Afterwards, isStoreFailure, reasonOf, TO_BE_CONTINUED } from "./commit-loop.ts";
import { type EngineOptions, type Environment, LEASE_MS } from "./config.ts";

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

/**
 * Gives ready tasks to the claims that wait, as far as one commit goes; answers whether tasks were put
 * aside for what they require, which others may have waited for.
 */
export async function serveClaims(
  commit: Commit,
  claims: ClaimQueue,
  leaseMs: number,
  environment: Environment,
  afterwards: Afterwards,
): Promise<boolean> {
  const part = commit.part(STAGE_PARTS.claims);
  let hasPutAside = false;
  for (const claim of claims.worthTrying()) {
    if (part.isFull()) break;
    const { request, actor } = claim;
    if (!(await commit.isTokenGood(actor))) {
      claim.refuse(tokenEnded());
      continue;
    }
    const result = await decideClaim(commit, claims, claim, environment);
    hasPutAside ||= result.isMore;
    if (result.tasks.length === 0) {
      // An empty answer asks whether anybody is there: who is, claims again, and gets the task then.
      if (result.isUnheard || result.suspects_wait === true) claim.resolve(foundOf(result));
      // What was put aside may have hidden others: the claim is tried again in the next commit.
      else if (!result.isMore) claims.wasEmpty(claim);
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
  return hasPutAside;
}

function foundOf(claimed: Claimed): ClaimFound {
  const { tasks: _tasks, isUnheard: _isUnheard, isMore: _isMore, ...found } = claimed;
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
    return { groups: [], tasks: [], isUnheard: false, isMore: false };
  }
}

/** What a claim's lease holds already, and where the ledger ended as the claim came. */
export type HeardClaim = { held: Lease | null; heardPos: number };

/**
 * Everything workers say and hear that is no event: leases, progress, checkpoints, logs. None of it
 * takes the workspace lock; fences are checked by the store where it writes.
 */
export class WorkerDesk {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #leaseMs: number;
  readonly #heard = new HeardNames();
  readonly #checkpoints: CheckpointBudget;
  /** What is kept of what tasks log. */
  readonly logs: LogBudget;
  /** Results that came too late, since this server started. */
  resultsLost = 0;

  constructor(
    { store, environment, leaseMs = LEASE_MS, saidLimits = SAID_LIMITS }: EngineOptions,
    ws: WorkspaceId,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#leaseMs = leaseMs;
    this.#checkpoints = new CheckpointBudget(saidLimits, {
      measure: () => store.checkpointBytes(ws),
      elapsedMs: () => environment.elapsedMs(),
      pause: (ms) => new Promise((resolve) => environment.timer(ms, resolve)),
    });
    this.logs = new LogBudget(store, ws, environment, saidLimits);
  }

  /** Hears a claim: what its lease holds already, and where the ledger ends as it comes. */
  async hear(request: ClaimRequest, actor: Actor): Promise<HeardClaim> {
    const [now, heard] = await Promise.all([
      this.#store.now(),
      this.#store.read(this.#ws, async (reader) => ({
        held: await reader.lease(leaseKeyOf(actor, request.lease_id)),
        heardPos: (await reader.head()).pos,
      })),
    ]);
    this.#heard.hear(holderOf(actor), request.assets, now);
    return heard;
  }

  /** The names that workers have asked for lately, and when. */
  claimedAssets(): Map<string, Instant> {
    return this.#heard.all();
  }

  /**
   * The claim with a shorter wait: half of a lease. A worker renews its leases every third, so one that
   * freezes has no claim left here when they run out.
   */
  patient<Claim extends { wait_ms: number }>(claim: Claim): Claim {
    return { ...claim, wait_ms: Math.min(claim.wait_ms, Math.floor(this.#leaseMs / 2)) };
  }

  countLost(count: number): void {
    this.resultsLost += count;
  }

  /** The answer to a claim, with the checkpoints of earlier attempts. */
  async answer(leaseId: string, found: ClaimFound): Promise<ClaimAnswer> {
    const { groups } = found;
    const retried = groups.flatMap(({ run_pos, tasks }) =>
      tasks.filter(({ attempt }) => attempt > 1).map(({ task_key }) => ({ run_pos, task_key })),
    );
    if (retried.length > 0) {
      const kept = await this.#store.read(this.#ws, (reader) => reader.checkpoints(retried));
      const values = new Map(
        kept.map(({ run_pos, task_key, value }) => [keyText([run_pos, task_key]), value]),
      );
      for (const { run_pos, tasks } of groups) {
        for (const task of tasks) {
          task.checkpoint = values.get(keyText([run_pos, task.task_key])) ?? null;
        }
      }
    }
    const ttl_ms = this.#leaseMs;
    return { lease_id: leaseId, ttl_ms, ...found, takes_claims_with_reports: true };
  }

  async heartbeat(request: HeartbeatRequest, actor: Actor): Promise<HeartbeatAnswer> {
    const holder = holderOf(actor);
    const keyOf = (leaseId: string): string => leaseKeyOf(actor, leaseId);
    const keys = request.leases.map(keyOf);
    const kept = new Set(await this.#store.renewLeases(this.#ws, keys, this.#leaseMs));
    const renewed = request.leases.filter((leaseId) => kept.has(keyOf(leaseId)));
    const progress = request.tasks.flatMap(({ progress: made, ...ref }) =>
      made === undefined ? [] : [{ ...ref, ...made }],
    );
    if (progress.length > 0) await this.#store.saveProgress(this.#ws, holder, progress);
    return {
      ttl_ms: this.#leaseMs,
      renewed,
      ...(await this.#judge(request.tasks, holder)),
      ...(await this.#renewLooks(request.looks ?? [], holder)),
    };
  }

  /** A look is its worker's for as long as a task is: without a word it is free at the same time. */
  async #renewLooks(
    looks: readonly LookRef[],
    holder: string,
  ): Promise<{ lost_looks?: LookRef[] }> {
    if (looks.length === 0) return {};
    const fences = looks.map((look) => ({ ...look, leased_by: holder }));
    const renewed = await this.#store.renewProbes(this.#ws, fences, this.#leaseMs);
    return { lost_looks: looks.filter((_, at) => renewed[at] !== true) };
  }

  /** Which tasks are not the worker's any more, and which should stop. */
  async #judge(
    refs: readonly TaskRef[],
    holder: string,
  ): Promise<{ lost: TaskRef[]; cancelled: TaskRef[] }> {
    const lost: TaskRef[] = [];
    const cancelled: TaskRef[] = [];
    if (refs.length === 0) return { lost, cancelled };
    const { tasks, runs } = await this.#store.read(this.#ws, async (reader) => {
      const runKeys = [...new Set(refs.map(({ run_pos }) => run_pos))].map((pos) => [pos]);
      return {
        tasks: await loadTasks(reader, refs),
        runs: await reader.load(TABLES.runs, runKeys),
      };
    });
    const taskOf = new Map(tasks.map((task) => [keyText([task.run_pos, task.task_key]), task]));
    const runOf = new Map(runs.map((run) => [run.run_pos, run]));
    for (const { run_pos, task_key, attempt } of refs) {
      const task = taskOf.get(keyText([run_pos, task_key]));
      const ref = { run_pos, task_key, attempt };
      if (!isHeldBy(task, attempt, holder)) lost.push(ref);
      else if (runOf.get(run_pos)?.cancel_requested_at !== null) cancelled.push(ref);
    }
    return { lost, cancelled };
  }

  async checkpoint({ items }: CheckpointRequest, actor: Actor): Promise<AcceptedAnswer> {
    const holder = holderOf(actor);
    const save = () => this.#store.saveCheckpoints(this.#ws, holder, items);
    return { accepted: await this.#checkpoints.keep(holder, items, save) };
  }

  async log({ items }: LogRequest, actor: Actor): Promise<AcceptedAnswer> {
    const verdicts = await this.logs.append(holderOf(actor), items);
    return { accepted: verdicts.map((verdict) => verdict === "kept") };
  }
}
