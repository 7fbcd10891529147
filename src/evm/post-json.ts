import type { AbortSignalLike } from "../define/task-context.ts";
import { RpcFailure, type RpcFailureFacts } from "./rpc-failure.ts";

/** Where and how a JSON body is posted. */
export type PostOptions = {
  url: string;
  headers?: Readonly<Record<string, string>>;
  /** Named in failures. */
  method: string;
  timeoutMs: number;
  answerBytesMax: number;
  signal: AbortSignalLike;
};

/** The JSON that was answered, whatever the status. */
export type JsonAnswer = { status: number; retryAfter: string | null; body: unknown };

/**
 * Posts JSON and gives back the JSON of the answer, with the status and `Retry-After` kept;
 * `RpcFailure` without one, and the signal's reason when it was aborted.
 */
export async function postJson(body: unknown, options: PostOptions): Promise<JsonAnswer> {
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

async function readAnswer(response: Response, options: PostOptions): Promise<JsonAnswer> {
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
  { method, answerBytesMax }: PostOptions,
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
