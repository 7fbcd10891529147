import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from "node:http";
import { request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { ERRORS, type ErrorCode, PawlError } from "../core/errors.ts";

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
  const base = parseUrl(url);
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
      return readAnswer(url, answer);
    },
    close: () => agent.destroy(),
  };
}

function parseUrl(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed !== null && /^https?:$/.test(parsed.protocol)) return parsed;
  throw new PawlError(
    "CONFIG_INVALID",
    `The server's address must be a URL such as http://127.0.0.1:7290, not ${JSON.stringify(url)}.`,
  );
}

function isStaleSocket(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, isSocketStale } = error as Error & { code?: string; isSocketStale?: boolean };
  return isSocketStale === true && (code === "ECONNRESET" || code === "EPIPE");
}

function unreachableServer(url: string, cause: unknown): PawlError {
  const reason = cause instanceof Error ? messageOf(cause) : String(cause);
  return new PawlError(
    "SERVER_UNREACHABLE",
    `The Pawl server at ${url} cannot be reached: ${reason}.`,
    { cause, details: { url } },
  );
}

/** A refusal on all addresses of a name has no message of its own. */
function messageOf(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ECONNREFUSED") return "nothing listens there (ECONNREFUSED)";
  return error.message === "" ? (code ?? error.name) : error.message;
}

function readAnswer(url: string, answer: { status: number; text: string }): unknown {
  let body: unknown;
  try {
    body = JSON.parse(answer.text);
  } catch (error) {
    throw notPawl(url, answer.status, error);
  }
  if (answer.status >= 200 && answer.status < 300) return body;
  throw problemOf(body) ?? notPawl(url, answer.status, undefined);
}

/** The error that a problem+json body stands for, or null when it is something else. */
function problemOf(body: unknown): PawlError | null {
  if (typeof body !== "object" || body === null) return null;
  const { code, detail, details } = body as Record<string, unknown>;
  if (typeof code !== "string" || !Object.hasOwn(ERRORS, code)) return null;
  const message = typeof detail === "string" ? detail : `The server refused it: ${code}.`;
  return new PawlError(code as ErrorCode, message, {
    details: typeof details === "object" && details !== null ? { ...details } : {},
  });
}

/** A proxy's page, or another program on that port: it may be Pawl again in a moment. */
function notPawl(url: string, status: number, cause: unknown): PawlError {
  return new PawlError(
    "SERVER_UNREACHABLE",
    `What answers at ${url} is not a Pawl server (status ${status}).`,
    { cause, details: { url, status } },
  );
}
