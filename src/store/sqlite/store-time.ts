import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import { SteadyClock } from "../steady-clock.ts";
import type { WorkspaceId } from "../store.ts";
import type { Connection } from "./connection.ts";

const FIND_SEEN = "select seen_at from clock where id = 1";
const NOTE_SEEN = `
insert into clock (id, seen_at)
values (1, ?)
on conflict (id) do update set seen_at = excluded.seen_at`;
const TOTAL_CHANGES = "select total_changes()";
const EVENT_AT = "select occurred_at from events where ws = ? and pos = ?";

/** How old the note of the time may be: so much of it may come again after a restart. */
const NOTED_EVERY_MS = 1_000;

/**
 * The time of an embedded store: never before its newest event, nor before what an earlier process
 * has seen. That is noted with what is written anyway, so it costs no write of its own.
 */
export class StoreTime {
  readonly #connection: Connection;
  readonly #clock: () => number;
  readonly #steady: SteadyClock;
  #notedMs: number;
  /** Rows that the connection had changed when the time was last noted. */
  #changes = 0;

  constructor(connection: Connection, clock: () => number, elapsedMs: () => number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#steady = new SteadyClock(elapsedMs);
    const [seenAt] = connection.row(FIND_SEEN) ?? [];
    this.#notedMs = typeof seenAt === "string" ? epochMsOf(seenAt) : Number.NEGATIVE_INFINITY;
    this.#steady.atLeast(this.#notedMs);
  }

  now(): Instant {
    return instantOf(this.#steady.at(this.#clock()));
  }

  /** The time of a transaction that follows the event at a position. */
  afterEvent(ws: WorkspaceId, pos: number): Instant {
    const [at] = this.#connection.row(EVENT_AT, [ws, pos]) ?? [];
    if (typeof at === "string") this.#steady.atLeast(epochMsOf(at));
    return this.now();
  }

  /** Notes how late it is, at the end of a transaction that wrote something. */
  note(): void {
    const ms = this.#steady.at(this.#clock());
    if (ms - this.#notedMs < NOTED_EVERY_MS) return;
    const changes = this.#totalChanges();
    if (changes === this.#changes) return;
    this.#connection.run(NOTE_SEEN, [instantOf(ms)]);
    this.#notedMs = ms;
    this.#changes = this.#totalChanges();
  }

  #totalChanges(): number {
    return Number(this.#connection.row(TOTAL_CHANGES)?.[0]);
  }
}
