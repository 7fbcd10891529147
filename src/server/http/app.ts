import type { IncomingMessage } from "node:http";
import { type Context, Hono } from "hono";
import type { Engine } from "../../engine/engine.ts";
import type { LedgerWatch } from "../../engine/ledger/watch.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Instant, instantOf } from "../../kernel/instant.ts";
import type { Operation } from "../../work/operation.ts";
import { OPERATIONS, type OperationName } from "../../work/operations.ts";
import { SERVER_OPERATIONS } from "../../work/server-api.ts";
import { HANDLERS } from "../handlers.ts";
import { ProcessMetrics, WorkspaceMetrics } from "../metrics.ts";
import { PAGE_FOLDER, PageFiles } from "../page-files.ts";
import type { ServerContext, ServerLog, ServerStore } from "../start-server.ts";
import type { NotificationSender, Outlets } from "../webhooks/sender.ts";
import { Admission, DEFAULT_LIMITS, type Limits } from "./admission.ts";
import { askingAs } from "../../engine/asking.ts";
import { isGoodToken } from "../../engine/claim-queue.ts";
import { askerOf, checkVerb, createAuthenticate } from "./authenticate.ts";
import { callerOf, type Handler } from "./call.ts";
import { DOCS_POLICY, docsPage } from "./docs-page.ts";
import { openApi } from "./openapi.ts";
import { Reception } from "./request-body.ts";
import {
  commonHeaders,
  correlationOf,
  engineOf,
  refusal,
  serveOperation,
} from "./serve-operation.ts";

/** What an app is made of. */
export type AppOptions = {
  /** One for each workspace; the first is that of requests without a token. */
  engines: readonly [Engine, ...Engine[]];
  store: ServerStore;
  auth: {
    /** Whether a request without a token is refused. */
    required: boolean;
    /** Names besides the loopback ones that the server answers for. */
    hosts?: readonly string[] | undefined;
  };
  log: ServerLog;
  version: string;
  limits?: Partial<Limits> | undefined;
  /** What webhooks are told through; public addresses alone when it is left out. */
  outlets?: Outlets | undefined;
  /** Those who tell the webhooks of the workspaces, to be counted. */
  notifications?: readonly NotificationSender[] | undefined;
  /** Those who check the ledgers of the workspaces again, in their order, to be counted. */
  ledgerWatches?: readonly LedgerWatch[] | undefined;
  /** Where the built page lies; the package's own when it is left out. */
  pageFolder?: string | undefined;
  now?: (() => Instant) | undefined;
};

/** The HTTP API, to be served or to be called in the same process. */
export interface App {
  readonly fetch: (request: Request, environment?: object) => Response | Promise<Response>;
  readonly tokensRequired: boolean;
  /** Whether there is a token that could be used. */
  hasTokens(): Promise<boolean>;
  /** Ends streams and waiting claims; requests under way go on. */
  stop(): void;
}

/** Makes the HTTP API of some workspaces. */
export function createApp(options: AppOptions): App {
  const stop = new AbortController();
  const server = contextOf(options, stop.signal);
  const app = new Hono();
  for (const [name, operation] of Object.entries(OPERATIONS) as [OperationName, Operation][]) {
    const handler = HANDLERS[name] as Handler<typeof name>;
    app.on(
      operation.method,
      routeOf(operation.path),
      serveOperation(server, name, operation, handler),
    );
  }
  addPages(app, server);
  const unrouted = unroutedRefusals();
  const page = new PageFiles(options.pageFolder ?? PAGE_FOLDER);
  app.notFound(async (context) => {
    const found = isPageAsked(context)
      ? await page.answer(context.req.path, (name) => context.req.header(name))
      : null;
    if (found !== null) return found;
    const { error, allow } = unrouted(context, isPageAsked(context) && !page.areThere);
    const response = refusal(server, null, error, correlationIn(context));
    if (allow !== null) response.headers.set("allow", allow);
    return response;
  });
  app.onError((error, context) => refusal(server, null, error, correlationIn(context)));
  return {
    fetch(request, environment) {
      try {
        checkRequest(request, environment, server.checkHost);
      } catch (error) {
        const header = (name: string) => request.headers.get(name) ?? undefined;
        return refusal(server, null, error, correlationOf(header));
      }
      return app.fetch(request, environment);
    },
    tokensRequired: options.auth.required,
    hasTokens: () => hasTokens(server),
    stop: () => stop.abort(),
  };
}

function contextOf(options: AppOptions, stopping: AbortSignal): ServerContext {
  const { engines, store, auth } = options;
  const now = options.now ?? (() => instantOf(Date.now()));
  const startedMs = performance.now();
  const metrics = engines.map((engine, place) => {
    const sender = options.notifications?.find((each) => each.engine === engine) ?? null;
    const watch = options.ledgerWatches?.[place] ?? null;
    return [engine, new WorkspaceMetrics(engine, now, sender, watch)] as const;
  });
  const localWs = engines[0].workspace.ws;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  // Where every request needs a token, no name can make a browser speak for somebody.
  const checkHost =
    auth.required && auth.hosts === undefined ? () => {} : createCheckHost(auth.hosts ?? []);
  return {
    version: options.version,
    store,
    tokensRequired: auth.required,
    engines,
    engineOf: new Map(engines.map((engine) => [engine.workspace.ws, engine])),
    metricsOf: new Map(metrics),
    processMetrics: new ProcessMetrics(),
    authenticate: createAuthenticate({ store, required: auth.required, localWs }),
    checkHost,
    admission: new Admission(),
    limits,
    reception: {
      known: new Reception({ bodies: limits.bodies, bytes: limits.bodyBytes }),
      strangers: new Reception({ bodies: limits.strangerBodies, bytes: limits.strangerBytes }),
    },
    log: options.log,
    outlets: options.outlets ?? { allowedHosts: [], mail: null },
    stopping,
    now,
    uptimeMs: () => performance.now() - startedMs,
  };
}

function correlationIn(context: Context): string {
  return correlationOf((name) => context.req.header(name));
}

function routeOf(path: string): string {
  return path.replace(/\{(\w+)\}/g, ":$1");
}

/** What is no JSON: the OpenAPI document and its page, and the metrics. */
function addPages(app: Hono, server: ServerContext): void {
  // Made when somebody asks: it takes longer than all the rest of a start.
  let made: { document: string; page: string } | null = null;
  const pages = () => {
    if (made === null) {
      const api = openApi(server.version);
      made = { document: JSON.stringify(api), page: docsPage(api) };
    }
    return made;
  };
  app.get("/openapi.json", (context) => {
    const headers = {
      ...commonHeaders(correlationIn(context)),
      "content-type": "application/json",
    };
    return new Response(pages().document, { headers });
  });
  app.get("/docs", (context) => {
    const headers = {
      ...commonHeaders(correlationIn(context)),
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": DOCS_POLICY,
    };
    return new Response(pages().page, { headers });
  });
  app.get("/metrics", async (context) => {
    const correlationId = correlationIn(context);
    try {
      const caller = await callerOf(server, (name) => context.req.header(name));
      checkVerb(caller, "read");
      const engine = engineOf(server, caller);
      const metrics = server.metricsOf.get(engine);
      const own = (await askingAs(askerOf(caller), async () => metrics?.text())) ?? "";
      const text = own + (await server.processMetrics.text());
      const headers = {
        ...commonHeaders(correlationId),
        "content-type": "text/plain; version=0.0.4",
      };
      return new Response(text, { headers });
    } catch (error) {
      return refusal(server, null, error, correlationId);
    }
  });
}

/** Whether it is a browser that wants to show something, or a file of the page. */
function isPageAsked({ req }: Context): boolean {
  const isRead = req.method === "GET" || req.method === "HEAD";
  if (!isRead || req.path.startsWith("/api/")) return false;
  const isShown = /\btext\/html\b/.test(req.header("accept") ?? "");
  return isShown || /\.\w+$/.test(req.path) || req.path === "/";
}

/**
 * What a request that no route takes is refused with. A path that exists answers other methods with
 * those it has; that is looked up only here, as a second route for every path slows all requests.
 */
function unroutedRefusals(): (
  context: Context,
  isPageMissing: boolean,
) => { error: PawlError; allow: string | null } {
  const operations = Object.values(OPERATIONS) as Operation[];
  const byPath = Map.groupBy(operations, ({ path }) => path);
  const paths = new Map([...byPath].map(([path, all]) => [path, all.map(({ method }) => method)]));
  for (const path of ["/openapi.json", "/docs", "/metrics"]) paths.set(path, ["GET"]);
  const known = [...paths].map(([path, methods]) => ({ pattern: patternOf(path), methods }));
  return (context, isPageMissing) => {
    const methods = known.find(({ pattern }) => pattern.test(context.req.path))?.methods;
    if (methods === undefined) {
      return { error: routeNotFound(context, isPageMissing), allow: null };
    }
    const allow = methods.join(", ");
    const error = new PawlError(
      "METHOD_NOT_ALLOWED",
      `${context.req.path} cannot be asked with ${context.req.method}, only with ${allow}.`,
      { details: { method: context.req.method, allow: methods } },
    );
    return { error, allow };
  };
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`);
}

function routeNotFound(context: Context, isPageMissing: boolean): PawlError {
  return new PawlError(
    "ROUTE_NOT_FOUND",
    `There is no ${context.req.method} ${context.req.path}. ` +
      (isPageMissing ? "The page is not built: `npm run build:page` does that. " : "") +
      "/docs lists what there is.",
    { details: { method: context.req.method, path: context.req.path } },
  );
}

async function hasTokens(server: ServerContext): Promise<boolean> {
  const now = await server.store.now();
  for (const engine of server.engines) {
    const tokens = await server.store.tokens(engine.workspace.ws);
    if (tokens.some((token) => isGoodToken(token, now))) return true;
  }
  return false;
}

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
