import { problemError } from "../work/operation.ts";
import { PawlError } from "../kernel/errors.ts";
import { hidePassword } from "../kernel/message-text.ts";

/** The address of a server as a URL; `CONFIG_INVALID` when it is none. */
export function serverUrl(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed !== null && /^https?:$/.test(parsed.protocol)) return parsed;
  throw new PawlError(
    "CONFIG_INVALID",
    `The server's address must be a URL such as http://127.0.0.1:7290, not ${JSON.stringify(hidePassword(url))}.`,
    { details: { url: hidePassword(url) } },
  );
}

/** The error that a request to the server ended with which got no answer. */
export function unreachableServer(address: string, cause: unknown): PawlError {
  const url = hidePassword(address);
  return new PawlError(
    "SERVER_UNREACHABLE",
    `The Pawl server at ${url} cannot be reached: ${reasonOf(cause)}. Start it with \`pawl start\`.`,
    { cause, details: { url } },
  );
}

/** The system's code of a connection that failed, wherever it was put. */
export function connectionCode(error: unknown): string | undefined {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  const found = cause?.code ?? code;
  return typeof found === "string" ? found : undefined;
}

/** A refusal on all addresses of a name has no message of its own, and a failed fetch says why inside. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const code = connectionCode(cause);
  if (code === "ECONNREFUSED") return "nothing listens there (ECONNREFUSED)";
  const isVague = cause.message === "" || cause.message === "fetch failed";
  if (!isVague) return cause.message;
  const inner = cause.cause instanceof Error ? cause.cause.message : "";
  return code ?? (inner === "" ? cause.name : inner);
}

/** The document that the server answered, or the error that its problem document stands for. */
export function documentOf(url: string, answer: { status: number; text: string }): unknown {
  let body: unknown;
  try {
    body = JSON.parse(answer.text);
  } catch (cause) {
    throw notPawl(url, answer.status, cause);
  }
  if (answer.status >= 200 && answer.status < 300) return body;
  throw problemError(body) ?? notPawl(url, answer.status, undefined);
}

/** A proxy's page, or another program on that port: it may be Pawl again in a moment. */
function notPawl(address: string, status: number, cause: unknown): PawlError {
  const url = hidePassword(address);
  return new PawlError(
    "SERVER_UNREACHABLE",
    `What answers at ${url} is not a Pawl server (status ${status}).`,
    { cause, details: { url, status } },
  );
}
