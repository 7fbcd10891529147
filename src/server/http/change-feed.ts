import type { Engine } from "../../engine/engine.ts";

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
  /** Listens to the ledger from its head on; null while nobody listens here. */
  #session: Session | null = null;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Calls back with every change from now on; answers a function that ends it. */
  async listen(listener: (change: Change) => void): Promise<() => void> {
    this.#listeners.add(listener);
    const stop = (): void => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#session?.end();
      this.#session = null;
    };
    this.#session ??= new Session(this.#engine, (change) => {
      for (const each of this.#listeners) each(change);
    });
    try {
      await this.#session.begun;
    } catch (error) {
      stop();
      throw error;
    }
    return stop;
  }
}

/** The time in which somebody listens without a pause. */
class Session {
  readonly begun: Promise<void>;
  readonly #engine: Engine;
  readonly #tell: (change: Change) => void;
  readonly #stopListening: () => void;
  /** What was told of, null until that is known, and what there is. */
  #after: number | null = null;
  #newest = 0;
  #timer: NodeJS.Timeout | null = null;
  #saidMs = 0;
  #hasEnded = false;

  constructor(engine: Engine, tell: (change: Change) => void) {
    this.#engine = engine;
    this.#tell = tell;
    this.#stopListening = engine.onAppend((pos) => {
      this.#newest = Math.max(this.#newest, pos);
      this.#plan();
    });
    this.begun = this.#begin();
  }

  end(): void {
    this.#hasEnded = true;
    this.#stopListening();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  async #begin(): Promise<void> {
    this.#after = (await this.#engine.read((reader) => reader.head())).pos;
    this.#plan();
  }

  #plan(): void {
    const isTold = this.#after === null || this.#newest <= this.#after;
    if (isTold || this.#timer !== null || this.#hasEnded) return;
    const waitMs = Math.max(0, this.#saidMs + PAUSE_MS - performance.now());
    this.#timer = setTimeout(() => void this.#say(), waitMs);
  }

  async #say(): Promise<void> {
    const after = this.#after ?? 0;
    try {
      const { pos, types } = await this.#engine.read(async (reader) => {
        const { pos: head } = await reader.head();
        return { pos: head, types: head > after ? await reader.eventTypes(after) : [] };
      });
      this.#after = pos;
      if (types.length > 0 && !this.#hasEnded) this.#tell({ pos, types });
    } catch {
      // The store is away; what was missed is told when it is back.
    }
    this.#saidMs = performance.now();
    this.#timer = null;
    // An append while it was looking had found the timer taken.
    this.#plan();
  }
}
