import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Probe, ProbeEnd, ProbeKind, Reader, Store, WorkspaceId } from "../../store/store.ts";
import type { Decide } from "../../work/decision.ts";
import { type Actor, holderOf, type RecordedEvent } from "../../work/envelope.ts";
import type { EventType } from "../../work/events.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import { checkToken } from "../claim-queue.ts";
import { type DecisionCause, ENGINE_CAUSE } from "../commit.ts";
import { isStoreFailure, reasonOf } from "../commit-loop.ts";
import type { Environment } from "../config.ts";
import { SerialLoop } from "../sweeper.ts";
import { PollWaits, PROBES_READ_MAX, ProbeTable, timerMs } from "./probe-table.ts";

/** How often all probes are compared with the rows. */
const SWEEP_MS = 30_000;
/** The pause before news of the ledger are read, so that many are read at once. */
const NEWS_MS = 20;
/** Most news that are read; behind more of them all probes are compared. */
const NEWS_MAX = 1_000;
/** How often waiting claims find out that another server was asked for a poll. */
const ELSEWHERE_MS = 1_000;
/** Goes of one step in which the server polls by itself. */
const ROUNDS_MAX = 20;

/** What polls need of the engine: the store, and how decisions are recorded, or only reckoned. */
export type PollHost = {
  store: Store;
  ws: WorkspaceId;
  environment: Environment;
  record: <Result>(decide: Decide<Result>, cause: DecisionCause) => Promise<Result>;
  reckon: <Result>(decide: Decide<Result>) => Promise<Result>;
  /** How long a poll is a worker's without a heartbeat. */
  leaseMs: number;
};

/** A lease on a poll; `attempt` is its fence. */
type PollRef = { probe_id: string; attempt: number };

/** A worker's wish for polls. */
type PollClaim = { worker_id: string; slots: number; wait_ms: number };

/** What came of a poll, or that it was given back. */
type PollResult = PollRef & { outcome: { type: string } };

/** A result that was not given back. */
export type Made<Result extends PollResult> = Result & {
  outcome: Exclude<Result["outcome"], { type: "released" }>;
};

/** What a claim leased. */
export type Take<Claimed, Result extends PollResult> = {
  claimed: Claimed[];
  /** What the server found out by itself, to be recorded at once. */
  made: Made<Result>[];
  /** How long nothing can be due unless something is heard; null when only news can change that. */
  waitMs: () => Promise<number | null>;
};

/** What a report decided: when the poll is due again, null for never, and what its probe remembers. */
export type Decided<Verdict> = { verdict: Verdict; due_at: Instant | null; value: Json };

/**
 * How much an event changes of what is polled: a few probes, possibly all of them, or only that the
 * server has something to poll by itself, which has a moment's time.
 */
export type PollChange = "some" | "all" | "soon";

/**
 * A kind of poll: what is polled and when, what a worker is handed, and what its report decides. Each
 * poll is a probe in a side table, which may be lost at any time: all are made again from the rows.
 */
export interface PollKind<Claim, Claimed, Result extends PollResult, Verdict> {
  /** What is polled, for the log. */
  readonly name: string;
  /** The events of other servers that `note` has to hear of. */
  readonly followed: readonly EventType[];
  /**
   * The probes that may be polled twice at once without harm: those of whoever seems to be gone are
   * free at once, and need not wait for the end of their lease.
   */
  readonly repeatable: readonly ProbeKind[];
  /** Notes what an event changes of what is polled; null when nothing. */
  note(event: RecordedEvent): PollChange | null;
  /** Makes the probes that are missing and removes those that nobody needs: of what was noted, or all. */
  refresh(isAll: boolean, now: Instant): Promise<void>;
  /** Leases polls that are due to a worker; without a claim, those that the server makes by itself. */
  take(claim: Claim | null, holder: string | null): Promise<Take<Claimed, Result>>;
  /** Records what came of polls that are still whose they were. */
  record(
    results: readonly { result: Made<Result>; probe: Probe }[],
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>[]>;
  /** Whether another server may have been asked for a poll; left out when nobody can ask. */
  isAskedElsewhere?(reader: Reader): Promise<boolean>;
}

/** What the engine does with polls of any kind. */
export type Polling = Pick<
  Polls<PollClaim, PollRef, PollResult, string>,
  "start" | "stop" | "committed" | "appendedElsewhere" | "tick"
>;

/**
 * Hands polls of one kind to workers, makes those that need no code, and takes in what came of them.
 * Only a result that changes something takes the workspace lock, and an idle system only reads.
 */
export class Polls<
  Claim extends PollClaim,
  Claimed extends PollRef,
  Result extends PollResult,
  Verdict,
> {
  readonly #host: PollHost;
  readonly #kind: PollKind<Claim, Claimed, Result, Verdict>;
  readonly #probes: ProbeTable;
  readonly #waits: PollWaits;
  readonly #steps: SerialLoop;
  /** What this server gave to workers, who have not reported it, by probe; of repeatable polls. */
  readonly #held = new Map<string, { worker: string; attempt: number }>();
  #followedPos: number | null = null;
  #hasNews = false;
  #isSweepDue = true;
  #isFreed = false;
  #stopped = false;
  #cancelSweepTimer: (() => void) | null = null;
  #cancelNewsTimer: (() => void) | null = null;
  #cancelElsewhereTimer: (() => void) | null = null;
  /** Whether it acts by itself, and hears what changes. */
  isStarted = false;
  /** Results that came too late, since the server started. */
  lost = 0;
  lastReportAt: Instant | null = null;

  constructor(host: PollHost, kind: PollKind<Claim, Claimed, Result, Verdict>) {
    const { environment } = host;
    this.#host = host;
    this.#kind = kind;
    this.#probes = new ProbeTable(host);
    this.#waits = new PollWaits(environment);
    this.#steps = new SerialLoop(
      environment,
      () => this.#stepOnce(),
      (reason) => {
        environment.warn(`looking after ${kind.name} failed`, { reason });
        this.#isSweepDue = true;
      },
    );
  }

  /** Begins to act by itself. */
  start(): void {
    this.isStarted = true;
    this.#sweepLater();
    this.#steps.ask();
  }

  /** Ends waiting claims and lets the step under way finish. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelSweepTimer?.();
    this.#cancelNewsTimer?.();
    this.#cancelElsewhereTimer?.();
    this.#waits.wake();
    await this.#steps.stop();
  }

  /** Hears what this server committed. */
  committed(events: readonly RecordedEvent[]): void {
    if (!this.isStarted) return;
    const changes = new Set(events.map((event) => this.#note(event)));
    if (changes.has("some") || changes.has("all")) this.#steps.ask();
    else if (changes.has("soon")) this.#stepSoon();
  }

  /** Hears that another server committed something. */
  appendedElsewhere(): void {
    if (!this.isStarted || this.#kind.followed.length === 0) return;
    this.#hasNews = true;
    this.#stepSoon();
  }

  /** One full step: all probes are brought in step with the rows, and what the server can poll is. */
  async tick(): Promise<void> {
    this.#isSweepDue = true;
    await this.#steps.makeAll();
  }

  /** Hears that there is a probe more than before. */
  added(): void {
    if (this.isStarted) this.#steps.ask();
    else this.#waits.wake();
  }

  /** Gives a worker polls, waiting for some to fall due. */
  async claim(claim: Claim, signal: AbortSignal | undefined, actor: Actor): Promise<Claimed[]> {
    const { store, ws } = this.#host;
    const patience = this.#waits.patience(claim.wait_ms, signal);
    this.#lookElsewhere();
    try {
      for (;;) {
        await checkToken(store, ws, actor);
        const claimed = await this.#tryClaim(claim, actor, patience, signal);
        if (claimed !== null) return claimed;
      }
    } finally {
      patience.end();
      if (signal?.aborted === true) await this.#giveBackOf(workerKey(claim, actor));
    }
  }

  /** Takes in what came of polls. */
  async report(
    results: readonly Result[],
    cause: DecisionCause,
  ): Promise<(Verdict | "lost" | "unchanged")[]> {
    const verdicts = await this.#record(results, cause);
    this.#waits.wake();
    return verdicts;
  }

  /** One look for a claim; when nothing is due, waits until something may be, and answers null. */
  async #tryClaim(
    claim: Claim,
    actor: Actor,
    patience: { isOver(): boolean },
    signal: AbortSignal | undefined,
  ): Promise<Claimed[] | null> {
    const heard = this.#waits.listen();
    try {
      const { claimed, made, waitMs } = await this.#kind.take(claim, holderOf(actor));
      if (signal?.aborted === true) {
        await this.#giveBack([...claimed, ...made]);
        return [];
      }
      if (made.length > 0) await this.#record(made, ENGINE_CAUSE);
      if (this.#kind.repeatable.length > 0) {
        const worker = workerKey(claim, actor);
        for (const { probe_id, attempt } of claimed) this.#held.set(probe_id, { worker, attempt });
      }
      if (claimed.length > 0 || patience.isOver() || this.#stopped) return claimed;
      await heard.until(await waitMs());
      return null;
    } finally {
      heard.end();
    }
  }

  /**
   * Records results. The fence is looked at first and ended last: after a crash in between the poll is
   * made again, and what it decides has no second effect.
   */
  async #record(
    results: readonly Result[],
    cause: DecisionCause,
  ): Promise<(Verdict | "lost" | "unchanged")[]> {
    const now = await this.#host.store.now();
    this.lastReportAt = now;
    const ids = [...new Set(results.map(({ probe_id }) => probe_id))];
    const probes = await this.#probes.read((reader) => reader.probes(ids));
    const probeOf = new Map(probes.map((probe) => [probe.probe_id, probe]));
    const verdicts = results.map((): Verdict | "lost" | "unchanged" => "lost");
    const held: { at: number; result: Made<Result>; probe: Probe }[] = [];
    const ends: ProbeEnd[] = [];
    for (const [at, result] of results.entries()) {
      const probe = probeOf.get(result.probe_id);
      probeOf.delete(result.probe_id);
      if (probe === undefined || !isHeldBy(probe, result.attempt, cause.actor)) continue;
      this.#held.delete(probe.probe_id);
      if (isMade(result)) {
        held.push({ at, result, probe });
      } else {
        verdicts[at] = "unchanged";
        ends.push(freed(probe));
      }
    }
    const decided = held.length === 0 ? [] : await this.#kind.record(held, cause, now);
    for (const [n, { verdict, ...end }] of decided.entries()) {
      const made = held[n];
      if (made === undefined) continue;
      const { probe_id, attempt } = made.probe;
      verdicts[made.at] = verdict;
      ends.push({ probe_id, attempt, ...end });
    }
    await this.#probes.settle(ends);
    this.lost += verdicts.filter((verdict) => verdict === "lost").length;
    return verdicts;
  }

  /**
   * A worker always has a claim waiting here; one that hangs up has died, most likely, and would keep
   * its polls from others until its leases run out. If it lives, a poll is made twice.
   */
  async #giveBackOf(worker: string): Promise<void> {
    const held = [...this.#held].filter(([, each]) => each.worker === worker);
    for (const [probe_id] of held) this.#held.delete(probe_id);
    await this.#giveBack(held.map(([probe_id, { attempt }]) => ({ probe_id, attempt })));
  }

  /** Nobody listens any more: the polls are free again, and as due as they were. */
  async #giveBack(refs: readonly PollRef[]): Promise<void> {
    if (refs.length === 0) return;
    const attemptOf = new Map(refs.map(({ probe_id, attempt }) => [probe_id, attempt]));
    const probes = await this.#probes.read((reader) => reader.probes([...attemptOf.keys()]));
    const current = probes.filter(
      ({ probe_id, attempt, leased_until }) =>
        leased_until !== null && attemptOf.get(probe_id) === attempt,
    );
    await this.#probes.settle(current.map(freed));
    this.#waits.wake();
  }

  #sweepLater(): void {
    this.#cancelSweepTimer = this.#host.environment.timer(SWEEP_MS, () => {
      this.#isSweepDue = true;
      this.#steps.ask();
      this.#sweepLater();
    });
  }

  /** A step in a moment, for news that come in numbers. */
  #stepSoon(): void {
    this.#cancelNewsTimer ??= this.#host.environment.timer(NEWS_MS, () => {
      this.#cancelNewsTimer = null;
      this.#steps.ask();
    });
  }

  async #stepOnce(): Promise<void> {
    await this.#freeAtStart();
    await this.#readNews();
    await this.#refresh();
    const ms = await this.#serve();
    this.#waits.wake();
    if (ms === null || !this.isStarted) return;
    this.#steps.askAfter(timerMs(ms));
  }

  /** Whoever was polling when the server went may have gone with it; nobody should wait for them. */
  async #freeAtStart(): Promise<void> {
    if (this.#isFreed || !this.isStarted) return;
    for (const kind of this.#kind.repeatable) {
      const probes = await this.#probes.read((reader) =>
        reader.probesOf(kind, null, PROBES_READ_MAX),
      );
      await this.#giveBack(probes.filter(({ leased_until }) => leased_until !== null));
    }
    this.#isFreed = true;
  }

  #note(event: RecordedEvent): PollChange | null {
    const change = this.#kind.note(event);
    if (change === "all") this.#isSweepDue = true;
    return change;
  }

  /** Notes what other servers committed. */
  async #readNews(): Promise<void> {
    const types = this.#kind.followed;
    const after = this.#followedPos;
    if (types.length === 0 || (after !== null && !this.#hasNews)) return;
    this.#hasNews = false;
    const { pos, events } = await this.#probes.read(async (reader) => ({
      pos: (await reader.head()).pos,
      events: after === null ? [] : await reader.events({ after, types, limit: NEWS_MAX }),
    }));
    for (const event of events) this.#note(event);
    if (events.length === NEWS_MAX) this.#isSweepDue = true;
    this.#followedPos = pos;
  }

  async #refresh(): Promise<void> {
    const isAll = this.#isSweepDue;
    this.#isSweepDue = false;
    try {
      await this.#kind.refresh(isAll, await this.#host.store.now());
    } catch (error) {
      // What was noted is lost with this step: the next one compares everything.
      this.#isSweepDue = true;
      throw error;
    }
  }

  /** Polls what needs no worker; answers after how many milliseconds the next of it is due. */
  async #serve(): Promise<number | null> {
    for (let round = 0; round < ROUNDS_MAX && !this.#stopped; round++) {
      const { made, waitMs } = await this.#kind.take(null, null);
      if (made.length === 0) return waitMs();
      await this.#record(made, ENGINE_CAUSE);
    }
    this.#steps.ask();
    return null;
  }

  /** While claims wait, looks for polls that another server was asked for. */
  #lookElsewhere(): void {
    const kind = this.#kind;
    if (kind.isAskedElsewhere === undefined) return;
    if (this.#cancelElsewhereTimer !== null || this.#stopped) return;
    this.#cancelElsewhereTimer = this.#host.environment.timer(ELSEWHERE_MS, () => {
      this.#cancelElsewhereTimer = null;
      if (this.#waits.size === 0) return;
      this.#probes
        .read(async (reader) => kind.isAskedElsewhere?.(reader))
        .then(
          (isAsked) => {
            if (isAsked === true) this.#waits.wake();
          },
          // A store that is away is heard of by those who need it.
          () => undefined,
        )
        .finally(() => this.#lookElsewhere());
    });
  }
}

/** A worker by its own name and its token: names are made up, and may be somebody else's. */
export function workerKey({ worker_id }: { worker_id: string }, actor: Actor): string {
  return `${holderOf(actor)}/${worker_id}`;
}

function isMade<Result extends PollResult>(result: Result): result is Made<Result> {
  return result.outcome.type !== "released";
}

/** Whether the actor may say what came of a probe: it has the lease, or is the server itself. */
function isHeldBy(probe: Probe, attempt: number, actor: Actor): boolean {
  if (probe.attempt !== attempt || probe.leased_until === null) return false;
  return actor === ENGINE_CAUSE.actor || probe.leased_by === holderOf(actor);
}

/** The end of a poll that was not made: it is free again, and as due as it was. */
function freed({ probe_id, attempt, due_at, value }: Probe): ProbeEnd {
  return { probe_id, attempt, due_at, value };
}

/** The failure in place of a result that could not be recorded; throws what is the store's fault. */
export function refusalOf(what: string, error: unknown): Failure {
  if (!(error instanceof PawlError) || isStoreFailure(error)) throw error;
  return { class: "input", message: `${what} could not be recorded: ${reasonOf(error)}` };
}
