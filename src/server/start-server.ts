import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { getRequestListener } from "@hono/node-server";
import { isLoopback } from "../engine/config.ts";
import type { Engine } from "../engine/engine.ts";
import { PawlError } from "../kernel/errors.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import type { Admission, Limits } from "./http/admission.ts";
import type { App, CheckHost } from "./http/app.ts";
import type { Authenticate } from "./http/authenticate.ts";
import { problemOf, problemResponse } from "./http/input-problems.ts";
import type { Reception } from "./http/request-body.ts";
import type { ProcessMetrics, WorkspaceMetrics } from "./metrics.ts";
import type { Outlets } from "./webhooks/sender.ts";

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
  /** Whether Pawl is embedded in a user's process, whose heap and globals it must not touch. */
  sharesProcess?: boolean | undefined;
}): Promise<RunningServer> {
  const { app, host, port } = options;
  if (!isLoopback(host)) await refuseOpenServer(app, host);
  const { sharesProcess = false } = options;
  if (!sharesProcess) setFlagsFromString(HEAP_GROWTH);
  const listener = requestListener(app, sharesProcess);
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

/** Answers requests of Node's own servers with the app. */
export function requestListener(
  app: Pick<App, "fetch">,
  sharesProcess: boolean,
): (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void> {
  return getRequestListener((request, environment) => app.fetch(request, environment), {
    // For a request that names no host, which the app refuses, but for the one that probes send.
    hostname: "localhost",
    // Lighter ones of the library's, for everybody in the process.
    overrideGlobalObjects: !sharesProcess,
    errorHandler: (error) => {
      const reason = error instanceof Error ? error.message : String(error);
      const refused = new PawlError("INPUT_INVALID", `The request cannot be read: ${reason}.`);
      return problemResponse(problemOf(refused, "none"), {});
    },
  });
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
  /** What webhooks are told through. */
  readonly outlets: Outlets;
  /** Aborts when the server stops: ends streams and waiting claims. */
  readonly stopping: AbortSignal;
  now(): Instant;
  uptimeMs(): number;
};

/** How many connections there may be, and how long what they send may take. */
export type ConnectionLimits = {
  connections: number;
  /** For the headers of a request, and for all of it. */
  headersMs: number;
  requestMs: number;
  /** How long a connection with a request under way may stand still; 0 is for ever. */
  stillMs: number;
};

/** Limits that no honest client meets; claims and reads wait 30 s at most, streams say so each 15 s. */
export const CONNECTION_LIMITS: ConnectionLimits = {
  connections: 4_000,
  headersMs: 15_000,
  requestMs: 60_000,
  stillMs: 120_000,
};

/** How long a client may take to read why it is refused before its connection ends. */
const LINGER_MS = 250;

/** How often a stop looks for connections that have nothing to do any more. */
const SWEEP_MS = 20;

type Known = {
  /** Answers that are not sent yet. */
  answers: Set<ServerResponse>;
  /** Whether it ever sent a whole request. */
  hasAsked: boolean;
  /** What it had sent, and when, as a stop last saw it. */
  bytes: number;
  seenMs: number;
};

/**
 * The connections of a server: as many as there may be, and each ended in order. When there are too
 * many, one that has nothing under way makes room, those that never asked for anything first; then one
 * that does not read its answer, the longest there first: neither can keep anybody out.
 */
export class Connections {
  readonly #server: Server;
  readonly #max: number;
  /** Those that were quiet for longest come first. */
  readonly #known = new Map<Socket, Known>();
  /** Connections whose fault was answered already; the rest of what they send is ignored. */
  readonly #refused = new WeakSet<Socket>();
  #isStopping = false;

  constructor(server: Server, { connections, stillMs }: ConnectionLimits) {
    this.#server = server;
    this.#max = connections;
    server.timeout = stillMs;
    server.on("connection", (socket: Socket) => this.#accept(socket));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) =>
      this.#refuse(error, socket as Socket),
    );
  }

  get count(): number {
    return this.#known.size;
  }

  /** Notes a request; false when it came after its connection was ended, and nothing may come of it. */
  begin(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const { socket } = incoming;
    const known = this.#known.get(socket);
    if (known === undefined || socket.writableEnded) return false;
    known.hasAsked = true;
    known.answers.add(outgoing);
    // The last on this connection: its client must ask for another one.
    if (this.#isStopping) outgoing.shouldKeepAlive = false;
    outgoing.once("close", () => {
      known.answers.delete(outgoing);
      if (!this.#known.delete(socket)) return;
      this.#known.set(socket, known);
    });
    return true;
  }

  /**
   * Takes no new connections and ends those there are: after the answers under way, which say so, and
   * idle ones after a grace in which a request that is on its way already still gets its answer.
   */
  async stop(graceMs: number, timeoutMs: number): Promise<void> {
    this.#isStopping = true;
    for (const { answers } of this.#known.values()) {
      for (const answer of answers) answer.shouldKeepAlive = false;
    }
    // The HTTP server's own `close` cuts off every idle connection, also one whose request is coming.
    const closed = new Promise<void>((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve());
    });
    const startedMs = performance.now();
    const sweep = setInterval(() => this.#endIdle(startedMs, graceMs), SWEEP_MS);
    const cutOff = setTimeout(() => this.#destroyAll(), timeoutMs);
    try {
      await closed;
    } finally {
      clearInterval(sweep);
      clearTimeout(cutOff);
    }
  }

  #accept(socket: Socket): void {
    if (this.#known.size >= this.#max && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    const known = { answers: new Set<ServerResponse>(), hasAsked: false, bytes: 0, seenMs: 0 };
    this.#known.set(socket, known);
    socket.on("close", () => this.#known.delete(socket));
  }

  #makeRoom(): boolean {
    let idle: Socket | null = null;
    let unread: Socket | null = null;
    for (const [socket, { answers, hasAsked }] of this.#known) {
      if (answers.size > 0) {
        if (socket.writableLength > 0) unread ??= socket;
        continue;
      }
      idle ??= socket;
      if (hasAsked) continue;
      idle = socket;
      break;
    }
    const spared = idle ?? unread;
    if (spared === null) return false;
    this.#known.delete(spared);
    spared.destroy();
    return true;
  }

  /** Says what is wrong with what was sent, and ends the connection whether or not that is read. */
  #refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    const answers = [...(this.#known.get(socket)?.answers ?? [])];
    const isAnswering = answers.some(({ headersSent }) => headersSent);
    if (socket.writable && !isAnswering && error.code !== "ECONNRESET") {
      socket.end(refusalText(error.code ?? ""));
    }
    end(socket);
  }

  #endIdle(startedMs: number, graceMs: number): void {
    const nowMs = performance.now();
    for (const [socket, known] of this.#known) {
      if (known.answers.size > 0 || known.bytes !== socket.bytesRead || known.seenMs === 0) {
        known.bytes = socket.bytesRead;
        known.seenMs = Math.max(startedMs, nowMs);
        continue;
      }
      if (nowMs - known.seenMs < graceMs || socket.writableEnded) continue;
      socket.end();
      end(socket);
    }
  }

  #destroyAll(): void {
    for (const socket of this.#known.keys()) socket.destroy();
  }
}

function end(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/** Why a request that could not be read is refused, by the parser's code. */
const REASONS: Readonly<Record<string, readonly [status: string, code: string, detail: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [
    "408 Request Timeout",
    "OVERLOADED",
    "The request was not whole in time. Send it faster.",
  ],
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    "INPUT_INVALID",
    "The headers are too large. Send fewer, or shorter ones.",
  ],
};
const UNREADABLE = ["400 Bad Request", "INPUT_INVALID", "The request is no HTTP."] as const;

function refusalText(parserCode: string): string {
  const [statusLine, code, detail] = REASONS[parserCode] ?? UNREADABLE;
  const body = JSON.stringify({
    type: `urn:pawl:error:${code}`,
    title: statusLine.slice(4),
    status: Number(statusLine.slice(0, 3)),
    code,
    detail,
    details: {},
    correlation_id: "none",
  });
  return (
    `HTTP/1.1 ${statusLine}\r\nConnection: close\r\nContent-Type: application/problem+json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}
