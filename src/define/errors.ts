/** Thrown by a source that will answer for fewer blocks at once, but not for that many. */
export class RangeTooLarge extends Error {
  override readonly name = "RangeTooLarge";
  /** How many blocks the source says it would answer for; it may be no fewer than were asked for. */
  readonly suggestedSize: number | null;

  constructor(message: string, suggestedSize: number | null, cause?: unknown) {
    super(message, { cause });
    this.suggestedSize = suggestedSize;
  }
}

/** Thrown by a source that is asked too often: the same request is fine later. */
export class Throttled extends Error {
  override readonly name = "Throttled";
  /** How long the source asked to be left alone, if it said so. */
  readonly retryAfterMs: number | null;

  constructor(message: string, retryAfterMs: number | null, cause?: unknown) {
    super(message, { cause });
    this.retryAfterMs = retryAfterMs;
  }
}

/** Thrown by a source that has not got that block yet, which is never the same as "no data". */
export class SourceLagging extends Error {
  override readonly name = "SourceLagging";
}

/** Thrown by a source that gave no answer that can be trusted; another time it may. */
export class SourceUnavailable extends Error {
  override readonly name = "SourceUnavailable";
}

/** An error to throw when fewer blocks have to be asked for at once. */
export function rangeTooLarge(
  message: string,
  options: { suggestedSize?: number | null; cause?: unknown } = {},
): RangeTooLarge {
  return new RangeTooLarge(message, options.suggestedSize ?? null, options.cause);
}

/** An error to throw when the source has to be asked less often. */
export function throttled(
  message: string,
  options: { retryAfterMs?: number | null; cause?: unknown } = {},
): Throttled {
  return new Throttled(message, options.retryAfterMs ?? null, options.cause);
}

/** An error to throw when the source has not got a block yet. */
export function sourceLagging(message: string, options: { cause?: unknown } = {}): SourceLagging {
  return new SourceLagging(message, options);
}

/** An error to throw when the source cannot be reached or its answer cannot be trusted. */
export function sourceUnavailable(
  message: string,
  options: { cause?: unknown } = {},
): SourceUnavailable {
  return new SourceUnavailable(message, options);
}

/** Thrown by a task that knows another attempt cannot help. */
export class DoNotRetry extends Error {
  override readonly name = "DoNotRetry";
}

/** Thrown by a task that knows when to try again. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  readonly delayMs: number;

  constructor(delayMs: number, message: string) {
    super(message);
    this.delayMs = delayMs;
  }
}

/** Thrown by a task that has nothing to do for its partitions. */
export class Skip extends Error {
  override readonly name = "Skip";
}

/** An error to throw when another attempt cannot help. */
export function doNotRetry(message: string): DoNotRetry {
  return new DoNotRetry(message);
}

/** An error to throw to be tried again no sooner than in this many milliseconds. */
export function retryAfter(
  delayMs: number,
  message = "Asked to be tried again later.",
): RetryAfter {
  return new RetryAfter(delayMs, message);
}

/** An error to throw to end a task as skipped: neither succeeded nor failed. */
export function skip(reason: string): Skip {
  return new Skip(reason);
}
