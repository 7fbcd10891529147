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
