import type { WorkerConnection } from "../../client/worker-connection.ts";
import type { Json } from "../../kernel/canonical.ts";
import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import { levelFields, MESSAGE_ITEMS_MAX, type ReportedResult } from "../../work/run/protocol.ts";
import { type Clock, Outbox } from "../outbox.ts";
import { keptJson, logFields, readableText } from "../plain-values.ts";
import type { ClaimRides } from "./task-slots.ts";
import type { TaskAttempt, WorkerLease } from "./attempt.ts";
import type { TaskOutcome } from "./outcome.ts";
import type { WorkerLogger } from "../run-worker.ts";

/** How long log lines gather. */
const LOG_GATHER_MS = 200;
/**
 * Most lines that wait. Of what is still free an attempt may take as much as it has already, so that one
 * which says more than can be sent leaves room for all others: what is beyond is counted and dropped.
 */
const LOG_LINES_MAX = 20_000;
const LOG_BATCH_MAX = 500;
const LOG_TEXT_MAX = 10_000;
const LOG_TRIES_MAX = 5;
/** Longest checkpoint that is sent at all, as JSON; how much is kept is up to the server. */
const CHECKPOINT_LENGTH_MAX = 16_000_000;

/** So many results go out beside a report that is under way: fewer are as soon there with the next. */
const REPORTS_BESIDE_MIN = 32;

type Report = { attempt: TaskAttempt; outcome: TaskOutcome; isReplacement: boolean };
type Checkpoint = {
  attempt: TaskAttempt;
  value: Json;
  resolve: () => void;
  reject: (error: unknown) => void;
};
type Line = { attempt: TaskAttempt; message: string; fields: Json; endsAttempt: boolean };

/** What tasks have to say to the server, gathered into few messages. */
export interface TaskMessages {
  /** Reports the end of an attempt for as long as its lease can live. */
  report(attempt: TaskAttempt, outcome: TaskOutcome): void;
  /** The attempt ends without a report. */
  drop(attempt: TaskAttempt): void;
  /** Resolves once the value is kept; `LEASE_LOST` when the attempt is no longer the current one. */
  checkpoint(attempt: TaskAttempt, value: Json): Promise<void>;
  /** With `endsAttempt` it is the error that ends the attempt, which is not dropped for others. */
  log(attempt: TaskAttempt, message: string, fields: Json, endsAttempt?: boolean): void;
  /** Resolves when everything is said or given up. */
  drain(): Promise<void>;
}

/** What the ways out for what tasks say need. */
export type TaskMessagesOptions = {
  connection: WorkerConnection;
  workerId: string;
  codeVersion: string | null;
  clock: Clock;
  random: () => number;
  logger: WorkerLogger;
  /** Claims that go along with reports. */
  rides: ClaimRides;
  /** Told of attempts that are reported, or that nobody waits for any more. */
  settled: (attempts: readonly TaskAttempt[]) => void;
};

/** Opens the ways out for what tasks say. */
export function openTaskMessages(options: TaskMessagesOptions): TaskMessages {
  const { connection, clock, random, logger } = options;
  const lines = logOutbox(connection, clock, random, logger);
  const checkpoints = checkpointOutbox(connection, clock, random);
  const leases = emptiedLeases(options);
  const reports = reportOutbox(options, lines, leases);
  options.rides.isDue = () => reports.isDue;
  return {
    report: (attempt, outcome) => reports.add({ attempt, outcome, isReplacement: false }),
    drop: (attempt) => leases.drop(attempt),
    checkpoint(attempt, value) {
      return new Promise((resolve, reject) => {
        checkpoints.add({ attempt, value: keptCheckpoint(value), resolve, reject });
      });
    },
    log: (attempt, message, fields, endsAttempt = false) =>
      lines.add(attempt, message, fields, endsAttempt),
    async drain() {
      await reports.flush();
      await lines.flush();
      await leases.release();
    },
  };
}

/** A copy of a checkpoint, for the caller may go on changing it; `INPUT_INVALID` when it is no JSON. */
export function keptCheckpoint(value: unknown): Json {
  const kept = keptJson(value, CHECKPOINT_LENGTH_MAX);
  if ("value" in kept) return kept.value;
  throw new PawlError("INPUT_INVALID", `The checkpoint is not kept: ${kept.fault}.`);
}

/** What is kept of a line that a task logs: bounded, and a copy of its fields. */
export function keptLine(message: unknown, fields: unknown): { message: string; fields: Json } {
  return { message: readableText(message, LOG_TEXT_MAX), fields: logFields(fields, LOG_TEXT_MAX) };
}

type EmptiedLeases = ReturnType<typeof emptiedLeases>;

/** Leases that ended without a report that released them: released with the next. */
function emptiedLeases({ connection, workerId, codeVersion, settled }: TaskMessagesOptions) {
  let emptied: WorkerLease[] = [];
  const count = ({ lease }: TaskAttempt): void => {
    lease.unreported--;
    if (lease.unreported === 0 && !lease.isForsaken) emptied.push(lease);
  };
  return {
    drop(attempt: TaskAttempt): void {
      const { lease } = attempt;
      // Lost while the lease was kept is what the server said; anything else it does not know of.
      if (!attempt.isLost || lease.deadAt !== null) lease.isForsaken = true;
      count(attempt);
      settled([attempt]);
    },
    /** The report of these came, and released the leases. */
    reported(attempts: readonly TaskAttempt[], leases: readonly WorkerLease[]): void {
      for (const attempt of attempts) count(attempt);
      emptied = emptied.filter((lease) => !leases.includes(lease));
      settled(attempts);
    },
    all: (): readonly WorkerLease[] => emptied,
    async release(): Promise<void> {
      if (emptied.length === 0) return;
      const released_leases = emptied.map(({ leaseId }) => leaseId).slice(0, MESSAGE_ITEMS_MAX);
      const release = { worker_id: workerId, code_version: codeVersion, results: [] };
      // Only a courtesy: a lease without tasks runs out by itself.
      await connection.report({ ...release, released_leases }).catch(() => undefined);
    },
  };
}

/** Refusals of a result by itself: it is reported as a failure instead. */
const REFUSAL_CODES: ReadonlySet<ErrorCode> = new Set(["INPUT_INVALID", "SELECTION_TOO_LARGE"]);

function reportOutbox(
  { connection, workerId, codeVersion, clock, random, logger, rides }: TaskMessagesOptions,
  lines: ReturnType<typeof logOutbox>,
  leases: EmptiedLeases,
): Outbox<Report> {
  const reports = new Outbox<Report>({
    itemsMax: MESSAGE_ITEMS_MAX,
    gatherMs: 0,
    triesMax: Number.POSITIVE_INFINITY,
    // Each attempt is reported by itself, so the order of reports means nothing.
    besideMin: REPORTS_BESIDE_MIN,
    clock,
    random,
    isWanted({ attempt }) {
      const { deadAt } = attempt.lease;
      return !attempt.isLost && (deadAt === null || clock.now() < deadAt);
    },
    giveUp({ attempt, isReplacement }, error) {
      if (error !== null && REFUSAL_CODES.has(error.code) && !isReplacement) {
        const message = `The server refused the result: ${error.message}`.slice(0, 2_000);
        const outcome: TaskOutcome = { outcome: "FAILED", error: { class: "input", message } };
        reports.add({ attempt, outcome, isReplacement: true });
        return;
      }
      logger.warn(
        { task: attempt.ref, code: error?.code ?? "LEASE_LOST" },
        "A result was dropped: its lease is lost or the server does not take it.",
      );
      leases.drop(attempt);
    },
    async send(items) {
      // Lines belong to the attempt: after its end the server would refuse them. Those that others
      // write meanwhile are not waited for, or one that never stops would keep all from being reported.
      await lines.end(items.map(({ attempt }) => attempt));
      const released = [...leases.all(), ...leasesEnding(items)].slice(0, MESSAGE_ITEMS_MAX);
      const answer = await rides.along((claim) =>
        connection.report({
          worker_id: workerId,
          code_version: codeVersion,
          results: items.map(resultOf),
          released_leases: released.map(({ leaseId }) => leaseId),
          ...claim,
        }),
      );
      leases.reported(
        items.map(({ attempt }) => attempt),
        released,
      );
      const lost = answer.results.filter((each) => each === "lost").length;
      if (lost > 0) logger.warn({ lost }, "Results came too late and were not recorded.");
    },
  });
  return reports;
}

function resultOf({ attempt, outcome }: Report): ReportedResult {
  return { ...attempt.ref, ...outcome };
}

/** The leases that may be released once these are reported: they have no other task left. */
function leasesEnding(items: readonly Report[]): WorkerLease[] {
  const counts = new Map<WorkerLease, number>();
  for (const { attempt } of items) counts.set(attempt.lease, (counts.get(attempt.lease) ?? 0) + 1);
  return [...counts]
    .filter(([lease, count]) => lease.unreported === count && !lease.isForsaken)
    .map(([lease]) => lease);
}

function checkpointOutbox(
  connection: WorkerConnection,
  clock: Clock,
  random: () => number,
): Outbox<Checkpoint> {
  return new Outbox<Checkpoint>({
    itemsMax: MESSAGE_ITEMS_MAX,
    gatherMs: 0,
    triesMax: Number.POSITIVE_INFINITY,
    clock,
    random,
    isWanted: ({ attempt }) => !attempt.isEnded && !attempt.isLost,
    giveUp: ({ reject }, error) => reject(error ?? lostCheckpoint()),
    async send(items) {
      // The newest of each task is enough, and the only one that may be in one message.
      const newest = new Map(items.map(({ attempt, value }) => [attempt, value]));
      const attempts = [...newest.keys()];
      const { accepted } = await connection.checkpoint({
        items: attempts.map((attempt) => ({ ...attempt.ref, value: newest.get(attempt) ?? null })),
      });
      const refused = new Set(attempts.filter((_, at) => accepted[at] !== true));
      for (const { attempt, resolve, reject } of items) {
        if (!refused.has(attempt)) {
          resolve();
          continue;
        }
        attempt.stop({ type: "lost", message: "The task belongs to another attempt by now." });
        reject(lostCheckpoint());
      }
    },
  });
}

function lostCheckpoint(): PawlError {
  return new PawlError("LEASE_LOST", "The checkpoint is not kept: this attempt is over.");
}

function logOutbox(
  connection: WorkerConnection,
  clock: Clock,
  random: () => number,
  logger: WorkerLogger,
) {
  /** Of an attempt: its lines that wait, and those that were dropped since that was last said. Most have none. */
  const counts = new WeakMap<TaskAttempt, { waiting: number; dropped: number }>();
  const countsOf = (attempt: TaskAttempt): { waiting: number; dropped: number } => {
    const known = counts.get(attempt) ?? { waiting: 0, dropped: 0 };
    counts.set(attempt, known);
    return known;
  };
  const outbox = new Outbox<Line>({
    itemsMax: LOG_BATCH_MAX,
    gatherMs: LOG_GATHER_MS,
    triesMax: LOG_TRIES_MAX,
    clock,
    random,
    isWanted: ({ attempt }) => !attempt.isLost,
    giveUp({ attempt }, error) {
      countsOf(attempt).waiting--;
      if (error !== null) logger.warn({ code: error.code }, "A log line could not be kept.");
    },
    async send(items) {
      await connection.log({
        items: items.map(({ attempt, message, fields, endsAttempt }) => {
          const line = { ...attempt.ref, message, fields };
          return endsAttempt ? { ...line, ends_attempt: true } : line;
        }),
      });
      for (const { attempt } of items) countsOf(attempt).waiting--;
    },
  });
  const put = (line: Line): void => {
    countsOf(line.attempt).waiting++;
    outbox.add(line);
  };
  /** So that a log says where something is not in it, at its end too. */
  const sayDropped = (attempt: TaskAttempt): void => {
    const known = counts.get(attempt);
    if (known === undefined || known.dropped === 0) return;
    const { dropped } = known;
    known.dropped = 0;
    const message = `${dropped} lines were dropped here: more came than could be sent.`;
    put({ attempt, message, fields: levelFields("warn"), endsAttempt: false });
  };

  return {
    flush: () => outbox.flush(),
    /** Resolves once all that these attempts logged is delivered or given up. */
    async end(attempts: readonly TaskAttempt[]): Promise<void> {
      for (const attempt of attempts) sayDropped(attempt);
      const waits = (attempt: TaskAttempt): boolean => (counts.get(attempt)?.waiting ?? 0) > 0;
      if (attempts.some(waits)) await outbox.flushPresent();
    },
    add(attempt: TaskAttempt, message: string, fields: Json, endsAttempt: boolean): void {
      // An attempt ends once, so these are no more than there are tasks.
      if (countsOf(attempt).waiting >= LOG_LINES_MAX - outbox.waitingCount && !endsAttempt) {
        countsOf(attempt).dropped++;
        return;
      }
      sayDropped(attempt);
      put({ attempt, ...keptLine(message, fields), endsAttempt });
    },
  };
}
