import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";

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
 * many, one that has nothing under way makes room, those that never asked for anything first: idle
 * ones can keep nobody out.
 */
export class Connections {
  readonly #server: Server;
  readonly #max: number;
  /** Those that were quiet for longest come first. */
  readonly #known = new Map<Socket, Known>();
  /** Those that were told what is wrong: whatever else they send is nothing new. */
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
    for (const [socket, { answers, hasAsked }] of this.#known) {
      if (answers.size > 0) continue;
      idle ??= socket;
      if (hasAsked) continue;
      idle = socket;
      break;
    }
    if (idle === null) return false;
    this.#known.delete(idle);
    idle.destroy();
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
