import { DECISION_ROOM, type Room } from "../controllers/decision.ts";

/** What a commit may come to: whatever is left then waits for the next one. */
export type CommitBounds = {
  readonly events: number;
  /** Rows written and rows looked up. */
  readonly rows: number;
  /** Characters in the bodies of events. */
  readonly bytes: number;
  /** Time since the workspace was locked. */
  readonly ms: number;
};

/**
 * A commit of the whole size. It takes less than a second: others wait for the lock meanwhile, and
 * PostgreSQL ends a transaction of which it hears nothing for two.
 */
const WHOLE: CommitBounds = { events: 8_000, rows: 50_000, bytes: 16_000_000, ms: 1_000 };

/**
 * The part of a commit that each stage may fill. No stage is left out because one before it has much
 * to do, so each gets at least one decision into every commit.
 */
export const STAGE_PARTS = {
  reports: 0.25,
  commands: 0.15,
  sweep: 0.05,
  runs: 0.15,
  backfills: 0.15,
  schedules: 0.05,
  shardWork: 0.05,
  syncs: 0.05,
  claims: 0.1,
} as const;

/** Below this part of the whole size nothing is gained: single decisions are no smaller. */
const SIZE_MIN = 1 / 64;
/** By how much a commit that went well lets the next one grow. */
const GROWTH = 1.1;
/** At this size a smaller commit did not help either, so the next one may take longer. */
const PATIENT_FROM = 1 / 4;

/** How large the next commit may be: half of one that failed, and slowly more with each that goes well. */
export class CommitSize {
  #part = 1;

  /** What the next commit may come to. */
  get bounds(): CommitBounds {
    const { events, rows, bytes, ms } = WHOLE;
    const part = this.#part;
    return { events: events * part, rows: rows * part, bytes: bytes * part, ms: ms * part };
  }

  /** How much one of its decisions should record. */
  get room(): Room {
    const part = this.#part;
    return { rows: DECISION_ROOM.rows * part, bytes: DECISION_ROOM.bytes * part };
  }

  /** Whether a commit this small may take long: what it has to do cannot be cut any further. */
  get isPatient(): boolean {
    return this.#part <= PATIENT_FROM;
  }

  failed(): void {
    this.#part = Math.max(SIZE_MIN, this.#part / 2);
  }

  succeeded(): void {
    this.#part = Math.min(1, this.#part * GROWTH);
  }
}
