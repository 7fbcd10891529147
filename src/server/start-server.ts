import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { getRequestListener } from "@hono/node-server";
import { PawlError } from "../core/errors.ts";
import { isLoopback } from "../engine/config.ts";
import type { App } from "./app.ts";
import { type ConnectionLimits, CONNECTION_LIMITS, Connections } from "./connections.ts";
import { problemOf, problemResponse } from "./problems.ts";

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
