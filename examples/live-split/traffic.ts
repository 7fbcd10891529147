/** What is said of the load: enough to hold the shards to it. */
export type Said = {
  /** Writes of each tenant that were acknowledged. */
  acknowledged: Record<string, number>;
  /** Writes that were refused or failed, by why; nothing of them has happened. */
  failed: Record<string, number>;
  seconds: number;
  /** How long writes took, in ms. */
  latency: { median: number; p99: number; longest: number };
};

const TURN_MS = 5;

/** So many writes a second, begun whether or not those before have ended. */
export class Traffic {
  readonly #write: (tenant: string) => Promise<void>;
  readonly #tenants: readonly string[];
  readonly #perSecond: number;
  readonly #acknowledged = new Map<string, number>();
  readonly #failed = new Map<string, number>();
  readonly #latencies: number[] = [];
  readonly #underWay = new Set<Promise<void>>();
  #startedAt = 0;
  #begun = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(
    tenants: readonly string[],
    perSecond: number,
    write: (tenant: string) => Promise<void>,
  ) {
    this.#tenants = tenants;
    this.#perSecond = perSecond;
    this.#write = write;
  }

  start(): void {
    this.#startedAt = performance.now();
    this.#timer = setInterval(() => this.#catchUp(), TURN_MS);
  }

  /** Begins no more writes and waits for those that are under way. */
  async stop(): Promise<Said> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await Promise.all(this.#underWay);
    return this.said();
  }

  said(): Said {
    const sorted = this.#latencies.toSorted((one, other) => one - other);
    const at = (share: number): number =>
      Math.round((sorted[Math.floor((sorted.length - 1) * share)] ?? 0) * 10) / 10;
    return {
      acknowledged: Object.fromEntries(this.#acknowledged),
      failed: Object.fromEntries(this.#failed),
      seconds: Math.round((performance.now() - this.#startedAt) / 100) / 10,
      latency: { median: at(0.5), p99: at(0.99), longest: at(1) },
    };
  }

  #catchUp(): void {
    const due = ((performance.now() - this.#startedAt) / 1_000) * this.#perSecond;
    for (; this.#begun < due; this.#begun++) {
      const tenant = this.#tenants[this.#begun % this.#tenants.length];
      if (tenant === undefined) return;
      const writing = this.#time(tenant).finally(() => this.#underWay.delete(writing));
      this.#underWay.add(writing);
    }
  }

  async #time(tenant: string): Promise<void> {
    const begunAt = performance.now();
    try {
      await this.#write(tenant);
      increase(this.#acknowledged, tenant);
      this.#latencies.push(performance.now() - begunAt);
    } catch (error) {
      const { code, message } = error as { code?: unknown; message?: unknown };
      increase(this.#failed, String(code ?? message));
    }
  }
}

function increase(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
