import { PawlError } from "../core/errors.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventFilter, Reader } from "../store/store.ts";
import type { Call } from "./call.ts";
import { HEARTBEAT_MS, type MessageSource, messageStream } from "./message-stream.ts";
import { readWithin, type Within } from "./read-within.ts";

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
