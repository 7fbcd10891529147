import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { getRequestListener } from "@hono/node-server";
import { PawlError } from "../kernel/errors.ts";
import { isLoopback } from "../engine/config.ts";
import type { App } from "./http/app.ts";
import { type ConnectionLimits, CONNECTION_LIMITS, Connections } from "./http/connections.ts";
import { problemOf, problemResponse } from "./http/input-problems.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import type { Admission, Limits } from "./http/admission.ts";
import type { Authenticate } from "./http/authenticate.ts";
import type { CheckHost } from "./http/browser-rules.ts";
import type { ProcessMetrics, WorkspaceMetrics } from "./metrics.ts";
import type { Reception } from "./webhooks/reception.ts";
import type { Engine } from "../engine/engine.ts";

/** A server that listens. */
export interface RunningServer {
  /** Where it listens: `http://127.0.0.1:7290`. */
  readonly url: string;
  readonly port: number;
  /**
   * Takes no new connections, ends streams and waiting claims, answers requests under way and those
   * that come at once on open connections, and cuts off what is left when the time is up.
   */
  stop(timeoutMs?: number): Promise<void>;
}

/**
 * How far the heap may grow beyond what is alive before it is swept. A server keeps little alive but
 * makes much that is gone at once; left alone, the heap grows to ten times what it needs.
 */
const HEAP_GROWTH = "--heap-growing-percent=50";

/** How long a stop waits for requests under way. */
const STOP_TIMEOUT_MS = 10_000;

/**
 * Listens on an address; port 0 takes any free one. Throws `PORT_IN_USE`, and `TOKEN_REQUIRED` for
 * an address that others can reach while there is no token they would need.
 */
export async function startServer(options: {
  app: App;
  host: string;
  port: number;
  limits?: Partial<ConnectionLimits> | undefined;
}): Promise<RunningServer> {
  const { app, host, port } = options;
  if (!isLoopback(host)) await refuseOpenServer(app, host);
  setFlagsFromString(HEAP_GROWTH);
  const listener = getRequestListener((request, environment) => app.fetch(request, environment), {
    // For a request that names no host, which the app refuses, but for the one that probes send.
    hostname: "localhost",
    errorHandler: (error) => {
      const reason = error instanceof Error ? error.message : String(error);
      const refused = new PawlError("INPUT_INVALID", `The request cannot be read: ${reason}.`);
      return problemResponse(problemOf(refused, "none"), {});
    },
  });
  const limits = { ...CONNECTION_LIMITS, ...options.limits };
  const server = createServer(
    {
      // Twice the default time of load balancers, so that it is they who close idle connections.
      keepAliveTimeout: 125_000,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(2_000, limits.headersMs),
    },
    (incoming, outgoing) => {
      if (connections.begin(incoming, outgoing)) void listener(incoming, outgoing);
    },
  );
  const connections = new Connections(server, limits);
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${address.port}`,
    port: address.port,
    async stop(timeoutMs = STOP_TIMEOUT_MS) {
      const stopped = connections.stop(timeoutMs / 20, timeoutMs);
      app.stop();
      await stopped;
    },
  };
}

async function refuseOpenServer(app: App, host: string): Promise<void> {
  if (app.tokensRequired && (await app.hasTokens())) return;
  throw new PawlError(
    "TOKEN_REQUIRED",
    `Listening on ${host} would let others in without a token. Make one first with ` +
      "`pawl token create`, or listen on 127.0.0.1.",
    { details: { host } },
  );
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(
        error.code === "EADDRINUSE"
          ? new PawlError(
              "PORT_IN_USE",
              `Something else listens on ${host}:${port} already. Stop it, or choose another ` +
                "port with `--port`.",
              { details: { host, port }, cause: error },
            )
          : error,
      );
    });
    server.listen(port, host, resolve);
  });
}

/** The part of a store that the server uses beside its engines: tokens, secrets, and what it is. */
export type ServerStore = Pick<
  Store,
  | "tokenByHash"
  | "tokens"
  | "saveToken"
  | "revokeToken"
  | "description"
  | "unsafe"
  | "now"
  | "learntSources"
  | "samples"
  | "secrets"
  | "addSecret"
>;

/** Where the server writes what an operator should know. */
export interface ServerLog {
  error(fields: object, message: string): void;
}

/** What all requests of one server share. */
export type ServerContext = {
  readonly version: string;
  readonly store: ServerStore;
  /** Whether a request without a token is refused: then nothing is told to those without. */
  readonly tokensRequired: boolean;
  /** One for each workspace; the first is that of requests without a token. */
  readonly engines: readonly Engine[];
  readonly engineOf: ReadonlyMap<WorkspaceId, Engine>;
  readonly metricsOf: ReadonlyMap<Engine, WorkspaceMetrics>;
  readonly processMetrics: ProcessMetrics;
  readonly authenticate: Authenticate;
  readonly checkHost: CheckHost;
  readonly admission: Admission;
  readonly limits: Limits;
  /** Where bodies come in: of those with a token, and of all others. */
  readonly reception: { readonly known: Reception; readonly strangers: Reception };
  readonly log: ServerLog;
  /** `host` or `host:port` of receivers of webhooks that may have an address that is not public. */
  readonly webhookHosts: readonly string[];
  /** Aborts when the server stops: ends streams and waiting claims. */
  readonly stopping: AbortSignal;
  now(): Instant;
  uptimeMs(): number;
};
