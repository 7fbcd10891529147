import { connect, type Socket } from "node:net";
import process from "node:process";
import { percentile } from "./benchmark.ts";

/*
 * Sends requests over connections that stay open, one at a time on each, and measures every answer.
 * Written on bare sockets: on two cores the load must cost less than what it measures.
 */

/** Requests to send. */
export type LoadOptions = {
  url: string;
  connections: number;
  requests: number;
  path: string;
  /** The header that names each request, where it is not the usual one. */
  keyHeader?: string;
  /** JSON, in which `#` stands for the number of the request. */
  body: string;
};

/** What was measured. */
export type FromLoad = {
  type: "done";
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  refused: number;
};

const options = JSON.parse(process.argv[2] ?? "{}") as LoadOptions;
const { hostname, port } = new URL(options.url);
const latencies: number[] = [];
let refused = 0;
let sent = 0;
let startedMs = 0;

// The first answers are those of code that the server has never run.
await load(Math.min(2_000, Math.floor(options.requests / 10)));
latencies.length = 0;
sent = 0;
startedMs = performance.now();
await load(options.requests);
const seconds = (performance.now() - startedMs) / 1_000;
const measured: FromLoad = {
  type: "done",
  perSecond: latencies.length / seconds,
  p50Ms: percentile(latencies, 0.5),
  p99Ms: percentile(latencies, 0.99),
  refused,
};
process.send?.(measured, () => process.exit(0));

async function load(requests: number): Promise<void> {
  const name = startedMs === 0 ? "warm" : "load";
  await Promise.all(
    Array.from({ length: options.connections }, () => loadOne(requests, `${name}-${process.pid}`)),
  );
}

function loadOne(requests: number, name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    socket.setNoDelay(true);
    let sentMs = 0;
    let text = "";
    const next = (): void => {
      if (sent >= requests) {
        socket.end();
        resolve();
        return;
      }
      sentMs = performance.now();
      send(socket, `${name}-${sent++}`);
    };
    socket.setEncoding("latin1");
    socket.on("connect", next);
    socket.on("error", reject);
    socket.on("data", (part) => {
      text += String(part);
      const end = endOfAnswer(text);
      if (end === null) return;
      if (!text.startsWith("HTTP/1.1 2")) refused++;
      text = text.slice(end);
      latencies.push(performance.now() - sentMs);
      next();
    });
  });
}

function send(socket: Socket, id: string): void {
  const body = options.body.replace("#", id);
  socket.write(
    `POST ${options.path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n` +
      `Content-Type: application/json\r\n${options.keyHeader ?? "Idempotency-Key"}: ${id}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** Where the answer ends, or null while a part of it is missing. */
function endOfAnswer(text: string): number | null {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return null;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head + 2))?.[1];
  if (length === undefined) throw new Error(`an answer without a length: ${text.slice(0, head)}`);
  const end = head + 4 + Number(length);
  return text.length >= end ? end : null;
}
