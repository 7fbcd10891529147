import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { CheckpointRequest } from "../core/protocol.ts";

/** How much of what tasks say is kept. */
export type SaidLimits = {
  /** Most bytes of one checkpoint. */
  checkpointBytesMax: number;
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
  checkpointsBytesMax: 1_073_741_824,
  logBytesRunMax: 67_108_864,
  logBytesHourlyMax: 1_073_741_824,
  logsBytesMax: 4_294_967_296,
  logsKeptMs: 30 * 24 * 3_600_000,
};

/** How old a measurement may be when it refuses something: checkpoints go as runs end. */
const MEASURED_MS = 1_000;

/** Keeps checkpoints within their limits, by token and workspace, so that they cannot fill the disk. */
export class CheckpointBudget {
  readonly #limits: SaidLimits;
  readonly #measure: () => Promise<ReadonlyMap<string, number>>;
  readonly #elapsedMs: () => number;
  /** Bytes of checkpoints by token, as measured, with all that was sent since on top. */
  #checkpoints: Map<string, number> | null = null;
  #measuredMs = Number.NEGATIVE_INFINITY;

  constructor(
    limits: SaidLimits,
    /** The bytes of all checkpoints, by the token that claimed their task. */
    measure: () => Promise<ReadonlyMap<string, number>>,
    elapsedMs: () => number,
  ) {
    this.#limits = limits;
    this.#measure = measure;
    this.#elapsedMs = elapsedMs;
  }

  /** Refuses with `QUOTA_EXCEEDED` checkpoints that are too large, by themselves or with the others. */
  async take(holder: string, items: CheckpointRequest["items"]): Promise<void> {
    const { checkpointBytesMax: most, checkpointsBytesMax: all } = this.#limits;
    let bytes = 0;
    for (const { value } of items) {
      const size = bytesOf(value);
      bytes += size;
      if (size > most) {
        throw exceeded(`A checkpoint has ${size} bytes; at most ${most} are kept.`, size, most);
      }
    }
    const known = await this.#known(false);
    if (isOver(known, holder, bytes, all) && isOver(await this.#known(true), holder, bytes, all)) {
      throw exceeded(
        `The checkpoints of unfinished runs have as many bytes as are kept: ${all}, of which one ` +
          "token may have half.",
        bytes,
        all,
      );
    }
    this.#checkpoints?.set(holder, (this.#checkpoints.get(holder) ?? 0) + bytes);
  }

  async #known(isRefusing: boolean): Promise<ReadonlyMap<string, number>> {
    const age = this.#elapsedMs() - this.#measuredMs;
    if (this.#checkpoints === null || (isRefusing && age >= MEASURED_MS)) {
      this.#measuredMs = this.#elapsedMs();
      this.#checkpoints = new Map(await this.#measure());
    }
    return this.#checkpoints;
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
