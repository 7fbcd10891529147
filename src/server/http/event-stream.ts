import { asAsked, askingAs } from "../../engine/asking.ts";
import type { Engine } from "../../engine/engine.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Reader } from "../../store/store.ts";
import type { EventFilter, RecordedEvent } from "../../work/envelope.ts";
import type { OperationName } from "../../work/operations.ts";
import { lastingPlaces } from "./admission.ts";
import type { Call } from "./call.ts";
import { readWithin, type Within } from "./read-within.ts";

/** How often a quiet stream says that it is still there. */
export const HEARTBEAT_MS = 15_000;

/** How often a stream looks whether its token is still good; it ends at most this much later. */
const TOKEN_CHECK_MS = 3_000;

/** Where the messages of a stream come from. */
export interface MessageSource {
  /** The next messages as text, a comment when all is quiet, null when the stream should end. */
  next(): Promise<string | null>;
  close(): void;
}

type StreamCall = Pick<Call<OperationName>, "server" | "caller" | "signal" | "authenticateAgain">;

const encoder = new TextEncoder();

/**
 * Answers server-sent events for as long as the token is good: that is looked up before every
 * message is handed over, and every few seconds while there is none. A client that reads slowly is
 * waited for: the next messages are asked for when it has taken the last ones.
 */
export function messageStream(call: StreamCall, open: () => MessageSource): Response {
  const { server, caller } = call;
  const leave = server.admission.enterAll(lastingPlaces(server, caller, "streams"));
  const source = open();
  // Who reads on calls from elsewhere, long after the request.
  const next = asAsked(() => source.next());
  const signal = call.signal();
  const release = (): void => {
    clearInterval(checks);
    signal.removeEventListener("abort", release);
    source.close();
    leave();
  };
  let isClosed = false;
  let closeBody: () => void = () => undefined;
  const close = (): void => {
    release();
    if (isClosed) return;
    isClosed = true;
    closeBody();
  };
  // A token that cannot be looked up is no good either: the client comes again when it can.
  const check = (): Promise<void> => call.authenticateAgain().catch(close);
  const checks = setInterval(() => void check(), TOKEN_CHECK_MS);
  // A client that goes before it has the answer never takes up the body, so nobody cancels that.
  signal.addEventListener("abort", release);
  if (signal.aborted) release();
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        closeBody = () => controller.close();
        controller.enqueue(encoder.encode("retry: 1000\n\n"));
      },
      async pull(controller) {
        const text = await next().catch(() => null);
        // What was read while the token was good is not handed over when it no longer is.
        if (text !== null) await check();
        if (text === null) close();
        else if (!isClosed) controller.enqueue(encoder.encode(text));
      },
      cancel() {
        isClosed = true;
        release();
      },
    },
    { highWaterMark: 1 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "cross-origin-resource-policy": "same-origin",
      "x-accel-buffering": "no",
    },
  });
}

/** Most events that are read and sent at once. */
const BATCH_LIMIT = 200;

/**
 * Answers events as server-sent events, from the filter's position on and without end. The id of a
 * message is its pos, so a client that comes again with `Last-Event-ID` misses nothing.
 */
export function eventStream(
  call: Call<"listEvents">,
  filter: EventFilter,
  documentOf: (event: RecordedEvent) => unknown,
): Response {
  const after = lastSeen(call) ?? filter.after;
  return messageStream(call, () => new Follower(call, { ...filter, after }, documentOf));
}

function lastSeen(call: Call<"listEvents">): number | null {
  const id = call.header("last-event-id");
  if (id === undefined || id === "") return null;
  if (/^\d{1,15}$/.test(id)) return Number(id);
  throw new PawlError(
    "INPUT_INVALID",
    `Last-Event-ID must be the pos of an event, not ${JSON.stringify(id.slice(0, 80))}.`,
  );
}

/** Events of a filter as documents, up to its limit and to the length of a page. */
export function eventsWithin<Document>(
  reader: Reader,
  filter: EventFilter,
  documentOf: (event: RecordedEvent) => Document,
): Promise<Within<RecordedEvent, Document>> {
  return readWithin<RecordedEvent, Document>(
    filter.limit,
    (after, limit) => reader.events({ ...filter, ...beyond(filter, after), limit }),
    (events) => events.map(documentOf),
  );
}

function beyond({ descending }: EventFilter, last: RecordedEvent | null): Partial<EventFilter> {
  if (last === null) return {};
  return descending === true ? { through: last.pos - 1 } : { after: last.pos };
}

/** Reads the ledger behind its head and waits for more. */
class Follower implements MessageSource {
  readonly #call: Call<"listEvents">;
  readonly #filter: EventFilter;
  readonly #documentOf: (event: RecordedEvent) => unknown;
  readonly #signal: AbortSignal;
  readonly #stopListening: () => void;
  #after: number;
  #hasNews = true;
  #wake: (() => void) | null = null;

  constructor(
    call: Call<"listEvents">,
    filter: EventFilter,
    documentOf: (event: RecordedEvent) => unknown,
  ) {
    this.#call = call;
    this.#filter = filter;
    this.#documentOf = documentOf;
    this.#after = filter.after;
    this.#signal = call.signal();
    this.#stopListening = call.engine.onAppend(() => {
      this.#hasNews = true;
      this.#wake?.();
    });
  }

  async next(): Promise<string | null> {
    while (!this.#signal.aborted) {
      if (this.#hasNews) {
        this.#hasNews = false;
        const messages = await this.#read();
        if (messages !== "") return messages;
      }
      const isQuiet = await this.#wait();
      if (isQuiet && !this.#signal.aborted) return ": still here\n\n";
    }
    return null;
  }

  close(): void {
    this.#stopListening();
    this.#wake?.();
  }

  async #read(): Promise<string> {
    const filter = { ...this.#filter, after: this.#after, limit: BATCH_LIMIT };
    const { items, last } = await this.#call.engine.read((reader) =>
      eventsWithin(reader, filter, (event) => {
        return { pos: event.pos, text: messageOf(event, this.#documentOf) };
      }),
    );
    this.#after = items.at(-1)?.pos ?? this.#after;
    if (last !== null) this.#hasNews = true;
    return items.map(({ text }) => text).join("");
  }

  /** Waits for an append; true when none came for the time of a heartbeat. */
  #wait(): Promise<boolean> {
    if (this.#hasNews) return Promise.resolve(false);
    return new Promise((resolve) => {
      const finish = (isQuiet: boolean): void => {
        clearTimeout(timer);
        this.#signal.removeEventListener("abort", stop);
        this.#wake = null;
        resolve(isQuiet);
      };
      const stop = (): void => finish(true);
      const timer = setTimeout(stop, HEARTBEAT_MS);
      this.#signal.addEventListener("abort", stop, { once: true });
      this.#wake = () => finish(false);
    });
  }
}

function messageOf(event: RecordedEvent, documentOf: (event: RecordedEvent) => unknown): string {
  return `id: ${event.pos}\nevent: ${event.type}\ndata: ${JSON.stringify(documentOf(event))}\n\n`;
}

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

/** What is looked at once for all who listen waits for none of them. */
const ASKER = "changes";

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
    const { pos } = await askingAs(ASKER, () => this.#engine.read((reader) => reader.head()));
    this.#after = pos;
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
      const look = async (reader: Reader): Promise<Change> => {
        const { pos: head } = await reader.head();
        return { pos: head, types: head > after ? await reader.eventTypes(after) : [] };
      };
      const { pos, types } = await askingAs(ASKER, () => this.#engine.read(look));
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
