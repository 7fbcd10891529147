import { PawlError } from "../../kernel/errors.ts";
import { stopping } from "../../engine/commit-loop.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Reader } from "../../store/store.ts";
import { sayingDifferently } from "../../work/operation.ts";

/** Events around the place where an id belongs, for servers whose clocks differ a little. */
const NEIGHBOURS = 200;

/**
 * The position of an event, or null. Ids sort by time and positions by commit, which is the same
 * but for servers with different clocks: so a binary search, then a look around.
 */
async function posOfEvent(reader: Reader, eventId: string): Promise<number | null> {
  let low = 1;
  let high = (await reader.head()).pos;
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const [event] = await reader.events({ after: middle - 1, limit: 1 });
    if (event === undefined) break;
    if (event.event_id === eventId) return event.pos;
    if (event.event_id < eventId) low = middle + 1;
    else high = middle - 1;
  }
  const after = Math.max(0, low - NEIGHBOURS);
  const near = await reader.events({ after, limit: 2 * NEIGHBOURS });
  return near.find((event) => event.event_id === eventId)?.pos ?? null;
}

/** How a wait ends early, and where it is counted. */
type Waiting = {
  signal: () => AbortSignal;
  whileWaiting: <Result>(wait: () => Promise<Result>) => Promise<Result>;
};

/**
 * Waits until an event is in the ledger; `NOT_YET` when it does not come in time,
 * `STORE_UNAVAILABLE` when the signal, which is asked for only when there is a wait, aborts first.
 */
export async function awaitEvent(
  engine: Engine,
  eventId: string,
  timeoutMs: number,
  { signal, whileWaiting }: Waiting,
): Promise<void> {
  const looked = await engine.read(async (reader) => ({
    pos: await posOfEvent(reader, eventId),
    head: (await reader.head()).pos,
  }));
  if (looked.pos !== null) return;
  await whileWaiting(() => awaitAppended(engine, eventId, looked.head, timeoutMs, signal()));
}

/** Looks at what is appended, each event once: who waits costs no search through what there was. */
async function awaitAppended(
  engine: Engine,
  eventId: string,
  head: number,
  timeoutMs: number,
  ended: AbortSignal,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  let after = head;
  while (true) {
    const from = after;
    const events = await engine.read((reader) =>
      reader.events({ after: from, limit: 2 * NEIGHBOURS }),
    );
    if (events.some(({ event_id }) => event_id === eventId)) return;
    after = events.at(-1)?.pos ?? after;
    if (events.length === 2 * NEIGHBOURS) continue;
    if (ended.aborted) throw stopping();
    const leftMs = deadlineMs - performance.now();
    if (leftMs <= 0) throw notYet(eventId, timeoutMs);
    await nextAppend(engine, leftMs, ended);
  }
}

/** Resolves after the next append, when the time is up or when the signal aborts. */
function nextAppend(engine: Engine, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      stopListening();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    const stopListening = engine.onAppend(finish);
    signal.addEventListener("abort", finish, { once: true });
  });
}

function notYet(eventId: string, timeoutMs: number): PawlError {
  return new PawlError(
    "NOT_YET",
    `The event ${JSON.stringify(eventId)} has not come within ${timeoutMs} ms. Ask again, or look ` +
      "whether the id is right.",
    { details: { event_id: eventId } },
  );
}

type Conditional = { expected_state_version?: number | undefined } | undefined;

/** The version that a change is for: as its body or its query says, or `If-Match`; nothing without. */
export function expectedVersion(call: {
  body?: Conditional;
  query?: Conditional;
  header(name: string): string | undefined;
}): { expected_state_version?: number } {
  const said = call.body?.expected_state_version ?? call.query?.expected_state_version;
  const matched = versionOf(call.header("if-match"));
  if (said !== undefined && matched !== undefined && said !== matched) {
    throw sayingDifferently("If-Match", "expected_state_version");
  }
  const expected = said ?? matched;
  return expected === undefined ? {} : { expected_state_version: expected };
}

function versionOf(ifMatch: string | undefined): number | undefined {
  if (ifMatch === undefined || ifMatch === "*") return undefined;
  const version = /^(?:W\/)?"?(\d{1,15})"?$/.exec(ifMatch)?.[1];
  if (version !== undefined) return Number(version);
  throw new PawlError(
    "INPUT_INVALID",
    `If-Match must be a state version such as "3", not ${JSON.stringify(ifMatch)}.`,
    { details: { if_match: ifMatch } },
  );
}
