import type { ClaimedMove, MoveReport } from "../../core/step-protocol.ts";
import type { Shard } from "../../shards/shard.ts";
import type { StepHost } from "../step-host.ts";

/** Longest that is waited at once: in between it is said how far the step is. */
const TURN_MS = 1_000;
/** How long to wait for replicas before looking at them again, and how seldom to look at all. */
const LAG_TURN_MS = 250;
const LAG_EVERY_MS = 1_000;

/** Keeps a copy as slow as it has to be, and says once in a while how far it is. */
export class Pace {
  readonly #host: StepHost<MoveReport>;
  readonly #limits: Pick<ClaimedMove, "rows_per_second" | "replication_lag_ms">;
  readonly #sayEveryMs: number;
  readonly #startedAt: number;
  #saidAt: number;
  #lagSeenAt = Number.NEGATIVE_INFINITY;
  #rows = 0;
  #waitedMs = 0;

  constructor(
    host: StepHost<MoveReport>,
    limits: Pick<ClaimedMove, "rows_per_second" | "replication_lag_ms">,
    sayEveryMs: number,
  ) {
    this.#host = host;
    this.#limits = limits;
    this.#sayEveryMs = sayEveryMs;
    this.#startedAt = host.now();
    this.#saidAt = this.#startedAt;
  }

  /** Time since the beginning, and what of it was work. */
  get elapsedMs(): number {
    return this.#host.now() - this.#startedAt;
  }

  get workMs(): number {
    return Math.max(0, Math.round(this.elapsedMs - this.#waitedMs));
  }

  /** Most rows to take at once: about a second's worth. */
  get rowsAtOnce(): number {
    const { rows_per_second: limit } = this.#limits;
    return limit === null ? Number.MAX_SAFE_INTEGER : Math.max(1, Math.ceil(limit));
  }

  /** Waits until there may be more rows than were taken; answers whether the step is to end. */
  async taken(rows: number, report: () => MoveReport): Promise<boolean> {
    this.#rows += rows;
    const { rows_per_second: limit } = this.#limits;
    const dueAt = limit === null ? 0 : this.#startedAt + (this.#rows / limit) * 1_000;
    for (;;) {
      if (await this.#say(report)) return true;
      const left = dueAt - this.#host.now();
      if (left <= 0) return false;
      await this.#wait(Math.min(left, TURN_MS));
    }
  }

  /** Waits while replicas of the target are too far behind; answers whether the step is to end. */
  async heldBack(target: Shard, report: () => MoveReport): Promise<boolean> {
    const { replication_lag_ms: limit } = this.#limits;
    if (limit === null || this.#host.now() - this.#lagSeenAt < LAG_EVERY_MS) return false;
    for (;;) {
      this.#host.signal.throwIfAborted();
      const lag = await target.replicationLagMs();
      this.#lagSeenAt = this.#host.now();
      if (lag === null || lag <= limit) return false;
      if (await this.#say(report)) return true;
      await this.#wait(LAG_TURN_MS);
    }
  }

  async #wait(ms: number): Promise<void> {
    const from = this.#host.now();
    await this.#host.pause(ms);
    this.#waitedMs += this.#host.now() - from;
    this.#host.signal.throwIfAborted();
  }

  async #say(report: () => MoveReport): Promise<boolean> {
    if (this.#host.now() - this.#saidAt < this.#sayEveryMs) return false;
    this.#saidAt = this.#host.now();
    const { stop } = await this.#host.say(report(), null);
    return stop;
  }
}
