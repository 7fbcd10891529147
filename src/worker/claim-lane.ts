import { ulid } from "ulid";
import type { WorkerConnection } from "../client/worker-connection.ts";
import { CLAIM_SLOTS_MAX, type ClaimAlong, type ClaimAnswer } from "../work/run/protocol.ts";
import { type Clock, pause } from "./outbox.ts";
import type { WorkerLogger } from "./run-worker.ts";
import type { TaskRunner } from "./tasks/runner.ts";
import {
  claimPatiently,
  ClaimPace,
  type ClaimRides,
  letGoOf,
  type TaskSlots,
} from "./tasks/task-slots.ts";

/** How long a claim waits for work. */
const CLAIM_WAIT_MS = 20_000;
/** How long few free slots wait for more of them: half of the 20 ms that a slot may stand empty. */
const SLOTS_GATHER_MS = 10;
/** The part of a lease that may have gone by when it is taken for new. */
const FRESH_PART = 6;
/** A claim that came back empty sooner than this was not kept waiting; the next one waits here. */
const EMPTY_CLAIM_MS = 100;
/** How long a worker that stops waits to hear what the claim got that it let go. */
const LET_GO_MS = 3_000;
/** Most claims of a lane that are under way at once: two reports are, so each can have one with it. */
const UNDER_WAY_MAX = 2;

/** Slots, what they are for, and whether they are kept from work of the lowest class. */
export type Claiming = { lane: TaskSlots; assets: readonly string[]; isUrgent: boolean };

/** What claims need of the worker around them. */
export type ClaimLaneOptions = {
  connection: Pick<WorkerConnection, "claim">;
  runner: Pick<TaskRunner, "accept" | "decline" | "solitude">;
  workerId: string;
  codeVersion: string | null;
  logger: WorkerLogger;
  clock: Clock;
  random: () => number;
  rides: ClaimRides;
  /** Makes the ids of leases; ULIDs unless told. */
  newLeaseId?: () => string;
  /** Told when a claim cannot go on: the server will not have this worker. */
  failed: (error: unknown) => void;
};

/** So many slots must be free for a claim beside another one: few are as soon filled by the next. */
const BESIDE_MIN = 32;

/** A claim that is about to be made, or has left with a report. */
type NextClaim = {
  wish: ClaimAlong;
  along: Promise<ClaimAnswer | null> | null;
  /** How long it waits at the server; as long as usual when absent. */
  waitMs?: number;
};

/**
 * Claims tasks for the slots of a lane. As a rule one claim at a time; while one is under way with a
 * report, another may be made when many more slots are free, so that the server decides about one while a
 * worker with short tasks does what the other got.
 */
export class ClaimLane {
  readonly #options: ClaimLaneOptions;
  readonly #claiming: Claiming;
  readonly #pace: ClaimPace;
  /** Claims that have left with reports, until all is done about their answers. */
  readonly #underWay = new Set<Promise<void>>();
  /** Nothing was ready for the claim that went with a report: the next one waits at the server. */
  #isDry = false;
  /** How many answers said that a suspect waits, for as long as they are heeded. */
  #drains = 0;

  constructor(claiming: Claiming, options: ClaimLaneOptions) {
    this.#claiming = claiming;
    this.#options = options;
    const { lane } = claiming;
    this.#pace = new ClaimPace(lane.concurrency, options.clock.now());
    lane.onEnded = () => this.#pace.taskFinished();
    lane.onOverdue = () => this.#pace.slowDown();
  }

  /** Claims until the signal aborts; resolves when nothing more will be accepted. */
  async claimUntil(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const [other] = this.#underWay;
      if (other === undefined) {
        const next = await this.#nextClaim(stop);
        if (next.along !== null) this.#goOn(stop, next);
        else if (!stop.aborted) await this.#hear(stop, next).catch(this.#options.failed);
      } else if (this.#underWay.size >= UNDER_WAY_MAX || this.#isDry) {
        await Promise.race(this.#underWay);
      } else {
        const beside = await this.#claimBeside(stop, other);
        if (beside !== null) this.#goOn(stop, beside);
      }
    }
    await Promise.all(this.#underWay);
  }

  /** Leaves a claim that went with a report to itself. */
  #goOn(stop: AbortSignal, next: NextClaim): void {
    const heard = this.#hear(stop, next)
      .catch(this.#options.failed)
      .finally(() => this.#underWay.delete(heard));
    this.#underWay.add(heard);
  }

  /** Waits for what a claim got, and takes it. */
  async #hear(stop: AbortSignal, { wish, along, waitMs }: NextClaim): Promise<void> {
    const { clock, rides, runner } = this.#options;
    const { lane } = this.#claiming;
    const done = lane.asked(wish.slots);
    try {
      const askedAt = clock.now();
      const answered = along === null ? null : await beforeLetGo(stop, along, clock);
      const claimed =
        answered === null ? await this.#claim(stop, wish, waitMs) : { answer: answered };
      if (claimed === null) return;
      const { answer } = claimed;
      if (stop.aborted) {
        runner.decline(lane, answer);
        return;
      }
      // What went along may have been granted long before this is known.
      const isFresh =
        along === null
          ? "isFresh" in claimed && claimed.isFresh
          : clock.now() - askedAt < answer.ttl_ms / FRESH_PART;
      rides.isTaken = answer.takes_claims_with_reports === true;
      const hasWaited = answered === null && waitMs === undefined;
      this.#isDry = !hasWaited && answer.groups.length === 0;
      this.#pace.claimed(clock.now());
      if (answer.suspects_wait === true) {
        await this.#drain(stop);
        return;
      }
      if (this.#drains === 0) runner.solitude.undrain(lane);
      runner.accept(lane, answer, isFresh, wish.alone);
      if (answer.groups.length === 0 && !this.#isDry && clock.now() - askedAt < EMPTY_CLAIM_MS) {
        await pause(clock, EMPTY_CLAIM_MS, stop);
      }
    } finally {
      done();
    }
  }

  /** Takes nothing more for a while, so that a suspect can run alone. */
  async #drain(stop: AbortSignal): Promise<void> {
    this.#drains++;
    await this.#options.runner.solitude.drain(this.#claiming.lane, stop);
    this.#drains--;
  }

  /**
   * Resolves when it is time for a claim: enough slots are free, or a few have been for long enough; or
   * when a claim for what was free has left with a report.
   */
  async #nextClaim(stop: AbortSignal): Promise<NextClaim> {
    const { rides, runner } = this.#options;
    const { lane } = this.#claiming;
    const left = new AbortController();
    const ride = this.#ride(stop, 1, () => left.abort());
    const slots = await this.#freeSlots(AbortSignal.any([stop, left.signal]));
    // What has just ended is reported in a moment: then both are one message.
    if (!this.#isDry) await rides.untilLeft();
    const next = ride.end();
    if (next !== null) return next;
    if (lane.isPatient) await runner.solitude.untilFree(lane, stop);
    return { wish: this.#wishFor(slots), along: null };
  }

  /**
   * Resolves when it is time for a claim beside another one: many slots are free, and a report leaves or
   * nothing is left to do; null when the other is not under way any more.
   */
  async #claimBeside(stop: AbortSignal, other: Promise<void>): Promise<NextClaim | null> {
    const { rides } = this.#options;
    const { lane } = this.#claiming;
    const over = new AbortController();
    const ride = this.#ride(stop, this.#besideMin, () => over.abort());
    const idle = lane.openAtMost(lane.spokenForCount - lane.openCount, null, over.signal);
    await Promise.race([idle, other]);
    over.abort();
    // What has just ended is reported in a moment: then both are one message.
    await rides.untilLeft();
    const next = ride.end();
    if (next !== null || !this.#underWay.has(other)) return next;
    const isIdle = lane.openCount === 0 && this.#free >= this.#besideMin;
    if (!isIdle || !this.#mayTake || stop.aborted) {
      await other;
      return null;
    }
    return { wish: this.#wishFor(this.#free), along: null, waitMs: 0 };
  }

  get #besideMin(): number {
    return Math.max(BESIDE_MIN, this.#pace.worthwhile);
  }

  /** Has a claim go with the next report that leaves while at least so many slots are free. */
  #ride(stop: AbortSignal, slotsMin: number, left: () => void): { end: () => NextClaim | null } {
    const { rides } = this.#options;
    const { promise: along, resolve } = Promise.withResolvers<ClaimAnswer | null>();
    let wish: ClaimAlong | null = null;
    const callOff = rides.wait(() => {
      const free = this.#free;
      if (free < slotsMin || stop.aborted || !this.#mayTake) return null;
      wish = this.#wishFor(free);
      left();
      return wish;
    }, resolve);
    return {
      end: () => {
        callOff();
        return wish === null ? null : { wish, along };
      },
    };
  }

  #wishFor(slots: number): ClaimAlong {
    const { runner, newLeaseId = ulid } = this.#options;
    const { assets, isUrgent } = this.#claiming;
    return {
      lease_id: newLeaseId(),
      slots,
      assets: [...assets],
      // What another claim is about to bring would be beside it.
      alone: runner.solitude.isEmpty && this.#underWay.size === 0,
      ...(isUrgent ? { backfill_slots: 0 } : {}),
    };
  }

  /** Whether nobody waits for this process to be empty. */
  get #mayTake(): boolean {
    const { lane } = this.#claiming;
    const isFree = !lane.isPatient || this.#options.runner.solitude.isFree(lane);
    return isFree && this.#drains === 0;
  }

  /** How many more tasks the lane would like to hold. */
  get #free(): number {
    return Math.min(CLAIM_SLOTS_MAX, this.#pace.wanted - this.#claiming.lane.spokenForCount);
  }

  /** Resolves when enough slots are free for a claim, or a few have been for long enough; 0 at the signal. */
  async #freeSlots(stop: AbortSignal): Promise<number> {
    const { clock } = this.#options;
    const { lane } = this.#claiming;
    const pace = this.#pace;
    let fewUntil: number | null = null;
    while (!stop.aborted) {
      const free = this.#free;
      const now = clock.now();
      if (free > 0) fewUntil ??= this.#isDry ? now : now + SLOTS_GATHER_MS;
      if (free > 0 && (free >= pace.worthwhile || now >= (fewUntil ?? now))) return free;
      if (fewUntil === null) await lane.openAtMost(pace.wanted - 1, null, stop);
      else await lane.openAtMost(pace.wanted - pace.worthwhile, fewUntil - now, stop);
    }
    return 0;
  }

  /**
   * Claims once, as often as it takes. The lease's id is this worker's, so when an answer is lost
   * the repeated claim gets the same tasks.
   */
  async #claim(
    stop: AbortSignal,
    wish: ClaimAlong,
    waitMs = CLAIM_WAIT_MS,
  ): Promise<{ answer: ClaimAnswer; isFresh: boolean } | null> {
    const { connection, workerId, codeVersion } = this.#options;
    const request = {
      worker_id: workerId,
      ...wish,
      code_version: codeVersion,
      wait_ms: waitMs,
    };
    const ask = (signal: AbortSignal) => connection.claim(request, signal);
    const claimed = await claimPatiently(stop, ask, this.#options);
    if (claimed !== null) return claimed;
    // The claim that was let go may have been granted meanwhile: asking for nothing more tells.
    const again = { ...request, assets: [], wait_ms: 0 };
    const answer = await connection.claim(again, AbortSignal.timeout(LET_GO_MS)).catch(() => null);
    return answer === null ? null : { answer, isFresh: true };
  }
}

/** What a claim with a report got; null when that is not known, or it was let go as the worker stops. */
async function beforeLetGo(
  stop: AbortSignal,
  along: Promise<ClaimAnswer | null>,
  clock: Clock,
): Promise<ClaimAnswer | null> {
  const letGo = letGoOf(stop, clock);
  const gone = new Promise<null>((resolve) => {
    if (letGo.signal.aborted) resolve(null);
    else letGo.signal.addEventListener("abort", () => resolve(null), { once: true });
  });
  return Promise.race([along, gone]).finally(letGo.done);
}
