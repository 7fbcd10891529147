import type { WorkspaceId } from "./store.ts";

type Listener = (ws: WorkspaceId, pos: number) => void;

/** Who wants to hear of appends, and up to where they have heard. */
export class AppendListeners {
  readonly #listeners = new Set<Listener>();
  readonly #heard = new Map<WorkspaceId, number>();

  add(listener: Listener): () => void {
    // Wrapped, so that adding a function twice and ending it once leaves one.
    const own: Listener = (ws, pos) => listener(ws, pos);
    this.#listeners.add(own);
    return () => {
      this.#listeners.delete(own);
    };
  }

  /** Tells the listeners, later in this turn and each position once. */
  appended(ws: WorkspaceId, pos: number): void {
    if (pos <= (this.#heard.get(ws) ?? 0)) return;
    this.#heard.set(ws, pos);
    for (const listener of this.#listeners) queueMicrotask(() => listener(ws, pos));
  }
}

/** Lets one asynchronous body run at a time, in the order they asked. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(body: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(body);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
