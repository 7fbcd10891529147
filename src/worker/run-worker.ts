import process from "node:process";
import { ulid } from "ulid";
import type { WorkerConnection } from "../client/worker-connection.ts";
import { PawlError } from "../kernel/errors.ts";
import { CLAIM_SLOTS_MAX, type ClaimAlong, type ClaimAnswer } from "../work/run/protocol.ts";
import { shardWorkNames } from "../work/shard/spec.ts";
import { workNameOf } from "../work/sync/spec.ts";
import type { Project } from "../define/define-pawl.ts";
import { OpenShards, type ShardOpener } from "./steps/run-step.ts";
import {
  claimPatiently,
  ClaimPace,
  ClaimRides,
  letGoOf,
  type Solitude,
  type TaskSlots,
} from "./tasks/task-slots.ts";
import type { TaskOutput } from "./tasks/console-lines.ts";
import { type Clock, pause, systemClock } from "./outbox.ts";
import { headPoll } from "./probes/polls.ts";
import { PollRunner } from "./probes/poll-runner.ts";
import { sensorPoll } from "./probes/polls.ts";
import { SourceGates } from "./segments/source-gates.ts";
import { type HoldingNews, TaskRunner } from "./tasks/runner.ts";

/** What a worker is started with. */
export type WorkerOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  codeVersion: string | null;
  logger: WorkerLogger;
  /** Aborting it stops the worker gracefully. */
  signal: AbortSignal;
  /** Most tasks that run at once; 8 unless told. */
  concurrency?: number;
  /** How long running tasks may go on once the worker is to stop; 6 s unless told. */
  stopGraceMs?: number;
  /** How long a function may go on after its task was aborted; 5 s unless told. */
  abandonMs?: number;
  /** What becomes of what tasks write, where output is captured; kept and shown unless told. */
  output?: TaskOutput;
  clock?: Clock;
  /** Milliseconds since 1970, for what workers tell each other; the machine's unless told. */
  wallNow?: () => number;
  random?: () => number;
  /** Makes the ids of leases; ULIDs unless told. */
  newLeaseId?: () => string;
  /** Where sensors find what their watches name; this process's own unless told. */
  environment?: Readonly<Record<string, string | undefined>>;
  /** Where relative paths of sensors start; the current folder unless told. */
  folder?: string;
  /** How shards are opened, for who would count, trace or slow what is done to them. */
  openShard?: ShardOpener;
  /** Told what the worker holds, before it does anything with it. */
  holding?: (news: HoldingNews) => void;
};

const CONCURRENCY = 8;
/** Steps on shards that run at once, besides all else: tails last for days and mostly wait. */
const SHARD_CONCURRENCY = 16;
/** How long tasks may go on, go on after they were told to stop, and be reported: less than 10 s in all. */
const STOP_GRACE_MS = 6_000;
const STOP_ABANDON_MS = 1_000;
const DRAIN_MS = 1_000;
const ABANDON_MS = 5_000;
/** How long a claim waits for work. */
const CLAIM_WAIT_MS = 20_000;
/** How long few free slots wait for more of them: half of the 20 ms that a slot may stand empty. */
const SLOTS_GATHER_MS = 10;
/** The part of a lease that may have gone by when it is taken for new. */
const FRESH_PART = 6;
/** A claim that comes back empty sooner than this was not kept waiting; the next one waits here. */
const EMPTY_CLAIM_MS = 100;

/**
 * Claims tasks, evaluations of sensors and looks at heads and runs them until the signal aborts, then stops
 * gracefully: tasks get a grace time to finish, and what does not is given back, ready for another
 * worker and not counted as an attempt. Rejects with the `PawlError` when the server will not have
 * this worker, for example `UNAUTHORIZED`; a server that is away is waited for.
 */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const { signal, clock = systemClock, stopGraceMs = STOP_GRACE_MS } = options;
  const stopping = new AbortController();
  let failure: PawlError | null = null;
  const fail = (error: PawlError): void => {
    failure ??= error;
    stopping.abort();
  };
  const random = options.random ?? Math.random;
  const rides = new ClaimRides();
  const gates = new SourceGates({ ...options, clock, wallNow: options.wallNow ?? Date.now });
  const shards = new OpenShards(options.project.shards, options.openShard);
  const surroundings = {
    ...options,
    clock,
    random,
    rides,
    gates,
    shards,
    environment: options.environment ?? process.env,
    folder: options.folder ?? process.cwd(),
    abandonMs: options.abandonMs ?? ABANDON_MS,
    output: options.output ?? "keep-and-show",
    stopAbandonMs: Math.min(options.abandonMs ?? ABANDON_MS, STOP_ABANDON_MS),
    fail,
  };
  const runner = new TaskRunner(surroundings);
  const looking = { ...surroundings, keepLook: runner.keepLook, solitude: runner.solitude };
  const others = [
    new PollRunner(looking, sensorPoll(looking)),
    new PollRunner(looking, headPoll(looking)),
  ];
  const stop = AbortSignal.any([signal, stopping.signal]);
  const failWith = (error: unknown): void => fail(asFailure(error));
  await Promise.race([runner.ready, aborted(stop)]);
  const looks = others.map((each) => each.run(stop).catch(failWith));
  const claiming = lanesOf(runner, options).map((lane) =>
    claimUntil(stop, runner, lane, { ...options, clock, random, rides }).catch(failWith),
  );
  await Promise.all(claiming);
  const graceMs = failure === null ? stopGraceMs : 0;
  const stopOthers = Promise.all(looks).then(() =>
    Promise.all(others.map((each) => each.stop(graceMs, DRAIN_MS))),
  );
  await Promise.all([runner.stop(graceMs, DRAIN_MS), stopOthers]);
  await Promise.all([gates.close(), shards.close()]);
  if (failure !== null) throw failure;
}

/** Slots, what they are for, and whether they are kept from work of the lowest class. */
type Claiming = { lane: TaskSlots; assets: readonly string[]; isUrgent: boolean };

/**
 * The lanes of a worker. One that follows heads keeps a slot free of backfills and of the history of
 * syncs, so that new blocks need not wait until a long segment has ended. Steps on shards have slots
 * of their own.
 */
function lanesOf(
  runner: TaskRunner,
  { project, concurrency = CONCURRENCY }: WorkerOptions,
): Claiming[] {
  const assets = [...project.functions.keys(), ...[...project.syncs.keys()].map(workNameOf)];
  const followsHead = [...project.syncs.values()].some(({ head }) => head !== null);
  const urgent = followsHead && concurrency > 1 ? 1 : 0;
  const lanes = [{ lane: runner.openLane(concurrency - urgent), assets, isUrgent: false }];
  if (urgent > 0) lanes.push({ lane: runner.openLane(urgent), assets, isUrgent: true });
  const steps = shardWorkNames([...project.shards.keys()]);
  if (steps.length === 0) return lanes;
  // Writes may be waiting for a step.
  const lane = runner.openLane(SHARD_CONCURRENCY, false);
  const ofShards = { lane, assets: steps, isUrgent: false };
  return assets.length === 0 ? [ofShards] : [...lanes, ofShards];
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

async function claimUntil(
  stop: AbortSignal,
  runner: TaskRunner,
  { lane, assets, isUrgent }: Claiming,
  options: ClaimOptions,
): Promise<void> {
  const { clock, rides, newLeaseId = ulid } = options;
  const { solitude } = runner;
  const pace = new ClaimPace(lane.concurrency, clock.now());
  lane.onEnded = () => pace.taskFinished();
  lane.onOverdue = () => pace.slowDown();
  const wishFor = (slots: number): ClaimAlong => ({
    lease_id: newLeaseId(),
    slots,
    assets: [...assets],
    alone: solitude.isEmpty,
    ...(isUrgent ? { backfill_slots: 0 } : {}),
  });
  /** Nothing was ready for the claim that went with a report: the next one waits at the server. */
  let isDry = false;
  while (!stop.aborted) {
    const next = { lane, pace, wishFor, isDry };
    const { wish, along } = await nextClaim(stop, solitude, next, options);
    const askedAt = clock.now();
    if (along === null && stop.aborted) return;
    const answered = along === null ? null : await beforeLetGo(stop, along, clock);
    const claimed = answered === null ? await claim(stop, wish, options) : { answer: answered };
    if (claimed === null) return;
    const { answer } = claimed;
    // What went along may have been granted long before this is known.
    const isFresh =
      along === null
        ? "isFresh" in claimed && claimed.isFresh
        : clock.now() - askedAt < answer.ttl_ms / FRESH_PART;
    if (stop.aborted) {
      runner.decline(lane, answer);
      return;
    }
    rides.isTaken = answer.takes_claims_with_reports === true;
    isDry = answered !== null && answer.groups.length === 0;
    pace.claimed(clock.now());
    if (answer.suspects_wait === true) {
      await solitude.drain(lane, stop);
      continue;
    }
    solitude.undrain(lane);
    runner.accept(lane, answer, isFresh, wish.alone);
    if (answer.groups.length === 0 && !isDry && clock.now() - askedAt < EMPTY_CLAIM_MS) {
      await pause(clock, EMPTY_CLAIM_MS, stop);
    }
  }
}

/** What a lane is about to ask for. */
type NextClaim = {
  lane: TaskSlots;
  pace: ClaimPace;
  wishFor: (slots: number) => ClaimAlong;
  /** Whether few free slots are enough. */
  isDry: boolean;
};

/**
 * Resolves when it is time for a claim: enough slots are free, or a few have been for long enough; or
 * when a claim for what was free has left with a report.
 */
async function nextClaim(
  stop: AbortSignal,
  solitude: Solitude,
  { lane, pace, wishFor, isDry }: NextClaim,
  { clock, rides }: ClaimOptions,
): Promise<{ wish: ClaimAlong; along: Promise<ClaimAnswer | null> | null }> {
  const { promise: along, resolve } = Promise.withResolvers<ClaimAnswer | null>();
  const left = new AbortController();
  const ride: { wish: ClaimAlong | null } = { wish: null };
  const callOff = rides.wait(() => {
    const free = freeIn(lane, pace);
    const mayTake = !lane.isPatient || solitude.isFree(lane);
    if (free <= 0 || stop.aborted || !mayTake) return null;
    ride.wish = wishFor(free);
    left.abort();
    return ride.wish;
  }, resolve);
  const wait = AbortSignal.any([stop, left.signal]);
  const slots = await freeSlots(wait, lane, pace, clock, isDry);
  // What has just ended is reported in a moment: then both are one message.
  if (!isDry) await rides.untilLeft();
  callOff();
  if (ride.wish !== null) return { wish: ride.wish, along };
  if (lane.isPatient) await solitude.untilFree(lane, stop);
  return { wish: wishFor(slots), along: null };
}

/** How many more tasks a lane would like to hold. */
function freeIn(lane: TaskSlots, pace: ClaimPace): number {
  return Math.min(CLAIM_SLOTS_MAX, pace.wanted - lane.openCount);
}

/** Resolves when enough slots are free for a claim, or a few have been for long enough; 0 at the signal. */
async function freeSlots(
  stop: AbortSignal,
  lane: TaskSlots,
  pace: ClaimPace,
  clock: Clock,
  fewAreEnough: boolean,
): Promise<number> {
  let fewUntil: number | null = null;
  while (!stop.aborted) {
    const free = freeIn(lane, pace);
    const now = clock.now();
    if (free > 0) fewUntil ??= fewAreEnough ? now : now + SLOTS_GATHER_MS;
    if (free > 0 && (free >= pace.worthwhile || now >= (fewUntil ?? now))) return free;
    if (fewUntil === null) await lane.openAtMost(pace.wanted - 1, null, stop);
    else await lane.openAtMost(pace.wanted - pace.worthwhile, fewUntil - now, stop);
  }
  return 0;
}

/** What a claim with a report got; null when that is not known, or it was let go as the worker stops. */
async function beforeLetGo(
  stop: AbortSignal,
  along: Promise<ClaimAnswer | null>,
  clock: Clock,
): Promise<ClaimAnswer | null> {
  const letGo = letGoOf(stop, clock);
  return Promise.race([along, aborted(letGo.signal).then(() => null)]).finally(letGo.done);
}

/** How long a worker that stops waits to hear what the claim got that it let go. */
const LET_GO_MS = 3_000;

type ClaimOptions = WorkerOptions & { clock: Clock; random: () => number; rides: ClaimRides };

/**
 * Claims once, as often as it takes. The lease's id is this worker's, so when an answer is lost
 * the repeated claim gets the same tasks.
 */
async function claim(
  stop: AbortSignal,
  wish: ClaimAlong,
  options: ClaimOptions,
): Promise<{ answer: ClaimAnswer; isFresh: boolean } | null> {
  const { connection, workerId, codeVersion } = options;
  const request = {
    worker_id: workerId,
    ...wish,
    code_version: codeVersion,
    wait_ms: CLAIM_WAIT_MS,
  };
  const ask = (signal: AbortSignal) => connection.claim(request, signal);
  const claimed = await claimPatiently(stop, ask, options);
  if (claimed !== null) return claimed;
  // The claim that was let go may have been granted meanwhile: asking for nothing more tells.
  const again = { ...request, assets: [], wait_ms: 0 };
  const answer = await connection.claim(again, AbortSignal.timeout(LET_GO_MS)).catch(() => null);
  return answer === null ? null : { answer, isFresh: true };
}

function asFailure(error: unknown): PawlError {
  if (error instanceof PawlError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new PawlError("INTERNAL", `The worker failed: ${message}`, { cause: error });
}

/** Where a worker says what happens to it; a pino logger is one. */
export interface WorkerLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
