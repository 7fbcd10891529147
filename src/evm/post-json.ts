/** What is known of a request that a node did not answer with a result. */
export type RpcFailureFacts = {
  method: string;
  /**
   * - `refused`: the node answered with a JSON-RPC error;
   * - `status`: it answered with an HTTP error and no JSON-RPC error in it;
   * - `unreachable`: there was no answer, or it broke off;
   * - `timeout`: the answer took too long;
   * - `oversized`: the answer has more bytes than may be held in memory;
   * - `malformed`: the answer is not what the protocol says.
   */
  kind: "refused" | "status" | "unreachable" | "timeout" | "oversized" | "malformed";
  /** The HTTP status, where there was an answer. */
  status?: number;
  /** The code of the JSON-RPC error. */
  code?: number;
  data?: unknown;
  /** The `Retry-After` header, as it came. */
  retryAfter?: string | null;
};

/** Longest message of a node that is kept: patterns are matched against it, and a node may be hostile. */
export const NODE_MESSAGE_LENGTH_MAX = 1_000;

/**
 * A request that a node did not answer with a result, before it is known what that means. Whatever
 * the node says is cut here, before anything is matched against it.
 */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  readonly facts: Readonly<RpcFailureFacts>;

  constructor(message: string, facts: RpcFailureFacts, cause?: unknown) {
    super(message.slice(0, NODE_MESSAGE_LENGTH_MAX), { cause });
    this.facts = facts;
  }
}

/** Where and how a JSON body is posted. */
export type NodePostOptions = {
  url: string;
  headers?: Readonly<Record<string, string>>;
  /** Named in failures. */
  method: string;
  timeoutMs: number;
  answerBytesMax: number;
  signal: AbortSignal;
};

/** The JSON that was answered, whatever the status. */
export type JsonAnswer = { status: number; retryAfter: string | null; body: unknown };

/**
 * Posts JSON and gives back the JSON of the answer, with the status and `Retry-After` kept;
 * `RpcFailure` without one, and the signal's reason when it was aborted.
 */
export async function postJson(body: unknown, options: NodePostOptions): Promise<JsonAnswer> {
  const { signal, method, timeoutMs } = options;
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  signal.addEventListener("abort", abort, { once: true });
  let isTimedOut = false;
  const timer = setTimeout(() => {
    isTimedOut = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(options.url, {
      method: "POST",
      headers: { "content-type": "application/json", ...options.headers },
      body: JSON.stringify(body),
      // A redirect could lead into the worker's own network.
      redirect: "manual",
      signal: controller.signal,
    });
    return await readAnswer(response, options);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RpcFailure) throw error;
    if (isTimedOut) {
      const message = `There was no answer to ${method} within ${timeoutMs} ms.`;
      throw new RpcFailure(message, { method, kind: "timeout" }, error);
    }
    // The address may hold a key, so only the reason is told.
    const message = `The node cannot be reached for ${method}: ${reasonOf(error)}.`;
    throw new RpcFailure(message, { method, kind: "unreachable" }, error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

async function readAnswer(response: Response, options: NodePostOptions): Promise<JsonAnswer> {
  const { method } = options;
  const { status } = response;
  const retryAfter = response.headers.get("retry-after");
  const facts = { method, status, retryAfter } satisfies Partial<RpcFailureFacts>;
  if (status >= 300 && status < 400) {
    const message = `The node answered ${method} with a redirect (${status}), which is not followed; use the address that it leads to.`;
    throw new RpcFailure(message, { ...facts, kind: "status" });
  }
  const text = await readText(response, options);
  try {
    return { status, retryAfter, body: JSON.parse(text) as unknown };
  } catch (error) {
    const start = text.slice(0, 200).replaceAll(/\s+/g, " ");
    const message = `The node answered ${method} with status ${status} and no JSON: ${start}`;
    throw new RpcFailure(message, { ...facts, kind: status < 400 ? "malformed" : "status" }, error);
  }
}

/** Reads the body, but never more of it than may be held. */
async function readText(
  response: Response,
  { method, answerBytesMax }: NodePostOptions,
): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > answerBytesMax) {
      const message = `The answer to ${method} has more than ${answerBytesMax} bytes.`;
      throw new RpcFailure(message, { method, kind: "oversized", status: response.status });
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  const reason = cause instanceof Error ? cause : error;
  if (!(reason instanceof Error)) return String(reason);
  const { code } = reason as Error & { code?: string };
  return code ?? reason.message;
}

/** What a request needs of whoever makes it: when to break off, and its turn at the node. */
export type Asking = { readonly signal: AbortSignal; readonly turn: () => Promise<void> };

/** One method to be called on a node. */
export type RpcCall = { method: string; params: readonly unknown[] };

/** How requests are sent to a node. */
export type JsonRpcOptions = {
  url: string;
  headers?: Readonly<Record<string, string>>;
  timeoutMs: number;
  answerBytesMax: number;
  /** How many calls go into one HTTP request; 1 for a node that takes no batches. */
  batchSize: number;
};

/** Calls methods of one node over HTTP. */
export interface JsonRpc {
  /** The result of one call; `RpcFailure` if there is none. */
  call(call: RpcCall, asking: Asking): Promise<unknown>;
  /** The result of each call, or the `RpcFailure` of that very call in its place. */
  batch(calls: readonly RpcCall[], asking: Asking): Promise<unknown[]>;
}

type Reply = { id?: unknown; result?: unknown; error?: unknown };
type Answer = { status: number; retryAfter: string | null; body: unknown };

/** Enough to hide the way to the node and back, and few enough to look like one client. */
const REQUESTS_AT_ONCE = 4;

/** Why there was no answer where the other side ended the connection. */
const ENDED: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);

/** Who ends a connection later than this has thought about the request. */
const AT_ONCE_MS = 3_000;

/** Whether the connection was ended as the request came. */
function isEndedAtOnce(error: unknown, sentMs: number): boolean {
  if (!(error instanceof RpcFailure) || error.facts.kind !== "unreachable") return false;
  return ENDED.has(reasonOf(error.cause)) && performance.now() - sentMs < AT_ONCE_MS;
}

/**
 * Opens a way to call a node.
 *
 * viem's own transports are not used: they drop the status and `Retry-After` of a refusal that has
 * a JSON body, so a node that says when to come back is not heard, and refuse answers above 10 MiB.
 */
export function openJsonRpc(options: JsonRpcOptions): JsonRpc {
  let batchSize = options.batchSize;
  const post = { ...options, ...withCredentials(options) };

  async function send(calls: readonly RpcCall[], asking: Asking): Promise<unknown[]> {
    // From 1 on: some nodes take 0 for none, and so for a call that wants no answer.
    const requests = calls.map((call, index) => ({ jsonrpc: "2.0", id: index + 1, ...call }));
    const method = calls[0]?.method ?? "";
    const isBatch = calls.length > 1;
    const { signal } = asking;
    const body = isBatch ? requests : requests[0];
    const answer = await postAgain(body, asking, { method, signal });
    return isBatch ? resultsOf(calls, answer) : [resultOf(answer.body, { ...answer, method })];
  }

  /**
   * Posts, and posts again where the connection was ended instead: a node ends kept ones when it likes,
   * also just as the next request comes, and there are as many of them as requests at once.
   */
  async function postAgain(
    body: unknown,
    { turn }: Asking,
    named: Pick<NodePostOptions, "method" | "signal">,
  ): Promise<JsonAnswer> {
    for (let kept = REQUESTS_AT_ONCE; ; kept--) {
      await turn();
      const sentMs = performance.now();
      try {
        return await postJson(body, { ...post, ...named });
      } catch (error) {
        if (kept === 0 || !isEndedAtOnce(error, sentMs)) throw error;
      }
    }
  }

  /** Sends smaller batches from now on when the node says that they are too large for it. */
  async function sendAdapting(calls: readonly RpcCall[], asking: Asking): Promise<unknown[]> {
    try {
      return await send(calls, asking);
    } catch (error) {
      if (!(error instanceof RpcFailure)) throw error;
      if (calls.length === 1) return [error];
      if (!isAboutBatches(error)) return calls.map(() => error);
      const half = Math.ceil(calls.length / 2);
      const first = await sendAdapting(calls.slice(0, half), asking);
      // Only what helped is learnt: the words may have been about one of the calls after all.
      if (!first.some((result) => result instanceof RpcFailure)) {
        batchSize = Math.min(batchSize, half);
      }
      return [...first, ...(await sendAdapting(calls.slice(half), asking))];
    }
  }

  return {
    async call(call, asking) {
      const [result] = await sendAdapting([call], asking);
      if (result instanceof RpcFailure) throw result;
      return result;
    },
    async batch(calls, asking) {
      const results: unknown[] = Array.from({ length: calls.length });
      let next = 0;
      let trouble: RpcFailure | null = null;
      const sendSome = async (): Promise<void> => {
        while (next < calls.length && trouble === null) {
          const start = next;
          next = Math.min(calls.length, start + batchSize);
          const part = await sendAdapting(calls.slice(start, next), asking);
          for (const [index, result] of part.entries()) results[start + index] = result;
          trouble ??= troubleOf(part);
        }
      };
      await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, sendSome));
      return results.map((result) => result ?? (result === undefined ? trouble : null));
    },
  };
}

/** Nodes are also reached by a name and a password in their address, which `fetch` does not take. */
function withCredentials({
  url,
  headers = {},
}: JsonRpcOptions): Pick<NodePostOptions, "url" | "headers"> {
  const parsed = URL.parse(url);
  if (parsed === null || (parsed.username === "" && parsed.password === ""))
    return { url, headers };
  const pair = `${decodeURIComponent(parsed.username)}:${decodeURIComponent(parsed.password)}`;
  parsed.username = "";
  parsed.password = "";
  const authorization = `Basic ${Buffer.from(pair).toString("base64")}`;
  return { url: parsed.href, headers: { authorization, ...headers } };
}

/** Why the other calls of a batch are not worth sending now: the node does not answer any. */
function troubleOf(results: readonly unknown[]): RpcFailure | null {
  for (const result of results) {
    if (!(result instanceof RpcFailure)) return null;
    if (result.facts.kind === "refused" && result.facts.status !== 429) return null;
  }
  return (results[0] as RpcFailure | undefined) ?? null;
}

/** What a node that knows no batches calls them: an invalid request, or not to be understood. */
const BATCH_CODES: ReadonlySet<number | undefined> = new Set([-32_600, -32_602, -32_700]);

/** A refusal of the batch itself; what is wrong with one of its calls stands in its own reply. */
function isAboutBatches(failure: RpcFailure): boolean {
  const { kind, status = 200, code } = failure.facts;
  // To be asked even more often is the last thing that such a node needs.
  if (status === 429) return false;
  if (kind === "refused" && (BATCH_CODES.has(code) || /\bbatch/i.test(failure.message)))
    return true;
  if (status >= 500 || [401, 403, 404, 408].includes(status)) return false;
  return status >= 400 || kind === "malformed";
}

function resultsOf(calls: readonly RpcCall[], { body, ...answer }: Answer): unknown[] {
  if (!Array.isArray(body)) {
    // One error for all of them, or something that is no answer to a batch.
    throw resultOf(body, { ...answer, method: calls[0]?.method ?? "" }, true);
  }
  const replies = new Map((body as Reply[]).map((reply) => [String(reply?.id), reply]));
  return calls.map(({ method }, index) =>
    resultOf(replies.get(String(index + 1)), { ...answer, method }),
  );
}

/** The result in a reply, or the failure it stands for. */
function resultOf(
  reply: unknown,
  answer: Pick<RpcFailureFacts, "method" | "status" | "retryAfter">,
  isForBatch = false,
): unknown {
  const { method, status, retryAfter = null } = answer;
  const facts = { method, retryAfter, ...(status === undefined ? {} : { status }) };
  if (typeof reply === "object" && reply !== null) {
    const { result, error } = reply as Reply;
    if (error !== undefined && error !== null) return refusal(error, facts);
    if (result !== undefined && !isForBatch) return result;
  }
  return new RpcFailure(`The node's answer to ${method} is no JSON-RPC reply: ${excerpt(reply)}`, {
    ...facts,
    kind: "malformed",
  });
}

function refusal(error: unknown, facts: Omit<RpcFailureFacts, "kind">): RpcFailure {
  const { code, message, data } = (typeof error === "object" ? error : { message: error }) as {
    code?: unknown;
    message?: unknown;
    data?: unknown;
  };
  const text = typeof message === "string" ? message : excerpt(error);
  return new RpcFailure(text, {
    ...facts,
    kind: "refused",
    ...(typeof code === "number" ? { code } : {}),
    ...(data === undefined ? {} : { data }),
  });
}

function excerpt(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 200);
}
