import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import type { CheckpointRequest, LogRequest } from "../work/run/protocol.ts";
import type { CheckpointSize, LineVerdict, LogQuota, Store, WorkspaceId } from "../store/store.ts";
import { addMs, type Instant } from "../kernel/instant.ts";
import type { Environment } from "./config.ts";

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

/** Runs that may come on top of those that were measured before they are measured again. */
const NEW_RUNS_MAX = 100_000;

/** Bytes of checkpoints by token and by run, as measured, with all that was kept since on top. */
type Sizes = { holders: Map<string, number>; runs: Map<number, number>; runsMeasured: number };

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

  /**
   * Has checkpoints saved; refuses with `QUOTA_EXCEEDED` those that are too large, by themselves or
   * with the others. `save` says which were: what was not, anybody may send, of any run.
   */
  async keep(
    holder: string,
    items: CheckpointRequest["items"],
    save: () => Promise<boolean[]>,
  ): Promise<boolean[]> {
    const runs = new Map<number, number>();
    const { checkpointBytesMax: most } = this.#limits;
    const bytes = items.map(({ run_pos, value }) => {
      const size = jsonBytes(value);
      if (size > most) {
        throw exceeded(`A checkpoint has ${size} bytes; at most ${most} are kept.`, size, most);
      }
      runs.set(run_pos, (runs.get(run_pos) ?? 0) + size);
      return size;
    });
    let sizes = this.#sizes ?? (await this.#measured());
    if (this.#refusal(sizes, holder, runs) !== null || hasManyNewRuns(sizes)) {
      sizes = await this.#measured();
      const refusal = this.#refusal(sizes, holder, runs);
      if (refusal !== null) throw refusal;
    }
    // Counted before it is saved, so that what comes meanwhile finds it.
    for (const [runPos, size] of runs) add(sizes, holder, runPos, size);
    const accepted = await save();
    for (const [index, { run_pos }] of items.entries()) {
      if (accepted[index] !== true) add(sizes, holder, run_pos, -(bytes[index] ?? 0));
    }
    return accepted;
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
    const sizes: Sizes = { holders: new Map(), runs: new Map(), runsMeasured: 0 };
    for (const { run_pos, holder, bytes } of await measure()) add(sizes, holder, run_pos, bytes);
    sizes.runsMeasured = sizes.runs.size;
    this.#sizes = sizes;
    return sizes;
  }
}

function add({ holders, runs }: Sizes, holder: string, runPos: number, bytes: number): void {
  addTo(holders, holder, bytes);
  addTo(runs, runPos, bytes);
}

function addTo<Name>(bytesOf: Map<Name, number>, name: Name, bytes: number): void {
  const sum = (bytesOf.get(name) ?? 0) + bytes;
  if (sum > 0) bytesOf.set(name, sum);
  else bytesOf.delete(name);
}

function hasManyNewRuns({ runs, runsMeasured }: Sizes): boolean {
  return runs.size > runsMeasured + NEW_RUNS_MAX;
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
export function jsonBytes(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Refuses what has more bytes than are kept. */
export function exceeded(message: string, bytes: number, bytes_max: number): PawlError {
  return new PawlError("QUOTA_EXCEEDED", message, { details: { bytes, bytes_max } });
}

/** Most bytes of the fields of one log line. */
const LOG_FIELDS_BYTES_MAX = 65_536;
/** What a line costs besides its texts, as the store counts it. */
const LINE_BYTES = 100;
const HOUR_MS = 3_600_000;
/** How often it is looked what is too old. */
const EXPIRE_MS = 600_000;
/** How often the logs are measured while something is logged: other servers log too. */
const MEASURE_MS = 10_000;
/** Most lines and about the most bytes that one transaction drops, and how long one step goes on with the next. */
const LINES_DROPPED_MAX = 1_000;
const BYTES_DROPPED_MAX = 16_777_216;
const STEP_MS = 100;
/** Lines of ended runs begin to go when this share of all bytes is used, until it is that share. */
const FULL_SHARE = 0.95;
const ROOM_SHARE = 0.9;
/** What lines that end an attempt may have of each limit, when that is reached. */
const WITH_ENDS_SHARE = 17 / 16;

/**
 * Keeps the logs of a workspace within their limits, so that they cannot fill the disk: by run, by
 * token and hour, and all together. What is beyond is dropped, with a line that says so where it was;
 * logs of ended runs go when they are old, or when there is no room for others.
 */
export class LogBudget {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #environment: Environment;
  readonly #limits: SaidLimits;
  /** Bytes of log lines by token, in the hour that began then. */
  readonly #hourly = new Map<string, number>();
  #hourBeganMs = Number.NEGATIVE_INFINITY;
  /** Bytes of all logs as measured, with what was said since on top; null before the first time. */
  #bytes: number | null = null;
  #measuredMs = Number.NEGATIVE_INFINITY;
  #hasNews = false;
  #expireDueMs = Number.NEGATIVE_INFINITY;
  /** Lines that were not kept, since this server started. */
  dropped = 0;
  /** Lines of ended runs that were dropped as too old, or to make room. */
  expired = 0;

  constructor(store: Store, ws: WorkspaceId, environment: Environment, limits: SaidLimits) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#limits = limits;
  }

  /** Keeps lines as far as there is room; `QUOTA_EXCEEDED` for one with too large fields. */
  async append(holder: string, items: LogRequest["items"]): Promise<LineVerdict[]> {
    const bytes = items.reduce((sum, item) => sum + bytesOfLine(item), 0);
    const known = this.#bytes ?? (await this.#measure());
    const ends = items.filter(({ ends_attempt }) => ends_attempt === true);
    const endBytes = ends.reduce((sum, item) => sum + bytesOfLine(item), 0);
    const quota = {
      ...this.#quotaFor(holder, bytes, known),
      endBytesMax: this.#endBytesMax(holder, endBytes, known),
    };
    const verdicts = await this.#store.appendLogs(this.#ws, holder, items, quota);
    const kept = items.reduce(
      (sum, item, at) => (verdicts[at] === "kept" ? sum + bytesOfLine(item) : sum),
      0,
    );
    this.#hasNews = true;
    this.#bytes = (this.#bytes ?? known) + kept;
    this.#hourly.set(holder, (this.#hourly.get(holder) ?? 0) + kept);
    this.dropped += verdicts.filter((verdict) => verdict === "dropped").length;
    return verdicts;
  }

  /** What the run may have, or nothing at all, and what the log is to say where it is cut. */
  #quotaFor(holder: string, bytes: number, known: number): LogQuota {
    const { logBytesRunMax, logBytesHourlyMax, logsBytesMax } = this.#limits;
    const nowMs = this.#environment.elapsedMs();
    if (nowMs - this.#hourBeganMs >= HOUR_MS) {
      this.#hourBeganMs = nowMs;
      this.#hourly.clear();
    }
    if (isOver(this.#hourly, holder, bytes, logBytesHourlyMax)) {
      const all = `tasks logged ${sizeText(logBytesHourlyMax)} within an hour`;
      return { runBytesMax: 0, notice: noticeOf(`${all}, or those of one token half of that`) };
    }
    if (known + bytes > logsBytesMax) {
      const all = `the logs of the workspace reached ${sizeText(logsBytesMax)}`;
      return { runBytesMax: 0, notice: noticeOf(all) };
    }
    const notice = noticeOf(`the run's log reached ${sizeText(logBytesRunMax)}`);
    return { runBytesMax: logBytesRunMax, notice };
  }

  /** What the run may have with the errors that end its attempts: the last that should be missing. */
  #endBytesMax(holder: string, bytes: number, known: number): number {
    const { logBytesRunMax, logBytesHourlyMax, logsBytesMax } = this.#limits;
    const isFull =
      isOver(this.#hourly, holder, bytes, logBytesHourlyMax * WITH_ENDS_SHARE) ||
      known + bytes > logsBytesMax * WITH_ENDS_SHARE;
    return isFull ? 0 : Math.floor(logBytesRunMax * WITH_ENDS_SHARE);
  }

  /**
   * Drops what is too old or too much, for a bounded time; what is left is for the next step. To be
   * called about once a second.
   */
  async step(now: Instant): Promise<void> {
    const startedMs = this.#environment.elapsedMs();
    const isLate = (): boolean => this.#environment.elapsedMs() - startedMs >= STEP_MS;
    if (this.#hasNews && startedMs - this.#measuredMs >= MEASURE_MS) await this.#measure();
    const { logsBytesMax, logsKeptMs } = this.#limits;
    if (this.#bytes !== null && this.#bytes > logsBytesMax * FULL_SHARE) {
      const most = logsBytesMax * ROOM_SHARE;
      let beyond = (await this.#measure()) - most;
      while (beyond > 0 && !isLate() && (await this.#drop(null, beyond)))
        beyond = this.#bytes - most;
    }
    if (startedMs < this.#expireDueMs) return;
    const silentSince = addMs(now, -logsKeptMs);
    while (await this.#drop(silentSince)) if (isLate()) return;
    this.#expireDueMs = startedMs + EXPIRE_MS;
  }

  /** Drops some of the oldest lines; false when there are none left. */
  async #drop(silentSince: Instant | null, bytes = BYTES_DROPPED_MAX): Promise<boolean> {
    const bytesEnough = Math.min(bytes, BYTES_DROPPED_MAX);
    const pruning = { silentSince, bytesEnough, linesMax: LINES_DROPPED_MAX };
    const gone = await this.#store.pruneLogs(this.#ws, pruning);
    this.expired += gone.lines;
    if (this.#bytes !== null) this.#bytes -= gone.bytes;
    return gone.bytes > 0;
  }

  async #measure(): Promise<number> {
    this.#measuredMs = this.#environment.elapsedMs();
    this.#hasNews = false;
    this.#bytes = await this.#store.logBytes(this.#ws);
    return this.#bytes;
  }
}

function bytesOfLine({ message, fields }: LogRequest["items"][number]): number {
  const size = jsonBytes(fields);
  if (size > LOG_FIELDS_BYTES_MAX) {
    const text = `The fields of a log line have ${size} bytes; at most ${LOG_FIELDS_BYTES_MAX} are kept.`;
    throw exceeded(text, size, LOG_FIELDS_BYTES_MAX);
  }
  return LINE_BYTES + Buffer.byteLength(message) + size;
}

/** The line that stands where a log was cut. */
function noticeOf(reason: string): string {
  return `… lines were dropped here: ${reason}.`;
}

/** A number of bytes for people: `64 MiB`, `1.5 GiB`. */
function sizeText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const amount = bytes / 1_024 ** power;
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${units[power]}`;
}
