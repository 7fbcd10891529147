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
