import type pg from "pg";
import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import { SteadyClock } from "../steady-clock.ts";
import { rowsOf } from "./side-rows.ts";

const NOW = "select pawl.instant(clock_timestamp()), (select seen_at from pawl.clock where id = 1)";
const NOTE_SEEN = `
insert into pawl.clock as known (id, seen_at)
values (1, $1)
on conflict (id) do update set seen_at = greatest(known.seen_at, excluded.seen_at)
returning seen_at`;

/** How old the note of the time may be: so much of it may come again after a restart. */
const NOTED_EVERY_MS = 5_000;

/**
 * The time of a store on PostgreSQL: that of the database's clock, but never before the newest event,
 * nor before what any server has seen, and it goes on while that clock is set back.
 */
export class StoreTime {
  readonly #pool: pg.Pool;
  readonly #steady: SteadyClock;
  #aheadMs = 0;
  #notedMs = Number.NEGATIVE_INFINITY;

  constructor(pool: pg.Pool, elapsedMs: () => number) {
    this.#pool = pool;
    this.#steady = new SteadyClock(elapsedMs);
  }

  /** How far the time is ahead of the database's clock, as last seen. */
  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Asks the database. */
  async now(): Promise<Instant> {
    const askedMs = this.asked();
    const [row] = await rowsOf(this.#pool, NOW, []);
    const [clock, seenAt] = row ?? [];
    if (typeof seenAt === "string") this.atLeast(seenAt);
    return this.at(String(clock), askedMs);
  }

  /** When the database is asked, to be told with its answer: how long that takes is no time of its clock. */
  asked(): number {
    return this.#steady.elapsedMs();
  }

  /** The time at which the database's clock says so, in the answer to what was asked then. */
  at(clock: Instant, askedMs: number): Instant {
    const clockMs = epochMsOf(clock);
    const ms = this.#steady.at(clockMs, askedMs);
    this.#aheadMs = ms - clockMs;
    return instantOf(ms);
  }

  /** It is at least so late. */
  atLeast(instant: Instant): void {
    this.#steady.atLeast(epochMsOf(instant));
  }

  /** Notes how late it is, now and then, beside something that was written. */
  async note(now: Instant): Promise<void> {
    const ms = epochMsOf(now);
    if (ms - this.#notedMs < NOTED_EVERY_MS) return;
    this.#notedMs = ms;
    const [row] = await rowsOf(this.#pool, NOTE_SEEN, [now]);
    if (row !== undefined) this.atLeast(String(row[0]));
  }
}
