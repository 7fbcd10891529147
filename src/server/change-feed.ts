import type { Engine } from "../engine/engine.ts";

/** What changed since the message before: how far the ledger is, and which types of events came. */
export type Change = { pos: number; types: string[] };

/** The shortest time between two messages. */
const PAUSE_MS = 100;

/**
 * Tells those who listen which types of events came, at most ten times a second: what a page needs
 * to know which of its answers are old. The ledger is looked at once for all of them, and not at all
 * while nobody listens.
 */
export class ChangeFeed {
  readonly #engine: Engine;
  readonly #listeners = new Set<(change: Change) => void>();
  #stopListening: (() => void) | null = null;
  /** What was told of, and what there is. */
  #after = 0;
  #newest = 0;
  #timer: NodeJS.Timeout | null = null;
  #saidMs = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Calls back with every change from now on; answers a function that ends it. */
  async listen(listener: (change: Change) => void): Promise<() => void> {
    this.#listeners.add(listener);
    if (this.#stopListening === null) {
      this.#stopListening = this.#engine.onAppend((pos) => {
        this.#newest = Math.max(this.#newest, pos);
        this.#plan();
      });
      this.#after = Number.POSITIVE_INFINITY;
      this.#after = (await this.#engine.read((reader) => reader.head())).pos;
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stopListening?.();
      this.#stopListening = null;
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = null;
    };
  }

  #plan(): void {
    if (this.#timer !== null) return;
    const waitMs = Math.max(0, this.#saidMs + PAUSE_MS - performance.now());
    this.#timer = setTimeout(() => void this.#say(), waitMs);
  }

  async #say(): Promise<void> {
    const after = this.#after;
    try {
      const { pos, types } = await this.#engine.read(async (reader) => {
        const { pos } = await reader.head();
        return { pos, types: pos > after ? await reader.eventTypes(after) : [] };
      });
      this.#after = pos;
      if (types.length > 0) for (const listener of this.#listeners) listener({ pos, types });
    } catch {
      // The store is away; what was missed is told with the next append.
    }
    this.#saidMs = performance.now();
    this.#timer = null;
    // An append while it was looking had found the timer taken.
    if (this.#listeners.size > 0 && this.#newest > this.#after) this.#plan();
  }
}
