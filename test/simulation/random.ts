/** Numbers that look random and come from one seed: the same seed is the same simulation. */
export class Random {
  #state: number;

  constructor(seed: number) {
    // Neighbouring seeds must not give neighbouring streams, so the seed is stirred first.
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
    this.next();
  }

  /** From 0 up to 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `least` to `most`, both included. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.integer(0, values.length - 1)] as Value;
  }

  /** One of the names, each as likely as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const names = Object.keys(weights) as Name[];
    let rest = this.next() * names.reduce((sum, name) => sum + weights[name], 0);
    for (const name of names) {
      rest -= weights[name];
      if (rest < 0) return name;
    }
    return names.at(-1) as Name;
  }

  /** The values in another order. */
  shuffled<Value>(values: readonly Value[]): Value[] {
    const left = [...values];
    const order: Value[] = [];
    while (left.length > 0) order.push(...left.splice(this.integer(0, left.length - 1), 1));
    return order;
  }

  /** Each value or not, but at least one. */
  some<Value>(values: readonly Value[]): Value[] {
    const taken = values.filter(() => this.chance(0.5));
    return taken.length > 0 ? taken : [this.pick(values)];
  }

  /** Another stream, which draws without disturbing this one. */
  fork(): Random {
    return new Random(this.integer(0, 2 ** 31));
  }
}
