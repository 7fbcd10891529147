import { BlockList, isIP, type LookupFunction } from "node:net";
import { lookup as lookupName } from "node:dns/promises";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { PawlError } from "../../kernel/errors.ts";

/** IPv4 that is not globally routable unicast: IANA's special-purpose registry and multicast. */
const NOT_PUBLIC_V4 = blockList("ipv4", [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Also where most clouds keep the credentials of a machine.
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
  // Looks public, but on Azure it is the host that the machine runs on.
  ["168.63.129.16", 32],
]);

const IPV4_MAPPED = blockList("ipv6", [["::ffff:0:0", 96]]);

/** The only IPv6 unicast that is given out; so `::1`, `fc00::`, `64:ff9b::` and others are outside. */
const UNICAST_V6 = blockList("ipv6", [["2000::", 3]]);

/** What lies within it and is not for everybody, or hides an IPv4 address that would need a look. */
const NOT_PUBLIC_V6 = blockList("ipv6", [
  // Protocol assignments, of which Teredo is the first.
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
]);

/**
 * Whether an IP address is globally routable unicast, so that sending to it reaches nothing of our
 * own network. Text that is no address is not public; neither is an address with a zone.
 */
export function isPublicAddress(ip: string): boolean {
  switch (isIP(ip)) {
    case 4:
      return !NOT_PUBLIC_V4.check(ip, "ipv4");
    case 6:
      if (ip.includes("%")) return false;
      // Rules for IPv4 hold for the address inside a mapped one.
      if (IPV4_MAPPED.check(ip, "ipv6")) return !NOT_PUBLIC_V4.check(ip, "ipv6");
      return UNICAST_V6.check(ip, "ipv6") && !NOT_PUBLIC_V6.check(ip, "ipv6");
    default:
      return false;
  }
}

/** Lists of the two families stay apart, since a list may match a mapped address by either. */
function blockList(family: "ipv4" | "ipv6", subnets: readonly [string, number][]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family);
  return list;
}

/** More of an answer than this is not waited for; nobody reads it anyway. */
const ANSWER_BYTES_MAX = 64 * 1024;

/** These mean this machine by definition, whatever a resolver makes of them. */
const LOCAL_NAME = /(?:^|\.)localhost\.?$/;

const HEADERS_LEFT_OUT = new Set(["expect", "te", "trailer", "transfer-encoding", "upgrade"]);

/** One address that a name resolves to. */
export type ResolvedAddress = { address: string; family: number };

/** A webhook to send, and the bounds it is sent within. */
export type WebhookRequest = {
  url: string;
  body: Uint8Array;
  headers: Readonly<Record<string, string>>;
  /** For everything: resolving the name, connecting, sending and reading the answer. */
  timeoutMs: number;
  /** `host` or `host:port` of receivers that may have an address that is not public. */
  allowedHosts: readonly string[];
  signal?: AbortSignal;
  /** Resolves a name to all its addresses; the system's resolver unless given. */
  lookup?: (hostname: string) => Promise<readonly ResolvedAddress[]>;
};

/** What the receiver answered; only a 2xx means that it took the webhook. */
export type WebhookAnswer = { status: number; durationMs: number };

/**
 * Posts a webhook to a URL that somebody else chose, without letting it reach our own network: the
 * name is resolved once, all its addresses are checked, and the connection goes to one of those.
 * Redirects are an answer like any other and never followed.
 *
 * Throws WEBHOOK_REFUSED when the URL is not allowed, WEBHOOK_FAILED when no answer came.
 */
export async function sendWebhook(webhook: WebhookRequest): Promise<WebhookAnswer> {
  const startedMs = performance.now();
  const url = parseUrl(webhook.url);
  const stop = new AbortController();
  const timer = setTimeout(
    () => stop.abort(failed(url, `no answer came within ${webhook.timeoutMs} ms`)),
    webhook.timeoutMs,
  );
  const cancel = (): void => stop.abort(failed(url, "sending it was cancelled"));
  webhook.signal?.addEventListener("abort", cancel, { once: true });
  try {
    if (webhook.signal?.aborted === true) cancel();
    const addresses = await checkedAddresses(url, webhook, stop.signal);
    const status = await post(url, addresses, webhook, stop.signal);
    return { status, durationMs: Math.round(performance.now() - startedMs) };
  } finally {
    clearTimeout(timer);
    webhook.signal?.removeEventListener("abort", cancel);
  }
}

/** How long a look at a receiver's name may take. */
const LOOK_MS = 5_000;

/**
 * Why a webhook would never be sent to this URL: WEBHOOK_REFUSED. Null when it would be, and when the
 * name cannot be resolved now.
 */
export async function receiverFault(
  url: string,
  allowedHosts: readonly string[],
): Promise<PawlError | null> {
  try {
    await checkedAddresses(
      parseUrl(url),
      { allowedHosts, lookup: resolveName },
      AbortSignal.timeout(LOOK_MS),
    );
    return null;
  } catch (error) {
    return error instanceof PawlError && error.code === "WEBHOOK_REFUSED" ? error : null;
  }
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null) throw refused("The URL of the webhook is not a URL. Give one with https://.");
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw refused(`A webhook is sent to an https: or http: URL, not to ${url.protocol}`);
  }
  if (url.username !== "" || url.password !== "") {
    throw refused(
      `The URL of the webhook at ${url.host} has a user or password in it. Put it in a header.`,
      { host: url.host },
    );
  }
  return url;
}

/** The addresses of the receiver, each of which may be connected to. */
async function checkedAddresses(
  url: URL,
  { allowedHosts, lookup = resolveName }: Pick<WebhookRequest, "allowedHosts" | "lookup">,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const name = hostnameOf(url);
  const family = isIP(name);
  const isAllowed = isAllowedHost(url, allowedHosts);
  if (!isAllowed && LOCAL_NAME.test(name)) throw notPublic(url);
  const addresses =
    family === 0 ? await resolved(url, lookup(name), signal) : [{ address: name, family }];
  if (isAllowed || addresses.every(({ address }) => isPublicAddress(address))) return addresses;
  throw notPublic(url);
}

/** Leaves the address out: whoever chose the name need not learn how it resolves in here. */
function notPublic(url: URL): PawlError {
  return refused(
    `The webhook at ${url.host} has an address that is not public. Use a public one, or let the ` +
      `operator put "${portedHost(url)}" into webhook_hosts.`,
    { host: url.host },
  );
}

function resolveName(hostname: string): Promise<readonly ResolvedAddress[]> {
  return lookupName(hostname, { all: true });
}

/** A look-up cannot be stopped, so it is left behind when the time is over. */
async function resolved(
  url: URL,
  looking: Promise<readonly ResolvedAddress[]>,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    const addresses = await Promise.race([stopped.promise, looking]);
    if (addresses.length === 0) throw failed(url, "its name has no address");
    return addresses;
  } catch (error) {
    if (error instanceof PawlError) throw error;
    throw failed(url, `its name does not resolve (${codeOf(error)})`, error);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/**
 * The status of the answer. Once that is here, whatever ends the answer is as good as its end: the
 * receiver has decided, and sending again would only repeat it.
 */
async function post(
  url: URL,
  addresses: readonly ResolvedAddress[],
  webhook: WebhookRequest,
  signal: AbortSignal,
): Promise<number> {
  signal.throwIfAborted();
  const over = Promise.withResolvers<number>();
  const request = newRequest(url, addresses, webhook);
  const stop = (): void => {
    request.destroy(signal.reason as PawlError);
  };
  let status: number | null = null;
  const settle = (error: PawlError): void => {
    if (status === null) over.reject(error);
    else over.resolve(status);
  };
  request.on("response", (response) => {
    status = response.statusCode ?? 0;
    discard(response);
  });
  request.on("error", (error) => {
    settle(error instanceof PawlError ? error : failed(url, codeOf(error), error));
  });
  request.on("close", () => settle(failed(url, "the connection was closed")));
  signal.addEventListener("abort", stop, { once: true });
  try {
    request.end(webhook.body);
    return await over.promise;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function newRequest(
  url: URL,
  addresses: readonly ResolvedAddress[],
  webhook: WebhookRequest,
): ClientRequest {
  const name = hostnameOf(url);
  const pinned: LookupFunction = (_hostname, { all }, callback) => {
    const [first = { address: "", family: 0 }] = addresses;
    if (all === true) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  try {
    return request({
      method: "POST",
      protocol: url.protocol,
      hostname: name,
      port: url.port,
      path: url.pathname + url.search,
      headers: headersOf(url, webhook),
      lookup: pinned,
      // An address has no server name, and a name has it without the dot of the root.
      servername: isIP(name) === 0 ? withoutRootDot(name) : "",
      // A connection of its own: neither one that was checked for somebody else, nor a proxy's.
      agent: false,
    });
  } catch (error) {
    throw refused(
      `The webhook at ${url.host} has a header that cannot be sent: ${codeOf(error)}.`,
      {
        host: url.host,
      },
    );
  }
}

/** No header of the webhook's own may change where it goes, how much is sent or what comes after. */
function headersOf(url: URL, { headers, body }: WebhookRequest): Record<string, string> {
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  const kept = own.filter(([name]) => !HEADERS_LEFT_OUT.has(name));
  return {
    ...Object.fromEntries(kept),
    host: url.host,
    connection: "close",
    "content-length": `${body.byteLength}`,
  };
}

function discard(response: IncomingMessage): void {
  let bytes = 0;
  response.on("data", (part: Buffer) => {
    bytes += part.byteLength;
    if (bytes > ANSWER_BYTES_MAX) response.destroy();
  });
  // An answer that breaks off also closes the request, which is where it is dealt with.
  response.on("error", () => {});
}

/** Whether the operator allows this host, on every port or on the one of the URL. */
function isAllowedHost(url: URL, allowedHosts: readonly string[]): boolean {
  return allowedHosts.some((entry) => {
    const [, host = entry, port] = /^(.*):(\d+)$/.exec(entry) ?? [];
    const allowed = URL.parse(`http://${host}/`);
    if (allowed === null || host.includes("/") || host.includes("@")) return false;
    const isHost = withoutRootDot(allowed.hostname) === withoutRootDot(url.hostname);
    return isHost && (port === undefined || Number(port) === portOf(url));
  });
}

function portOf(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}

function portedHost(url: URL): string {
  return `${withoutRootDot(url.hostname)}:${portOf(url)}`;
}

function hostnameOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function withoutRootDot(name: string): string {
  return name.replace(/\.$/, "");
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "code" in error && typeof error.code === "string" ? error.code : error.message;
}

function refused(message: string, details: Record<string, unknown> = {}): PawlError {
  return new PawlError("WEBHOOK_REFUSED", message, { details });
}

/** Names the host only, since paths of webhooks often are secrets. */
function failed(url: URL, reason: string, cause?: unknown): PawlError {
  return new PawlError(
    "WEBHOOK_FAILED",
    `The webhook at ${url.host} could not be delivered: ${reason}.`,
    { details: { host: url.host, reason }, cause },
  );
}
