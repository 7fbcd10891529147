import { type Operation, takesKey } from "../work/operation.ts";
import type { AnswerOf, OperationName, PartInput } from "../work/operations.ts";
import type { EventData, EventType } from "../work/events.ts";
import type { EventDocument } from "../work/server-api.ts";
import { PawlError } from "../kernel/errors.ts";
import { connectionCode, documentOf, serverUrl, unreachableServer } from "./server-answer.ts";
import { type WaitOptions, waitForBackfill, waitForRun } from "./waiting.ts";

/** One message of a stream of server-sent events. */
export type ServerSentEvent = { id: string | null; event: string; data: string };

/**
 * The messages of a stream in order; comments, which only keep it open, are left out. Holds the stream
 * from the start: Node ends the body of an answer that nobody reads or refers to any more. Ends it when
 * nobody wants more of it, or the signal says so: that of the request may have been forgotten by then, as
 * Node keeps no hold of it.
 */
export function serverSentEvents(
  body: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): AsyncGenerator<ServerSentEvent> {
  return messagesOf(body.getReader(), signal);
}

async function* messagesOf(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<ServerSentEvent> {
  // Not waited for: whoever makes the stream may take its time to end it.
  const end = (): void => void reader.cancel().catch(() => undefined);
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted === true) end();
  const decoder = new TextDecoder();
  let text = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      let stop = text.indexOf("\n\n");
      while (stop >= 0) {
        const message = parseMessage(text.slice(0, stop));
        text = text.slice(stop + 2);
        if (message !== null) yield message;
        stop = text.indexOf("\n\n");
      }
    }
  } finally {
    signal?.removeEventListener("abort", end);
    end();
  }
}

function parseMessage(block: string): ServerSentEvent | null {
  let id: string | null = null;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") id = value;
    else if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { id, event, data: data.join("\n") };
}

/** How a client sends: the platform's own `fetch`, or an app's in the same process. */
export type Fetch = (request: Request) => Response | Promise<Response>;

/** Where the server is, and who asks. */
export type ClientOptions = {
  /** For example `http://127.0.0.1:7290`. */
  url: string;
  token?: string | undefined;
  fetch?: Fetch | undefined;
  /** How long to wait before each new try after a lost connection; the number of tries follows. */
  retryDelaysMs?: readonly number[] | undefined;
};

type Nothing = Record<string, never>;

type Field<Name extends OperationName, Part extends "params" | "query" | "body"> = [
  PartInput<Name, Part>,
] extends [never]
  ? unknown
  : Nothing extends PartInput<Name, Part>
    ? { [Key in Part]?: PartInput<Name, Part> }
    : { [Key in Part]: PartInput<Name, Part> };

/** What a call of an operation takes. */
export type CallInput<Name extends OperationName> = Field<Name, "params"> &
  Field<Name, "query"> &
  Field<Name, "body"> & {
    /** Names what changes something, so that a repeat is safe; made up for what creates. */
    idempotencyKey?: string | undefined;
    signal?: AbortSignal | undefined;
    timeoutMs?: number | undefined;
  };

type CallArguments<Name extends OperationName> =
  Partial<CallInput<Name>> extends CallInput<Name> ? [input?: CallInput<Name>] : [CallInput<Name>];

/** What to follow in the ledger. */
export type FollowInput<Type extends string = string> = {
  after?: number | undefined;
  types?: readonly Type[] | undefined;
  entity?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** An event of a type that is known here has data of that type; of any other, some document. */
export type FollowedEvent<Type extends string = string> = Type extends EventType
  ? Omit<EventDocument, "type" | "data"> & { type: Type; data: EventData<Type> }
  : EventDocument;

type ListName = {
  [Name in OperationName]: AnswerOf<Name> extends { items: unknown[]; next_cursor: string | null }
    ? Name
    : never;
}[OperationName];

/**
 * The HTTP API as functions. Refusals are `PawlError` with the server's code, message and details;
 * `SERVER_UNREACHABLE` when nothing answers, also after trying again where that is safe.
 */
export interface Client {
  readonly url: string;
  call<Name extends OperationName>(
    name: Name,
    ...input: CallArguments<Name>
  ): Promise<AnswerOf<Name>>;
  /** All items of a list, page by page. */
  each<Name extends ListName>(
    name: Name,
    ...input: CallArguments<Name>
  ): AsyncGenerator<AnswerOf<Name>["items"][number]>;
  /**
   * Events as they come, without end and without a gap, over lost connections too. Where `types` names
   * them, their `data` is typed.
   */
  follow<const Type extends string = string>(
    input?: FollowInput<Type>,
  ): AsyncGenerator<FollowedEvent<Type>>;
  readonly backfills: {
    /**
     * Resolves with the backfill once it has ended, however it ended, or cannot go on by itself: paused at
     * its failure limit, or behind one that did not succeed. Follows events; `NOT_YET` after `timeoutMs`.
     */
    waitFor(backfillId: string, options?: WaitOptions): Promise<AnswerOf<"getBackfill">>;
  };
  readonly runs: {
    /** Resolves with the run once it has ended, however it ended; as with backfills. */
    waitFor(runId: string, options?: WaitOptions): Promise<AnswerOf<"getRun">>;
  };
}

type LooseQuery = Record<string, string | number | undefined>;

type LooseInput = {
  params?: Record<string, unknown>;
  query?: LooseQuery;
  body?: unknown;
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
};

const RETRY_DELAYS_MS = [100, 400, 1_200];

/** Longer than any claim or read may wait on the server. */
const TIMEOUT_MS = 60_000;

/** Makes a client of a server; nothing is sent before the first call. */
export function createClient(options: ClientOptions): Client {
  const send = options.fetch ?? ((request: Request) => fetch(request));
  const delays = options.retryDelaysMs ?? RETRY_DELAYS_MS;
  serverUrl(options.url);
  const url = options.url.replace(/\/+$/, "");

  async function open(name: OperationName, input: LooseInput, accept: string): Promise<Response> {
    // At the first call: whoever only defines things does without the schemas of all operations.
    const { OPERATIONS } = await import("../work/operations.ts");
    const operation: Operation = OPERATIONS[name];
    const key = operation.creates === true ? keyOf(operation, input) : givenKey(operation, input);
    const headers = headersOf(options.token, accept, operation.body !== undefined, key);
    const address = url + pathOf(operation.path, input.params) + queryOf(input.query);
    const body = operation.body === undefined ? null : JSON.stringify(input.body ?? {});
    for (let attempt = 0; ; attempt++) {
      const signal = signalOf(input, accept);
      try {
        return await send(
          // Nothing leads a request, or the token in it, elsewhere.
          new Request(address, {
            method: operation.method,
            headers,
            body,
            signal,
            redirect: "manual",
          }),
        );
      } catch (error) {
        input.signal?.throwIfAborted();
        const delay = delays[attempt];
        if (delay === undefined || !mayRepeat(operation, key, error))
          throw unreachableServer(url, error);
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
    }
  }

  async function call(name: OperationName, input: LooseInput = {}): Promise<unknown> {
    const response = await open(name, input, "application/json");
    return readAnswer(url, response);
  }

  async function* each(name: ListName, input: LooseInput = {}): AsyncGenerator {
    let cursor: string | null = null;
    do {
      const query: LooseQuery = cursor === null ? { ...input.query } : { ...input.query, cursor };
      const page = (await call(name, { ...input, query })) as AnswerOf<ListName>;
      yield* page.items;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  async function* follow(input: FollowInput = {}): AsyncGenerator<EventDocument> {
    let after = input.after ?? 0;
    const { types, entity, signal } = input;
    while (true) {
      if (signal?.aborted === true) return;
      const query = { after, types: types?.join(","), entity, follow: "true" };
      const response = await open("listEvents", { query, signal }, "text/event-stream");
      if (!response.ok || response.body === null) await readAnswer(url, response);
      for await (const { data } of untilLost(response, signal)) {
        const event = JSON.parse(data) as EventDocument;
        after = event.pos;
        yield event;
      }
      // A server that stops ends its streams; it is not asked again and again while it does.
      await pauseUnlessAborted(signal);
    }
  }

  const asking = { call, follow } as Pick<Client, "call" | "follow">;
  return {
    url,
    call,
    each,
    follow,
    backfills: { waitFor: (id, wait) => waitForBackfill(asking, id, wait) },
    runs: { waitFor: (id, wait) => waitForRun(asking, id, wait) },
  } as Client;
}

/** The messages of a stream until its connection is lost, which is no error: it is taken up again. */
async function* untilLost(response: Response, signal: AbortSignal | undefined) {
  if (response.body === null) return;
  const messages = serverSentEvents(response.body, signal);
  try {
    while (true) {
      const next = await messages.next().catch(() => null);
      if (next === null || next.done === true) return;
      yield next.value;
    }
  } finally {
    await messages.return(undefined);
  }
}

/** How long a stream that has ended is left alone before it is taken up again. */
const STREAM_PAUSE_MS = 100;

async function pauseUnlessAborted(signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted === true) return;
  await new Promise((resolve) => setTimeout(resolve, STREAM_PAUSE_MS));
}

function headersOf(
  token: string | undefined,
  accept: string,
  hasBody: boolean,
  key: string | null,
): Record<string, string> {
  const headers: Record<string, string> = { accept };
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  if (hasBody) headers["content-type"] = "application/json";
  if (key !== null) headers["idempotency-key"] = key;
  return headers;
}

/** The key of a creating request: as given, as in its body, or a new one. */
function keyOf({ keyField }: Operation, { idempotencyKey, body }: LooseInput): string {
  const inBody = (body as Record<string, unknown> | undefined)?.[keyField ?? ""];
  if (idempotencyKey !== undefined) return idempotencyKey;
  return typeof inBody === "string" ? inBody : crypto.randomUUID();
}

/** The key of a request that need not have one. */
function givenKey(operation: Operation, { idempotencyKey }: LooseInput): string | null {
  return takesKey(operation) ? (idempotencyKey ?? null) : null;
}

/** Refuses an id that a URL cannot carry as one: `..` would lead to another path, also when encoded. */
function pathOf(path: string, params: Record<string, unknown> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const id = String(params[name]);
    if (id !== "" && id !== "." && id !== "..") return encodeURIComponent(id);
    throw new PawlError("INPUT_INVALID", `The ${name} may not be ${JSON.stringify(id)}.`, {
      details: { [name]: id },
    });
  });
}

function queryOf(query: LooseQuery = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search.size === 0 ? "" : `?${search.toString()}`;
}

function signalOf(input: LooseInput, accept: string): AbortSignal | null {
  const own = input.signal ?? null;
  if (accept === "text/event-stream") return own;
  const timeout = AbortSignal.timeout(input.timeoutMs ?? TIMEOUT_MS);
  return own === null ? timeout : AbortSignal.any([own, timeout]);
}

/** Whether a repeat cannot do a thing twice: reads, what has a key, and what was never sent. */
function mayRepeat(operation: Operation, key: string | null, error: unknown): boolean {
  const { method, verb } = operation;
  const isRevocation = method === "DELETE" && verb === "admin";
  // A second PUT or DELETE of what has versions would be refused, though the first was carried out.
  const isSafe =
    method === "GET" || key !== null || verb === "read" || verb === "work" || isRevocation;
  if (error instanceof Error && error.name === "TimeoutError") return false;
  return isSafe || connectionCode(error) === "ECONNREFUSED";
}

async function readAnswer(url: string, response: Response): Promise<unknown> {
  const { status } = response;
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw unreachableServer(url, error);
  }
  return documentOf(url, { status, text });
}
