import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { CheckpointRequest } from "../core/protocol.ts";
import type { CheckpointSize } from "../store/store.ts";

/** How much of what tasks say is kept. */
export type SaidLimits = {
  /** Most bytes of one checkpoint. */
  checkpointBytesMax: number;
  /** Most bytes of the checkpoints of one run. */
  checkpointBytesRunMax: number;
  /** Most bytes of all checkpoints of unfinished runs; one token may have half of them. */
  checkpointsBytesMax: number;
  /** Most bytes of the log of one run. */
  logBytesRunMax: number;
  /** Most bytes of log lines in an hour; of one token half of them. */
  logBytesHourlyMax: number;
  /** Most bytes of all logs: those of ended runs are dropped before that, the oldest first. */
  logsBytesMax: number;
  /** How long the log of an ended run is kept. */
  logsKeptMs: number;
};

/** The limits where nothing else is said. */
export const SAID_LIMITS: SaidLimits = {
  checkpointBytesMax: 4_194_304,
  checkpointBytesRunMax: 268_435_456,
  checkpointsBytesMax: 1_073_741_824,
  logBytesRunMax: 67_108_864,
  logBytesHourlyMax: 1_073_741_824,
  logsBytesMax: 4_294_967_296,
  logsKeptMs: 30 * 24 * 3_600_000,
};

/** The pause between two measurements: they go through all checkpoints. */
const MEASURED_MS = 1_000;

/** Bytes of checkpoints by token and by run, as measured, with all that was sent since on top. */
type Sizes = { holders: Map<string, number>; runs: Map<number, number> };

/** What measures checkpoints, and the time. */
export type CheckpointMeasuring = {
  measure: () => Promise<readonly CheckpointSize[]>;
  elapsedMs: () => number;
  pause: (ms: number) => Promise<void>;
};

/**
 * Keeps checkpoints within their limits, by run, token and workspace, so that they cannot fill the
 * disk. One that is written over counts twice until they are measured again, so nothing is refused
 * without that.
 */
export class CheckpointBudget {
  readonly #limits: SaidLimits;
  readonly #measuring: CheckpointMeasuring;
  #sizes: Sizes | null = null;
  #measuredMs = Number.NEGATIVE_INFINITY;
  /** The next measurement, while it has not begun. */
  #next: Promise<Sizes> | null = null;

  constructor(limits: SaidLimits, measuring: CheckpointMeasuring) {
    this.#limits = limits;
    this.#measuring = measuring;
  }

  /** Refuses with `QUOTA_EXCEEDED` checkpoints that are too large, by themselves or with the others. */
  async take(holder: string, items: CheckpointRequest["items"]): Promise<void> {
    const runs = new Map<number, number>();
    const { checkpointBytesMax: most } = this.#limits;
    for (const { run_pos, value } of items) {
      const size = bytesOf(value);
      if (size > most) {
        throw exceeded(`A checkpoint has ${size} bytes; at most ${most} are kept.`, size, most);
      }
      runs.set(run_pos, (runs.get(run_pos) ?? 0) + size);
    }
    const known = this.#sizes ?? (await this.#measured());
    if (this.#refusal(known, holder, runs) !== null) {
      const refusal = this.#refusal(await this.#measured(), holder, runs);
      if (refusal !== null) throw refusal;
    }
    for (const [runPos, bytes] of runs) this.#add(holder, runPos, bytes);
  }

  /** Why so many bytes more of these runs are not kept; null when they are. */
  #refusal(sizes: Sizes, holder: string, runs: ReadonlyMap<number, number>): PawlError | null {
    const { checkpointBytesRunMax: ofRun, checkpointsBytesMax: all } = this.#limits;
    for (const [runPos, bytes] of runs) {
      if ((sizes.runs.get(runPos) ?? 0) + bytes <= ofRun) continue;
      return exceeded(
        `The checkpoints of the run have as many bytes as are kept: ${ofRun}.`,
        bytes,
        ofRun,
      );
    }
    const bytes = [...runs.values()].reduce((sum, each) => sum + each, 0);
    if (!isOver(sizes.holders, holder, bytes, all)) return null;
    return exceeded(
      `The checkpoints of unfinished runs have as many bytes as are kept: ${all}, of which one ` +
        "token may have half.",
      bytes,
      all,
    );
  }

  #add(holder: string, runPos: number, bytes: number): void {
    if (this.#sizes === null) return;
    const { holders, runs } = this.#sizes;
    holders.set(holder, (holders.get(holder) ?? 0) + bytes);
    runs.set(runPos, (runs.get(runPos) ?? 0) + bytes);
  }

  /** A measurement that begins after this; all who wait for it share it. */
  #measured(): Promise<Sizes> {
    this.#next ??= this.#measureSoon();
    return this.#next;
  }

  async #measureSoon(): Promise<Sizes> {
    const { measure, elapsedMs, pause } = this.#measuring;
    const waitMs = this.#measuredMs + MEASURED_MS - elapsedMs();
    await (waitMs > 0 ? pause(waitMs) : null);
    this.#measuredMs = elapsedMs();
    this.#next = null;
    const sizes: Sizes = { holders: new Map(), runs: new Map() };
    for (const { run_pos, holder, bytes } of await measure()) {
      sizes.holders.set(holder, (sizes.holders.get(holder) ?? 0) + bytes);
      sizes.runs.set(run_pos, (sizes.runs.get(run_pos) ?? 0) + bytes);
    }
    this.#sizes = sizes;
    return sizes;
  }
}

/** Whether all have more than this with so many bytes on top, or one of them more than half. */
export function isOver(
  known: ReadonlyMap<string, number>,
  holder: string,
  bytes: number,
  most: number,
): boolean {
  const all = [...known.values()].reduce((sum, each) => sum + each, bytes);
  return all > most || (known.get(holder) ?? 0) + bytes > most / 2;
}

/** How many bytes a value has as JSON. */
export function bytesOf(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Refuses what has more bytes than are kept. */
export function exceeded(message: string, bytes: number, bytes_max: number): PawlError {
  return new PawlError("QUOTA_EXCEEDED", message, { details: { bytes, bytes_max } });
}
