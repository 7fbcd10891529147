import { hash, randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import {
  sayingDifferently,
  underOwnNames,
  BODY_BYTES_MAX,
  bodyValuesMax,
  type Operation,
  takesKey,
  keyOfHeader,
  queryOf,
} from "../../work/operation.ts";
import type { OperationName } from "../../work/operations.ts";
import { canonicalJson, knownText } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { nearMiss } from "../../kernel/message-text.ts";
import { REFUSED_NAMES } from "../../work/definition/find-entity.ts";
import { DEFINITIONS, type DefinitionRow } from "../../work/definition/rows.ts";
import { lastingPlaces, workPlaces } from "./admission.ts";
import { admitPush, admitPushByToken } from "../webhooks/admit-push.ts";
import { askerOf, type Caller, checkVerb } from "./authenticate.ts";
import { type Call, type Handler, type IdempotencyClaim, type Reply, callerOf } from "./call.ts";
import { parseInput, problemOf, problemResponse } from "./input-problems.ts";
import { checkContentType, checkLength, cleanText, decodeBody, parseBody } from "./request-body.ts";
import { askingAs } from "../../engine/asking.ts";
import { tokenEnded } from "../../engine/claim-queue.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ServerContext } from "../start-server.ts";

/** Most names that are searched for the one that was meant. */
const NAMES_MAX = 1_000;

type AnyHandler = (call: Call<OperationName>) => Promise<Reply | Response>;

/** Makes the route of an operation: checks, parses, carries out, answers, counts. */
export function serveOperation<Name extends OperationName>(
  server: ServerContext,
  name: Name,
  operation: Operation,
  handler: Handler<Name>,
): (context: Context) => Promise<Response> {
  const answering = async (call: Call<OperationName>): Promise<Reply | Response> => {
    try {
      return await (handler as unknown as AnyHandler)(call);
    } catch (error) {
      throw await withNearName(call.engine, call.caller, error);
    }
  };
  return async (context) => {
    const started = performance.now();
    const correlationId = correlationOf((each) => context.req.header(each));
    let engine: Engine | null = null;
    let response: Response;
    const place = new WorkPlace(server, operation, WAITING.has(name));
    try {
      const { caller, input, ...admitted } = await admit(server, context, operation, place);
      ({ engine } = admitted);
      const lasting = lastingCall(server, context, caller, place);
      const call = { name, server, engine, caller, correlationId, ...input, ...lasting };
      const asker = operation.verb === "work" ? null : askerOf(caller);
      const reply = await askingAs(asker, () => answering(call as unknown as Call<OperationName>));
      response = reply instanceof Response ? reply : responseOf(reply, operation, correlationId);
    } catch (error) {
      response = refusal(server, engine, error, correlationId, context.req.raw.signal);
    }
    place.leave();
    // Nobody will read what is streamed: it would hold its place for ever.
    if (context.req.method === "HEAD") await response.body?.cancel();
    if (engine !== null) {
      const seconds = (performance.now() - started) / 1_000;
      server.metricsOf.get(engine)?.observe(name, response.status, seconds);
    }
    return response;
  };
}

/** The place of a request among those that are carried out, which it gives up while it waits. */
class WorkPlace {
  readonly #server: ServerContext;
  readonly #kind: "requests" | "workerRequests" | "pushes" | null;
  #leave: () => void = () => undefined;

  constructor(server: ServerContext, { verb, rawBody }: Operation, isWaiting: boolean) {
    this.#server = server;
    const isCounted = verb !== null && !isWaiting;
    // Neither readers nor pushes take the room of workers: what they say keeps leases alive.
    const kind = rawBody === true ? "pushes" : verb === "work" ? "workerRequests" : "requests";
    this.#kind = isCounted ? kind : null;
  }

  enter(caller: Caller): void {
    if (this.#kind === null) return;
    this.#leave();
    this.#leave = this.#server.admission.enterAll(workPlaces(this.#server, caller, this.#kind));
  }

  leave(): void {
    this.#leave();
  }
}

/** Who asks for what, and of which workspace. */
async function admit(
  server: ServerContext,
  context: Context,
  operation: Operation,
  place: WorkPlace,
) {
  const header = (name: string) => context.req.header(name);
  if (operation.rawBody === true) {
    const known = await admitPushByToken(server, header("authorization"));
    const bytes = await receive(server, context, operation, known?.caller ?? NOBODY);
    place.enter(known?.caller ?? NOBODY);
    const input = { ...readTarget(context, operation), bytes, body: undefined, idempotency: null };
    const { sensor_id: sensor } = input.params as { sensor_id: string };
    const { key } = input.query as { key?: string };
    return {
      input,
      ...(known ??
        (await askingAs(askerOf(NOBODY), () => admitPush(server, { sensor, key, bytes, header })))),
    };
  }
  const caller = operation.verb === null ? NOBODY : await callerOf(server, header);
  if (operation.verb !== null) checkVerb(caller, operation.verb);
  const engine = engineOf(server, caller);
  const hasBody = operation.body !== undefined;
  const sent = hasBody ? await receive(server, context, operation, caller) : NO_BYTES;
  place.enter(caller);
  return { caller, engine, input: readInput(context, operation, caller, sent) };
}

/** The body as it comes in; those without a token keep out only each other. */
async function receive(
  server: ServerContext,
  context: Context,
  { verb, bodyBytesMax = BODY_BYTES_MAX }: Operation,
  caller: Caller,
): Promise<Uint8Array> {
  checkLength(context.req.header("content-length"), bodyBytesMax);
  const { incoming } = (context.env ?? {}) as { incoming?: IncomingMessage };
  const source = incoming ?? context.req.raw.body;
  const { known, strangers } = server.reception;
  if (caller === NOBODY) return strangers.receive(source, { bytesMax: bodyBytesMax, sender: "" });
  const sender = `${caller.ws} ${verb === "work" ? "work" : ""}`;
  // A body that has to be waited for may take longer than its token lasts.
  const isThere = incoming?.complete === true;
  const bytes = await known.receive(source, { bytesMax: bodyBytesMax, sender });
  if (!isThere) await checkAgain(server, context, caller);
  return bytes;
}

/** Operations that may wait for long; they are counted by themselves. */
const WAITING: ReadonlySet<string> = new Set(["claim", "claimProbes", "claimHeads"]);

/** Who asks for what needs no right. */
const NOBODY: Caller = { actor: { principal: "nobody", token_id: null }, ws: -1, verbs: [] };

/** The id of the request, as its sender or a proxy gave it, or a new one. */
export function correlationOf(header: (name: string) => string | undefined): string {
  const given = header("x-request-id");
  return given !== undefined && /^[\w.:-]{1,100}$/.test(given) ? given : randomUUID();
}

/** The engine of the caller's workspace. */
export function engineOf(server: ServerContext, caller: Caller): Engine {
  const found = caller === NOBODY ? server.engines[0] : server.engineOf.get(caller.ws);
  if (found !== undefined) return found;
  throw new PawlError(
    "FORBIDDEN",
    "This server does not serve the workspace of the token. Ask the server that does.",
  );
}

function readTarget(context: Context, operation: Operation) {
  const { req } = context;
  const params = operation.params && parseInput(operation.params, "path", cleanTexts(req.param()));
  return { params, query: parseQuery(context, operation) };
}

function readInput(context: Context, operation: Operation, caller: Caller, sent: Uint8Array) {
  const target = readTarget(context, operation);
  let body: unknown;
  let idempotency: IdempotencyClaim | null = null;
  if (operation.body !== undefined) {
    if (sent.byteLength > 0) checkContentType(context.req.header("content-type"));
    const valuesMax = bodyValuesMax(operation.bodyBytesMax ?? BODY_BYTES_MAX);
    const said = parseBody(decodeBody(sent), operation.verb === "work", valuesMax);
    const value = withVersion(
      underOwnNames(said, operation.aliases ?? {}),
      target.query,
      operation,
    );
    body = parseInput(operation.body, "body", value);
    const isNamed = context.req.header("idempotency-key") !== undefined && takesKey(operation);
    if (operation.creates === true || isNamed) {
      idempotency = claimOf(context, operation, caller, value);
    }
  }
  return { ...target, body, bytes: NO_BYTES, idempotency };
}

/** The body with the version that its change is for, where the query says that. */
function withVersion(body: unknown, query: unknown, operation: Operation): unknown {
  const { expected_state_version: asked } = (query ?? {}) as { expected_state_version?: number };
  if (asked === undefined || operation.query !== undefined) return body;
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const { expected_state_version: said = asked } = body as { expected_state_version?: unknown };
  if (said === asked) return { ...body, expected_state_version: asked };
  throw sayingDifferently("query.expected_state_version", "body.expected_state_version");
}

const NO_BYTES = new Uint8Array();

/** Checks the token once more, for what lasts. */
async function checkAgain(
  server: ServerContext,
  { req }: Context,
  { actor: { token_id } }: Caller,
): Promise<void> {
  if (token_id === null) return;
  const { actor } = await callerOf(server, (name) => req.header(name));
  // Where no token is needed, a browser whose token has ended is somebody else from then on.
  if (actor.token_id !== token_id) throw tokenEnded();
}

/** What only some calls need, made when it is asked for. */
function lastingCall(
  server: ServerContext,
  context: Context,
  caller: Caller,
  place: WorkPlace,
): Pick<
  Call<OperationName>,
  "header" | "headerNames" | "signal" | "authenticateAgain" | "whileWaiting"
> {
  const header = (name: string) => context.req.header(name);
  const authenticateAgain = () => checkAgain(server, context, caller);
  return {
    header,
    headerNames: () => context.req.raw.headers.keys(),
    signal: () => AbortSignal.any([context.req.raw.signal, server.stopping]),
    authenticateAgain,
    async whileWaiting(wait) {
      const leave = server.admission.enterAll(lastingPlaces(server, caller, "waits"));
      place.leave();
      const result = await wait().finally(leave);
      await authenticateAgain();
      place.enter(caller);
      return result;
    },
  };
}

function parseQuery(context: Context, operation: Operation): unknown {
  if (!context.req.url.includes("?")) {
    return operation.query && parseInput(operation.query, "query", {});
  }
  const given = cleanTexts(context.req.query());
  const query = queryOf(operation);
  if (query !== undefined) return parseInput(query, "query", given);
  const [name] = Object.keys(given);
  if (name === undefined) return undefined;
  throw new PawlError("INPUT_INVALID", `This request takes no query, so not ${name} either.`);
}

function cleanTexts(texts: Record<string, string>): Record<string, string> {
  for (const text of Object.values(texts)) cleanText(text, false);
  return texts;
}

/** The name under which the answer of a creating request is kept, and what it was about. */
function claimOf(
  { req }: Context,
  { method, path, keyField }: Operation,
  caller: Caller,
  body: unknown,
): IdempotencyClaim {
  const { [keyField ?? ""]: fieldKey, ...rest } = body as Record<string, unknown>;
  const headerKey = keyOfHeader(req.header("idempotency-key"));
  const key = headerKey ?? fieldKey;
  if (headerKey !== undefined && fieldKey !== undefined && headerKey !== fieldKey) {
    throw new PawlError(
      "INPUT_INVALID",
      `The Idempotency-Key ${JSON.stringify(headerKey)} and ${keyField} ` +
        `${JSON.stringify(fieldKey)} name the same request: send one of them, or both alike.`,
    );
  }
  if (typeof key !== "string" || key === "") {
    throw new PawlError(
      "IDEMPOTENCY_KEY_MISSING",
      `${method} ${path} creates something: send an \`Idempotency-Key\` header` +
        `${keyField === undefined ? "" : ` or \`${keyField}\` in the body`}, ` +
        "any text that is new for a new wish and the same for a repeat.",
    );
  }
  if (key.length > 200 || cleanText(key, false) !== key) {
    throw new PawlError("INPUT_INVALID", "The Idempotency-Key may have at most 200 characters.");
  }
  return {
    scope: `${caller.actor.principal} ${method} ${path}`,
    key,
    bodyHash: hash("sha256", `${req.path}\n${canonicalJson(rest)}`),
  };
}

function responseOf(reply: Reply, operation: Operation, correlationId: string): Response {
  const headers = commonHeaders(correlationId);
  headers["content-type"] = "application/json";
  if (reply.pos !== null) headers["x-pawl-pos"] = String(reply.pos);
  if (reply.replayed === true) headers["idempotent-replayed"] = "true";
  Object.assign(headers, reply.headers);
  return new Response(knownText(reply.answer) ?? JSON.stringify(reply.answer), {
    status: reply.status ?? operation.status,
    headers,
  });
}

/** Headers of every answer. */
export function commonHeaders(correlationId: string): Record<string, string> {
  return {
    "x-request-id": correlationId,
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
  };
}

/**
 * The answer to a request that went wrong. What cannot be done now, and what was given up, is one line
 * in the log; only a mistake of ours brings its stack.
 */
export function refusal(
  server: ServerContext,
  engine: Engine | null,
  error: unknown,
  correlationId: string,
  request?: AbortSignal,
): Response {
  const problem = problemOf(error, correlationId);
  const isGone = request?.aborted === true && !server.stopping.aborted;
  // Behind a failure of the database there is one of its own, also where nobody waited for the answer.
  const isPlain = error instanceof PawlError && error.cause === undefined;
  const isGivenUp = isGone && (error === request.reason || isPlain);
  if (problem.status >= 500) {
    const isOurs = problem.code === "INTERNAL";
    const failed = isOurs ? { err: error } : { code: problem.code, ...reasonOf(error) };
    const fields = isGivenUp ? {} : failed;
    const text = isGivenUp ? "A client went away before it was answered." : problem.detail;
    server.log.error({ ...fields, correlation_id: correlationId }, text);
  }
  if (engine === null) server.processMetrics.deny(problem.code);
  else if (problem.code.startsWith("STORE_") && !isGivenUp)
    server.metricsOf.get(engine)?.storeErrors.inc();
  return problemResponse(problem, commonHeaders(correlationId));
}

/** What lies behind a failure, in one line. */
function reasonOf(error: unknown): { reason?: string } {
  const { cause } = error as { cause?: unknown };
  if (!(cause instanceof Error)) return {};
  return { reason: cause.message.split("\n", 1)[0] ?? "" };
}

/**
 * The refusal of a name that there is not, with the one of the caller's own workspace that was
 * probably meant; any other error as it is, and so for callers that may not read names.
 */
async function withNearName(engine: Engine, { verbs }: Caller, error: unknown): Promise<unknown> {
  if (!(error instanceof PawlError) || !verbs.includes("read")) return error;
  const { kind, field } = REFUSED_NAMES[error.code] ?? {};
  const name = error.details[field ?? ""];
  if (kind === undefined || typeof name !== "string") return error;
  const meant = nearMiss(name, await namesOf(engine, kind));
  if (meant === null) return error;
  const { code, message, details, cause } = error;
  const first = `${JSON.stringify(name)}. `;
  // As a function: a name may hold what a replacement takes for a pattern.
  const told = message.replace(first, () => `${first}Did you mean ${meant}? `);
  return new PawlError(code, told, { cause, details: { ...details, meant } });
}

async function namesOf(engine: Engine, kind: DefinitionRow["kind"]): Promise<string[]> {
  try {
    const where = [{ cell: "kind", is: "=", value: kind }] as const;
    const named = await engine.read((reader) =>
      reader.find({ table: DEFINITIONS, where, order: [{ cell: "name" }], limit: NAMES_MAX }),
    );
    return named.map((row) => row.name);
  } catch {
    // The refusal is what counts; a store that cannot be read tells of itself.
    return [];
  }
}
