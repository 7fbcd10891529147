/** A promise that was not kept. */
export type Violation = { promise: string; what: string };

const KEPT_MAX = 20;

/** The promises that a simulation found broken. */
export class Violations {
  readonly list: Violation[] = [];
  count = 0;

  add(promise: string, what: string): void {
    this.count += 1;
    if (this.list.length < KEPT_MAX) this.list.push({ promise, what });
  }

  /** Notes a violation unless the condition holds. */
  check(condition: boolean, promise: string, what: string): void {
    if (!condition) this.add(promise, what);
  }
}
