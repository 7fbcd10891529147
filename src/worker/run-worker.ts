import process from "node:process";
import type { WorkerConnection } from "../client/worker-connection.ts";
import { PawlError } from "../kernel/errors.ts";
import { shardWorkNames } from "../work/shard/spec.ts";
import { workNameOf } from "../work/sync/spec.ts";
import type { Project } from "../define/define-pawl.ts";
import { OpenShards, type ShardOpener } from "./steps/run-step.ts";
import { ClaimRides } from "./tasks/task-slots.ts";
import type { TaskOutput } from "./tasks/console-lines.ts";
import { ClaimLane, type Claiming } from "./claim-lane.ts";
import { type Clock, systemClock } from "./outbox.ts";
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
  const claimsWith = { ...options, runner, clock, random, rides, failed: failWith };
  const claiming = lanesOf(runner, options).map((lane) =>
    new ClaimLane(lane, claimsWith).claimUntil(stop),
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
