import type { OperationName, PartOutput } from "../../work/operations.ts";
import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Decide } from "../../work/decision.ts";
import type { Reader } from "../../store/store.ts";
import { awaitEvent } from "./await-event.ts";
import { type Caller, tokenInCookie } from "./authenticate.ts";
import type { RecordedDecision } from "../../engine/commit.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ServerContext } from "../start-server.ts";

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
    // Under a key as it is stored, so that a replay has the same bytes.
    answered = idempotency === null ? answer : (JSON.parse(canonicalJson(answer)) as Json);
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
  const { answer } = accepted.replayed;
  const { accepted_pos } = answer as { accepted_pos: number };
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
