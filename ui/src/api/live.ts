import type { Query, QueryClient } from "@tanstack/react-query";
import { addressOf } from "./call.ts";
import { isTouched } from "./live-rules.ts";

/** Whether the page hears of changes as they happen. */
export type LiveState = "live" | "connecting" | "asleep";

/** The shortest time between two asks of the same question. */
const PAUSE_MS_MIN = 250;

/** How soon to look again at a question that is being answered. */
const BUSY_MS = 30;

/** A question may keep the server busy for at most one part in so many of the time. */
const SHARE = 5;

/**
 * Keeps what is shown up to date: follows the ledger and asks again what its events can have
 * changed. A question that comes again and again waits longer the longer its answer takes. A tab
 * that nobody sees follows nothing: browsers allow few connections to one server.
 */
export class LiveUpdates {
  readonly #client: QueryClient;
  readonly #listeners = new Set<(state: LiveState) => void>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  /** When a question was last asked, and how long its answer took. */
  readonly #askedMs = new Map<string, number>();
  readonly #tookMs = new Map<string, number>();
  #source: EventSource | null = null;
  #state: LiveState = "connecting";

  constructor(client: QueryClient) {
    this.#client = client;
  }

  get state(): LiveState {
    return this.#state;
  }

  /** Begins to follow; answers a function that ends it. */
  start(): () => void {
    const onVisibility = (): void => {
      if (document.visibilityState === "hidden") this.#close("asleep");
      else this.#open();
    };
    document.addEventListener("visibilitychange", onVisibility);
    onVisibility();
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      this.#close("asleep");
      for (const timer of this.#timers.values()) clearTimeout(timer);
      this.#timers.clear();
    };
  }

  /** Calls back when the state changes; answers a function that ends it. */
  readonly subscribe = (listener: (state: LiveState) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #open(): void {
    if (this.#source !== null) return;
    this.#say("connecting");
    const source = new EventSource(addressOf("followChanges", {}));
    this.#source = source;
    source.addEventListener("open", () => {
      this.#say("live");
      // What happened while nobody listened was not told.
      void this.#client.invalidateQueries();
    });
    source.addEventListener("error", () => {
      this.#say("connecting");
      // A browser gives up for good when the answer is no stream, as after a token has ended.
      if (source.readyState !== EventSource.CLOSED) return;
      this.#source = null;
      void this.#client.invalidateQueries();
      setTimeout(() => {
        if (document.visibilityState !== "hidden") this.#open();
      }, 2_000);
    });
    source.addEventListener("message", ({ data }: MessageEvent<string>) => {
      const { types } = JSON.parse(data) as { types: string[] };
      this.#touch(types);
    });
  }

  #close(state: LiveState): void {
    this.#source?.close();
    this.#source = null;
    this.#say(state);
  }

  #say(state: LiveState): void {
    if (this.#state === state) return;
    this.#state = state;
    for (const listener of this.#listeners) listener(state);
  }

  #touch(types: readonly string[]): void {
    for (const query of this.#client.getQueryCache().getAll()) {
      if (isTouched(String(query.queryKey[0]), types)) this.#askAgain(query);
    }
  }

  #askAgain(query: Query): void {
    const { queryHash } = query;
    if (this.#timers.has(queryHash)) return;
    const pauseMs = Math.max(PAUSE_MS_MIN, (this.#tookMs.get(queryHash) ?? 0) * SHARE);
    const waitMs = (this.#askedMs.get(queryHash) ?? -pauseMs) + pauseMs - performance.now();
    const ask = (): void => {
      // An answer that is on its way may be older than the event, and is still worth waiting for.
      if (query.state.fetchStatus === "fetching") {
        this.#timers.set(queryHash, setTimeout(ask, BUSY_MS));
        return;
      }
      this.#timers.delete(queryHash);
      const startedMs = performance.now();
      this.#askedMs.set(queryHash, startedMs);
      void this.#client
        .invalidateQueries({ queryKey: query.queryKey, exact: true })
        .then(() => this.#tookMs.set(queryHash, performance.now() - startedMs));
    };
    this.#timers.set(queryHash, setTimeout(ask, Math.max(0, waitMs)));
  }
}
