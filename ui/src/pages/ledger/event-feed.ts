import type { EventDocument } from "../../../../src/work/server-api.ts";
import { addressOf, call, Refusal } from "../../api/call.ts";
import { EVENT_TYPES } from "./event-sentence.ts";

/** Most rows that are kept: what goes beyond is found by its position. */
export const ROWS_MAX = 500;

const PAGE_LIMIT = 100;

/** The shortest time between two looks at what came: a burst is drawn ten times a second. */
const FLUSH_MS = 100;

/** Drawing what came may take at most one part in so many of the time. */
const FLUSH_SHARE = 4;

/**
 * More than so many at once are a burst: then only the newest of them are shown, without those from
 * before, so that what is shown has no hole and drawing it takes no longer however many come.
 */
const BURST_ROWS = 150;

/** Which events are wanted; an empty text wants all. */
export type FeedFilter = { types: string; entity: string; before: string };

/** Where a feed stands. */
export type FeedShown = {
  /** Newest first. */
  rows: readonly EventDocument[];
  state: "loading" | "live" | "connecting" | "paused" | "refused";
  refusal: Refusal | null;
  /** Give this to go on with older ones; null where there are none. */
  nextBefore: number | null;
  isLoadingOlder: boolean;
  /** How many came since it began. */
  received: number;
};

/**
 * Events, newest first, and those that come while somebody looks. However many come, they are
 * looked at a few times a second, and only as many as can be shown are read at all.
 */
export class EventFeed {
  readonly #filter: FeedFilter;
  readonly #listeners = new Set<() => void>();
  #shown: FeedShown = {
    rows: [],
    state: "loading",
    refusal: null,
    nextBefore: null,
    isLoadingOlder: false,
    received: 0,
  };
  #source: EventSource | null = null;
  #loading: AbortController | null = null;
  /** Messages that came since the last look, as they came. */
  #came: string[] = [];
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** How long it took to draw what came last. */
  #tookMs = 0;

  constructor(filter: FeedFilter) {
    this.#filter = filter;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly shown = (): FeedShown => this.#shown;

  /** Begins with the newest; answers a function that ends it. A tab that nobody sees follows nothing. */
  readonly start = (): (() => void) => {
    const onVisibility = (): void => {
      if (this.#shown.state === "paused") return;
      if (document.visibilityState === "hidden") this.#stop();
      else void this.#load();
    };
    document.addEventListener("visibilitychange", onVisibility);
    void this.#load();
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      this.#stop();
    };
  };

  /** Stops following; what is shown stays. */
  readonly pause = (): void => {
    this.#flush();
    this.#stop();
    this.#say({ state: "paused" });
  };

  /** Goes on with what is newest now. */
  readonly resume = (): void => {
    void this.#load();
  };

  /** Shows older ones below; looking back ends following, and the newest give way to them. */
  readonly older = async (): Promise<void> => {
    const { nextBefore, isLoadingOlder } = this.#shown;
    if (nextBefore === null || isLoadingOlder) return;
    if (this.#shown.state !== "paused") this.pause();
    const { signal } = this.#begin();
    this.#say({ isLoadingOlder: true });
    try {
      const page = await this.#page(nextBefore, signal);
      if (signal.aborted) return;
      const rows = [...this.#shown.rows, ...page.items].slice(-ROWS_MAX);
      this.#say({ rows, nextBefore: page.next_before, isLoadingOlder: false, refusal: null });
    } catch (error) {
      if (!signal.aborted) this.#refuse(error);
    }
  };

  /** Gives up what is being loaded, for something else to be. */
  #begin(): AbortController {
    this.#stop();
    this.#loading = new AbortController();
    return this.#loading;
  }

  async #load(): Promise<void> {
    const { signal } = this.#begin();
    this.#say({ state: "loading", refusal: null, isLoadingOlder: false });
    const before = this.#filter.before === "" ? null : Number(this.#filter.before);
    try {
      const page = await this.#page(before, signal);
      if (signal.aborted) return;
      const isPast = before !== null;
      const state = isPast ? "paused" : "connecting";
      this.#say({ rows: page.items, nextBefore: page.next_before, state });
      if (!isPast) this.#follow(page.pos);
    } catch (error) {
      if (!signal.aborted) this.#refuse(error);
    }
  }

  #page(before: number | null, signal: AbortSignal) {
    return call("listEvents", {
      query: {
        descending: "true",
        limit: PAGE_LIMIT,
        ...this.#wanted(),
        ...(before === null ? {} : { before }),
      },
      signal,
    });
  }

  #wanted(): { types?: string; entity?: string } {
    const { types, entity } = this.#filter;
    return { ...(types === "" ? {} : { types }), ...(entity === "" ? {} : { entity }) };
  }

  #follow(after: number): void {
    const query = { ...this.#wanted(), after, follow: "true" };
    const source = new EventSource(addressOf("listEvents", { query }));
    this.#source = source;
    source.addEventListener("open", () => this.#say({ state: "live" }));
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) this.#say({ state: "connecting" });
      // The answer was no stream, as when the server starts again behind something else.
      else setTimeout(() => this.#source === source && void this.#load(), 2_000);
    });
    const take = ({ data }: MessageEvent<string>): void => this.#take(data);
    for (const [, types] of EVENT_TYPES) {
      for (const type of types) source.addEventListener(type, take);
    }
  }

  #take(message: string): void {
    this.#came.push(message);
    this.#shown = { ...this.#shown, received: this.#shown.received + 1 };
    // What will never be shown need not be kept until the next look.
    if (this.#came.length >= ROWS_MAX) this.#came = this.#came.slice(-BURST_ROWS - 1);
    const waitMs = Math.max(FLUSH_MS, this.#tookMs * FLUSH_SHARE);
    this.#timer ??= setTimeout(() => requestAnimationFrame(() => this.#flush()), waitMs);
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const came = this.#came;
    this.#came = [];
    if (came.length === 0) return;
    const startedMs = performance.now();
    const isBurst = came.length > BURST_ROWS;
    const fresh = came
      .slice(-BURST_ROWS)
      .toReversed()
      .map((message) => JSON.parse(message) as EventDocument);
    const all = isBurst ? fresh : [...fresh, ...this.#shown.rows];
    const rows = all.slice(0, ROWS_MAX);
    const isCut = isBurst || all.length > rows.length;
    this.#say({ rows, ...(isCut ? { nextBefore: rows.at(-1)?.pos ?? null } : {}) });
    requestAnimationFrame(() => {
      this.#tookMs = performance.now() - startedMs;
    });
  }

  #stop(): void {
    this.#loading?.abort();
    this.#source?.close();
    this.#source = null;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#came = [];
  }

  #refuse(error: unknown): void {
    const refusal = error instanceof Refusal ? error : null;
    if (refusal === null) throw error;
    this.#say({ refusal, isLoadingOlder: false, state: "refused" });
  }

  #say(news: Partial<FeedShown>): void {
    this.#shown = { ...this.#shown, ...news };
    for (const listener of this.#listeners) listener();
  }
}
