import type { Query, QueryClient } from "@tanstack/react-query";
import { addressOf } from "./call.ts";
import { isFollowed, isTouched } from "./live-rules.ts";

/** Whether the page hears of changes as they happen. */
export type LiveState = "live" | "connecting" | "asleep";

/** The shortest time between two asks of the same question. */
const PAUSE_MS_MIN = 150;

/** How soon to look again at a question that is being answered. */
const BUSY_MS = 30;

/** A question may keep the server busy for at most one part in so many of the time. */
const SHARE = 5;

/** What each question of a page adds to the time between two asks: a list may have hundreds. */
const EACH_MS = 50;

/** How long to wait before following anew, where the browser has given up. */
const REOPEN_MS = 2_000;

/**
 * Keeps what is shown up to date: follows the ledger and asks again what its events can have
 * changed. A question that comes again and again waits longer the longer its answer takes. A tab
 * that nobody sees follows nothing: browsers allow few connections to one server.
 */
export class LiveUpdates {
  readonly #client: QueryClient;
  readonly #listeners = new Set<(state: LiveState) => void>();
  readonly #timers = new Map<Query, ReturnType<typeof setTimeout>>();
  /** When a question was last asked, and how long its answer took. */
  readonly #askedMs = new WeakMap<Query, number>();
  readonly #tookMs = new WeakMap<Query, number>();
  #reopening: ReturnType<typeof setTimeout> | undefined;
  #source: EventSource | null = null;
  #wasOpen = false;
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
    clearTimeout(this.#reopening);
    this.#say("connecting");
    const source = new EventSource(addressOf("followChanges", {}));
    this.#source = source;
    source.addEventListener("open", () => {
      this.#say("live");
      // What happened while nobody listened was not told. Another server may be there by now, so
      // what no event changes is asked for again, too, but for the first time.
      const isAsked = ({ queryKey: [name] }: Query): boolean =>
        this.#wasOpen || isFollowed(String(name));
      void this.#client.invalidateQueries({ predicate: isAsked });
      this.#wasOpen = true;
    });
    source.addEventListener("error", () => {
      this.#say("connecting");
      // A browser gives up for good when the answer is no stream, as after a token has ended.
      if (source.readyState !== EventSource.CLOSED) return;
      this.#source = null;
      void this.#client.invalidateQueries();
      this.#reopening = setTimeout(() => this.#open(), REOPEN_MS);
    });
    source.addEventListener("message", ({ data }: MessageEvent<string>) => {
      const { types } = JSON.parse(data) as { types: string[] };
      this.#touch(types);
    });
  }

  #close(state: LiveState): void {
    clearTimeout(this.#reopening);
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
    const touched = this.#client
      .getQueryCache()
      .getAll()
      .filter(({ queryKey }) => isTouched(String(queryKey[0]), types));
    const shown = touched.filter((query) => query.isActive());
    for (const query of shown) this.#askAgain(query, shown.length * EACH_MS);
    // What nobody looks at is asked for when somebody does.
    for (const query of touched) if (!query.isActive()) query.invalidate();
  }

  #askAgain(query: Query, pauseMsMin: number): void {
    if (this.#timers.has(query)) return;
    const tookMs = this.#tookMs.get(query) ?? 0;
    const pauseMs = Math.max(PAUSE_MS_MIN, pauseMsMin, tookMs * SHARE);
    const waitMs = (this.#askedMs.get(query) ?? -pauseMs) + pauseMs - performance.now();
    const ask = (): void => {
      // An answer that is on its way may be older than the event, and is still worth waiting for.
      if (query.state.fetchStatus === "fetching") {
        this.#timers.set(query, setTimeout(ask, BUSY_MS));
        return;
      }
      this.#timers.delete(query);
      const startedMs = performance.now();
      this.#askedMs.set(query, startedMs);
      void this.#client
        .invalidateQueries({ queryKey: query.queryKey, exact: true })
        .then(() => this.#tookMs.set(query, performance.now() - startedMs));
    };
    this.#timers.set(query, setTimeout(ask, Math.max(0, waitMs)));
  }
}
