import { setImmediate as nextTurn } from "node:timers/promises";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { EventFilter, Head, Reader, Store, WorkspaceId } from "../store/store.ts";

/** About how much one page brings: what is read, kept and worked on at once. */
export const PAGE_BYTES = 1 << 20;

const ITEMS_FIRST = 50;
const ITEMS_MAX = 5_000;

/** How many items make a page of about so many bytes, learnt from the pages before. */
export class PageSize {
  readonly #bytes: number;
  limit = ITEMS_FIRST;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** So many items had so many bytes. Grows by a factor of four at most: the next may be larger. */
  read(items: number, bytes: number): void {
    if (items === 0) return;
    const fitting = Math.floor(this.#bytes / Math.max(1, bytes / items));
    this.limit = Math.max(1, Math.min(fitting, this.limit * 4, ITEMS_MAX));
  }
}

/** About how much events take. */
export function bytesOf(events: readonly RecordedEvent[]): number {
  return events.reduce((sum, { data, actor }) => sum + data.length + actor.length + 300, 0);
}

/**
 * Reads events of one snapshot page by page, and lets others have their turn between: so neither the
 * process nor the transaction rests for longer than a page takes to work on.
 */
export async function* eventPages(
  reader: Reader,
  filter: Omit<EventFilter, "limit" | "descending">,
): AsyncGenerator<RecordedEvent[]> {
  const size = new PageSize(PAGE_BYTES);
  let { after } = filter;
  for (;;) {
    const { limit } = size;
    const events = await reader.events({ ...filter, after, limit });
    if (events.length > 0) yield events;
    if (events.length < limit) return;
    size.read(events.length, bytesOf(events));
    after = events.at(-1)?.pos ?? after;
    await nextTurn();
  }
}

/** Some events in order of pos, and the head at that moment. */
export type LedgerPage = { events: RecordedEvent[]; head: Head };

/**
 * Reads a ledger page by page up to its head, each page in a read of its own: no transaction is held
 * open while a page is worked on, however long that takes.
 */
export async function* ledgerPages(
  store: Store,
  ws: WorkspaceId,
  after: number,
  options: { pageBytes?: number; through?: number } = {},
): AsyncGenerator<LedgerPage> {
  const size = new PageSize(options.pageBytes ?? PAGE_BYTES);
  let last = after;
  for (;;) {
    const page = await store.read(ws, async (reader): Promise<LedgerPage> => {
      const head = await reader.head();
      const through = Math.min(head.pos, options.through ?? head.pos);
      return { head, events: await reader.events({ after: last, through, limit: size.limit }) };
    });
    if (page.events.length === 0) return;
    size.read(page.events.length, bytesOf(page.events));
    last = page.events.at(-1)?.pos ?? last;
    yield page;
  }
}
