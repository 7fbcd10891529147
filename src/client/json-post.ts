import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from "node:http";
import { request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { documentOf, serverUrl, unreachableServer } from "./server-answer.ts";

/** Where a server listens, and the token it wants. */
export type ServerAddress = { url: string; token?: string };

/** Sends JSON to one server over connections that stay open. */
export interface JsonPost {
  /** Posts the body and gives back the answer's body; `PawlError` with the server's code if refused. */
  send(path: string, body: unknown, timeoutMs: number, signal?: AbortSignal): Promise<unknown>;
  close(): void;
}

/** Opens a way to post JSON to a server; `CONFIG_INVALID` when the address is not a URL. */
export function openJsonPost({ url, token }: ServerAddress): JsonPost {
  const base = serverUrl(url);
  const isSecure = base.protocol === "https:";
  const agent = isSecure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  const start = isSecure ? httpsRequest : httpRequest;
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };

  function post(path: string, text: Buffer, timeoutMs: number, signal?: AbortSignal) {
    return new Promise<{ status: number; text: string }>((resolve, reject) => {
      const target = new URL(base.pathname.replace(/\/$/, "") + path, base);
      const request: ClientRequest = start(target, {
        method: "POST",
        agent,
        headers: {
          ...authorization,
          "content-type": "application/json",
          "content-length": text.byteLength,
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
      request.end(text);
    });
  }

  return {
    async send(path, body, timeoutMs, signal) {
      const text = Buffer.from(JSON.stringify(body));
      const answer = await post(path, text, timeoutMs, signal)
        .catch((error: unknown) => {
          // The server may close an idle connection just as it is used again; that is no outage.
          if (!isStaleSocket(error)) throw error;
          return post(path, text, timeoutMs, signal);
        })
        .catch((error: unknown) => {
          signal?.throwIfAborted();
          throw unreachableServer(url, error);
        });
      return documentOf(url, answer);
    },
    close: () => agent.destroy(),
  };
}

function isStaleSocket(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, isSocketStale } = error as Error & { code?: string; isSocketStale?: boolean };
  return isSocketStale === true && (code === "ECONNRESET" || code === "EPIPE");
}
