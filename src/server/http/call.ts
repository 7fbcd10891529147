import type { RecordedDecision } from "../../engine/commit.ts";
import { stopping } from "../../engine/commit-loop.ts";
import type { Engine } from "../../engine/engine.ts";
import { documentText, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Reader } from "../../store/store.ts";
import type { Expecting } from "../../work/command.ts";
import type { Decide } from "../../work/decision.ts";
import { sayingDifferently } from "../../work/operation.ts";
import type { OperationName, PartOutput } from "../../work/operations.ts";
import type { ServerContext } from "../start-server.ts";
import { type Caller, tokenInCookie } from "./authenticate.ts";

/** A stored answer's name: who asked for what, under which key. */
export type IdempotencyClaim = { scope: string; key: string; bodyHash: string };

/** One request, checked and parsed. */
export type Call<Name extends OperationName> = {
  readonly name: Name;
  readonly server: ServerContext;
  readonly engine: Engine;
  readonly caller: Caller;
  readonly correlationId: string;
  readonly params: PartOutput<Name, "params">;
  readonly query: PartOutput<Name, "query">;
  readonly body: PartOutput<Name, "body">;
  /** Present for what creates. */
  readonly idempotency: IdempotencyClaim | null;
  /** What was sent, for what takes bytes as they are; empty otherwise. */
  readonly bytes: Uint8Array;
  readonly header: (name: string) => string | undefined;
  headerNames(): Iterable<string>;
  /** Aborts when the client goes away or the server stops. */
  signal(): AbortSignal;
  /** Checks the token once more, for what lasts; throws when it has ended. */
  authenticateAgain(): Promise<void>;
  /**
   * Waits without counting as work: in a place among those that wait, of which each token and each
   * workspace has a share. Throws `OVERLOADED`, and `UNAUTHORIZED` when the token ended meanwhile.
   */
  whileWaiting<Result>(wait: () => Promise<Result>): Promise<Result>;
};

/** What a handler answers: a document, and the position it reflects. */
export type Reply = {
  answer: unknown;
  pos: number | null;
  /** Where it differs from the operation's own. */
  status?: number;
  replayed?: true;
  /** Besides those of every answer. */
  headers?: Record<string, string>;
};

/** Carries out one operation. */
export type Handler<Name extends OperationName> = (call: Call<Name>) => Promise<Reply | Response>;

/** Who carries out some of the operations, by their names. */
export type Handlers = { readonly [Name in OperationName]?: Handler<Name> };

type AnyCall = Pick<
  Call<"createBackfill">,
  "server" | "engine" | "caller" | "correlationId" | "idempotency"
>;

/**
 * Has a decision recorded and answers with where it stands in the ledger and what `describe` says.
 * A repeated request gets the answer of the first one. What `refuse` answers is thrown once the
 * decision is on record, and never kept as the answer to a key.
 */
export async function submitted<Result>(
  call: AnyCall,
  decide: Decide<Result>,
  describe: (result: Result) => { message: string } & Record<string, Json>,
  refuse: (result: Result) => PawlError | null = () => null,
): Promise<Reply> {
  const { idempotency } = call;
  let answered: Json = null;
  const answerOf = (accepted: RecordedDecision<Result>): Json => {
    if (answered !== null) return answered;
    const answer = {
      ...describe(accepted.result),
      accepted_event_id: accepted.event_ids[0] ?? null,
      accepted_pos: accepted.pos,
      accepted_at: accepted.at,
      correlation_id: call.correlationId,
    };
    // Under a key it goes out as it is stored, so that a replay has the same bytes.
    if (idempotency !== null) documentText(answer);
    answered = answer;
    return answered;
  };
  const started = performance.now();
  const accepted = await call.engine.submit(decide, {
    actor: call.caller.actor,
    correlationId: call.correlationId,
    ...(idempotency === null
      ? {}
      : {
          idempotency: {
            ...idempotency,
            respond: (first: RecordedDecision<Result>) =>
              refuse(first.result) === null ? { status: 202, answer: answerOf(first) } : null,
          },
        }),
  });
  const seconds = (performance.now() - started) / 1_000;
  call.server.metricsOf.get(call.engine)?.commitDurations.observe(seconds);
  if (accepted.replayed === null) {
    const refused = refuse(accepted.result);
    if (refused !== null) throw refused;
    return { answer: answerOf(accepted), pos: accepted.pos };
  }
  const answer = accepted.replayed.answer as { accepted_pos: number };
  documentText(answer);
  const { accepted_pos } = answer;
  return { answer, pos: accepted_pos, status: 200, replayed: true };
}

/** How new the rows must be for a read. */
export type Freshness = {
  min_pos?: number | undefined;
  wait_for_event_id?: string | undefined;
  timeout_ms: number;
};

type Read = Pick<Call<OperationName>, "engine" | "signal" | "whileWaiting"> & { query: Freshness };

/** Reads one snapshot that is as new as the query wants; `NOT_YET` when it does not come in time. */
export async function readAt<Result>(
  { engine, query, signal, whileWaiting }: Read,
  body: (reader: Reader) => Promise<Result>,
): Promise<Result> {
  const { min_pos: minPos, timeout_ms: timeoutMs, wait_for_event_id: eventId } = query;
  if (eventId !== undefined) await awaitEvent(engine, eventId, timeoutMs, { signal, whileWaiting });
  // What the engine has seen is there; only for what it has not there may be a wait.
  if (minPos !== undefined && minPos > engine.status().pos) {
    const reached = () => Promise.resolve();
    await whileWaiting(() => engine.read(reached, { minPos, timeoutMs, signal }));
  }
  return engine.read(body);
}

/** As `readAt`, for what is calculated from rows and the time. */
export async function evaluateAt<Result>(
  call: Read,
  calculate: (...args: Parameters<Decide<Result>>) => Result,
): Promise<{ result: Result; pos: number }> {
  await readAt(call, () => Promise.resolve());
  return call.engine.evaluate((rows, context) => ({
    events: [],
    result: calculate(rows, context),
  }));
}

/** Who sent a request: by its `Authorization` header, else by the cookie of a browser that signed in. */
export async function callerOf(
  server: Pick<ServerContext, "authenticate" | "engineOf" | "tokensRequired">,
  header: (name: string) => string | undefined,
): Promise<Caller> {
  const authorization = header("authorization");
  const token = authorization === undefined ? tokenInCookie(header("cookie")) : null;
  if (token === null) return server.authenticate(authorization);
  try {
    const caller = await server.authenticate(`Bearer ${token}`);
    if (server.engineOf.has(caller.ws)) return caller;
  } catch (error) {
    const isRefused = error instanceof PawlError && error.code === "UNAUTHORIZED";
    if (!isRefused || server.tokensRequired) throw error;
  }
  // A browser sends what another server on this address gave it, also where none is needed.
  return server.authenticate(undefined);
}

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

/** A request that changes something, whatever its body is. */
type Changing<Params> = Omit<Call<"createBackfill">, "name" | "params" | "query" | "body"> &
  Parameters<typeof expectedVersion>[0] & { params: Params; body?: object | undefined };

/** What a command hears: the body and the path, the name of what it is about, and its version. */
type Said<Of extends Changing<object>, Reference> = Of["body"] &
  Of["params"] &
  Reference &
  Expecting;

/** What a change answers besides where it stands in the ledger. */
type Answer = { message: string } & Record<string, Json>;

/**
 * Makes the handlers of a kind's commands. `referenceOf` gives the name by which they know what they
 * are about; the version that one expects may stand in the body, in the query or in `If-Match`. `check`
 * refuses what is wrong before anything is looked up.
 */
export function commandRoutes<Params extends object, Reference extends object>(
  referenceOf: (params: Params, engine: Engine) => Reference | Promise<Reference>,
) {
  return <Of extends Changing<Params>, Result>(
    decide: (said: Said<NoInfer<Of>, Reference>) => Decide<Result>,
    answerOf: (result: Result, call: NoInfer<Of>) => Answer,
    check?: (call: NoInfer<Of>) => void,
  ) =>
    async (call: Of): Promise<Reply> => {
      check?.(call);
      const { body, params, engine } = call;
      const reference = await referenceOf(params, engine);
      const said = { ...body, ...params, ...reference, ...expectedVersion(call) };
      return submitted(call, decide(said), (result) => answerOf(result, call));
    };
}
