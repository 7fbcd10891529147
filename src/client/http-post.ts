import type { IncomingMessage } from "node:http";
import process from "node:process";
import { documentOf, serverUrl, unreachableServer } from "./server-answer.ts";

/** How one request is sent. */
export type PostOptions = {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string> | undefined;
  /** Whether sending it twice does what sending it once does. */
  isRepeatable: boolean;
};

/** What came back, whatever it says. */
export type PostAnswer = { status: number; text: string };

/** Posts JSON texts to one address over connections that stay open. */
export interface HttpPost {
  /** Rejects with the error of the connection when no answer came. */
  post(path: string, text: string, options: PostOptions): Promise<PostAnswer>;
  close(): void;
}

/** Less than a server keeps an idle connection, so that it is not used just as that closes it. */
const IDLE_MS_MAX = 60_000;

/** Opens a way to post to an address; `CONFIG_INVALID` when that is not a URL. */
export function openHttpPost({
  url,
  token,
}: {
  url: string;
  token?: string | undefined;
}): HttpPost {
  const base = serverUrl(url);
  // An import would make all that they export, WebSocket among it, and so load what `fetch` is made
  // of: 30 ms of every process and thread.
  const { Agent, request: start } =
    base.protocol === "https:"
      ? process.getBuiltinModule("node:https")
      : process.getBuiltinModule("node:http");
  const agent = new Agent({ keepAlive: true, timeout: IDLE_MS_MAX });
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };

  function send(path: string, body: Buffer, { timeoutMs, signal, headers }: PostOptions) {
    return new Promise<PostAnswer>((resolve, reject) => {
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
        ...(signal === undefined ? {} : { signal }),
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
    async post(path, text, options) {
      const body = Buffer.from(text);
      try {
        return await send(path, body, options);
      } catch (error) {
        // The server may close an idle connection just as it is used again; that is no outage.
        if (!options.isRepeatable || !isStaleSocket(error)) throw error;
        return send(path, body, options);
      }
    },
    close: () => agent.destroy(),
  };
}

function isStaleSocket(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, isSocketStale } = error as Error & { code?: string; isSocketStale?: boolean };
  return isSocketStale === true && (code === "ECONNRESET" || code === "EPIPE");
}

/** Where a server listens, and the token it wants. */
export type PostAddress = { url: string; token?: string };

/** Sends JSON to one server over connections that stay open. */
export interface JsonPost {
  /** Posts the body and gives back the answer's body; `PawlError` with the server's code if refused. */
  send(path: string, body: unknown, timeoutMs: number, signal?: AbortSignal): Promise<unknown>;
  close(): void;
}

/** Opens a way to post JSON to a server; `CONFIG_INVALID` when the address is not a URL. */
export function openJsonPost(address: PostAddress): JsonPost {
  const { url } = address;
  const http = openHttpPost(address);
  return {
    async send(path, body, timeoutMs, signal) {
      const options = { timeoutMs, signal, isRepeatable: true };
      const answer = await http
        .post(path, JSON.stringify(body), options)
        .catch((error: unknown) => {
          signal?.throwIfAborted();
          throw unreachableServer(url, error);
        });
      return documentOf(url, answer);
    },
    close: () => http.close(),
  };
}
