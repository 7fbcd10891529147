import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { serverUrl } from "../../client/server-answer.ts";
import { problemError } from "../../core/api/problem.ts";
import { PawlError } from "../../core/errors.ts";

/** Where a shard is served, and the token it wants. */
export type ShardAddress = { url: string; token?: string | undefined };

/** How one request is sent. */
export type SendOptions = {
  timeoutMs: number;
  /** Whether sending it twice does what sending it once does. */
  isRepeatable: boolean;
  headers?: Record<string, string>;
};

/** Sends JSON to a shard over connections that stay open. */
export interface ShardPost {
  readonly url: string;
  /**
   * Posts a text and gives that of the answer. Throws what the shard refused it with, and
   * `SHARD_UNREACHABLE` when no answer came; `details.sent` is false when it never got there.
   */
  send(path: string, text: string, options: SendOptions): Promise<string>;
  close(): void;
}

/** Less than a server keeps an idle connection, so that it is not used just as that closes it. */
const IDLE_MS_MAX = 60_000;

/** Opens a way to post to a shard; `CONFIG_INVALID` when the address is not a URL. */
export function openShardPost({ url, token }: ShardAddress): ShardPost {
  const base = serverUrl(url);
  const isSecure = base.protocol === "https:";
  const settings = { keepAlive: true, timeout: IDLE_MS_MAX };
  const agent = isSecure ? new HttpsAgent(settings) : new HttpAgent(settings);
  const start = isSecure ? httpsRequest : httpRequest;
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };

  function post(path: string, body: Buffer, { timeoutMs, headers }: SendOptions) {
    return new Promise<{ status: number; text: string }>((resolve, reject) => {
      const target = new URL(base.pathname.replace(/\/$/, "") + path, base);
      const request = start(target, {
        method: "POST",
        agent,
        headers: {
          ...authorization,
          ...headers,
          "content-type": "application/json",
          "content-length": body.byteLength,
        },
      });
      const timer = setTimeout(() => {
        request.destroy(new Error(`there was no answer within ${timeoutMs} ms`));
      }, timeoutMs);
      const fail = (error: Error): void => {
        clearTimeout(timer);
        reject(Object.assign(error, { isSocketStale: request.reusedSocket }));
      };
      request.on("error", fail);
      request.on("response", (response: IncomingMessage) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", fail);
        response.on("end", () => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() });
        });
      });
      request.end(body);
    });
  }

  return {
    url,
    async send(path, text, options) {
      const body = Buffer.from(text);
      const answer = await post(path, body, options)
        .catch((error: unknown) => {
          if (!options.isRepeatable || !isStaleSocket(error)) throw error;
          return post(path, body, options);
        })
        .catch((error: unknown) => {
          throw unreachable(url, error);
        });
      if (answer.status >= 200 && answer.status < 300) return answer.text;
      throw refusalIn(url, answer);
    },
    close: () => agent.destroy(),
  };
}

function isStaleSocket(error: unknown): boolean {
  const { isSocketStale } = error as { isSocketStale?: boolean };
  const code = codeOf(error);
  return isSocketStale === true && (code === "ECONNRESET" || code === "EPIPE");
}

/** What a connection says that was never made: nothing was sent over it. */
const NEVER_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

function unreachable(url: string, cause: unknown): PawlError {
  const code = codeOf(cause);
  const message = cause instanceof Error && cause.message !== "" ? cause.message : code;
  const reason = code === "ECONNREFUSED" ? "nothing listens there (ECONNREFUSED)" : message;
  return new PawlError(
    "SHARD_UNREACHABLE",
    `The shard at ${url} cannot be reached: ${reason}. \`pawl shard serve\` serves it.`,
    { cause, details: { url, sent: !NEVER_SENT.has(code) } },
  );
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}

function refusalIn(url: string, { status, text }: { status: number; text: string }): PawlError {
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // The page of a proxy, or of another program on that port.
  }
  return (
    problemError(body) ??
    new PawlError(
      "SHARD_UNREACHABLE",
      `What answers at ${url} is not a shard of Pawl (status ${status}).`,
      { details: { url, status, sent: true } },
    )
  );
}
