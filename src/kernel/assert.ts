/** A belief of the programmer that turned out false: a bug in Pawl, never bad input. */
export class AssertionFailure extends Error {
  override readonly name = "AssertionFailure";
}

/**
 * Checks what the programmer believes. A failure is a bug in this program, never a bad input and
 * never a busy database, so nothing may catch it to carry on.
 */
export function assert(condition: boolean, belief: string): asserts condition {
  if (!condition) throw new AssertionFailure(belief);
}

/** Marks a branch that the types say cannot be reached. */
export function unreachable(value: never): never {
  throw new AssertionFailure(`unreachable: ${JSON.stringify(value)}`);
}

/** The value, which the programmer knows to be there. */
export function present<Value>(value: Value | null | undefined, belief: string): Value {
  if (value === null || value === undefined) throw new AssertionFailure(belief);
  return value;
}
