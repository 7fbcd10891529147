import type { IncomingMessage } from "node:http";
import { SERVER_OPERATIONS } from "../../work/server-api.ts";
import { PawlError } from "../../kernel/errors.ts";

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];

/** Refuses with `FORBIDDEN` a request for a name that is not this server's. */
export type CheckHost = (host: string) => void;

/**
 * Makes the check of the `Host` header: a page of somebody else's that had its name point to this
 * machine (DNS rebinding) would otherwise speak as a local user.
 */
export function createCheckHost(hosts: readonly string[]): CheckHost {
  const names = new Set([...LOOPBACK_NAMES, ...hosts.map((host) => nameOf(host.toLowerCase()))]);
  return (host) => {
    if (names.has(nameOf(host.toLowerCase()))) return;
    throw new PawlError(
      "FORBIDDEN",
      `This server does not answer for the host ${JSON.stringify(host)}. ` +
        `It answers for ${[...names].join(", ")}.`,
      { details: { host } },
    );
  };
}

function nameOf(host: string): string {
  return host.replace(/:\d*$/, "");
}

/** The path that says only that the process lives, for probes that ask by address. */
const LIVENESS_PATH = SERVER_OPERATIONS.livez.path;

/** Where the connection gave a request, beside what was made of it. */
export type ClientConnection = { incoming?: Pick<IncomingMessage, "url"> | undefined };

/**
 * The rules that hold for every request, whatever it asks for: its path means what it says, it is for
 * a name of this server, and no page of another site sent it. Throws before anything is looked up,
 * so that the answer tells nothing of what there is.
 */
export function checkRequest(
  request: Request,
  connection: ClientConnection | undefined,
  checkHost: CheckHost,
): void {
  const { incoming } = connection ?? {};
  checkTarget(incoming?.url ?? "/");
  const { pathname, host: ownHost } = new URL(request.url);
  if (pathname === LIVENESS_PATH) return;
  // Only what was called within this process may leave it out.
  const host = request.headers.get("host") ?? (incoming === undefined ? ownHost : "");
  if (nameOf(host) === "") throw namesNobody();
  checkHost(host);
  checkSite(request, host, pathname);
}

/**
 * Refuses a path with `.` or `..` in it, in any spelling: reading it as a URL would take them for
 * steps up, so that `/runs/%2e%2e/tokens` would be another path than whoever let it pass had seen.
 */
function checkTarget(target: string): void {
  const [path = ""] = target.split(/[?#]/, 1);
  if (!/[/\\](?:\.|%2e){1,2}(?:[/\\]|$)/i.test(path)) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The path ${JSON.stringify(path.slice(0, 200))} has a part that is . or .., which no path of this ` +
      "server has. Write out the path that is meant.",
    { details: { path: path.slice(0, 200) } },
  );
}

function namesNobody(): PawlError {
  return new PawlError(
    "FORBIDDEN",
    "The request does not say which host it is for. Send a `Host` header.",
    { details: { host: "" } },
  );
}

/**
 * Refuses with `FORBIDDEN` what a browser sends for a page of another site, reads too: whether there
 * is an answer would tell that page what there is. Programs send neither header; browsers always
 * send one of them with a change. A link that leads to a page of ours may be followed from anywhere.
 */
function checkSite({ method, headers }: Request, host: string, path: string): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site === "same-origin" || site === "none") return;
  if (site === null && (origin === null || URL.parse(origin)?.host === host)) return;
  const isRead = method === "GET" || method === "HEAD";
  if (isRead && isVisit(headers) && !isForPrograms(path)) return;
  throw new PawlError(
    "FORBIDDEN",
    `A page of another site may not ${isRead ? "look at" : "change"} anything here. Send the request ` +
      "from Pawl's own page or from a program.",
    { details: { site, origin } },
  );
}

/** Whether a person goes to the page, rather than a page of somebody else's asking behind their back. */
function isVisit(headers: Headers): boolean {
  return (
    headers.get("sec-fetch-mode") === "navigate" && headers.get("sec-fetch-dest") === "document"
  );
}

const FOR_PROGRAMS: ReadonlySet<string> = new Set([
  "/metrics",
  "/openapi.json",
  SERVER_OPERATIONS.readyz.path,
]);

function isForPrograms(path: string): boolean {
  return path.startsWith("/api/") || FOR_PROGRAMS.has(path);
}
