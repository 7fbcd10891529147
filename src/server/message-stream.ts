import type { OperationName } from "../core/api/operations.ts";
import { lastingPlaces } from "./admission.ts";
import type { Call } from "./call.ts";

/** How often a quiet stream says that it is still there. */
export const HEARTBEAT_MS = 15_000;

/** How often a stream looks whether its token is still good; it ends at most this much later. */
const TOKEN_CHECK_MS = 3_000;

/** Where the messages of a stream come from. */
export interface MessageSource {
  /** The next messages as text, a comment when all is quiet, null when the stream should end. */
  next(): Promise<string | null>;
  close(): void;
}

type StreamCall = Pick<Call<OperationName>, "server" | "caller" | "signal" | "authenticateAgain">;

const encoder = new TextEncoder();

/**
 * Answers server-sent events for as long as the token is good: that is looked up before every
 * message is handed over, and every few seconds while there is none. A client that reads slowly is
 * waited for: the next messages are asked for when it has taken the last ones.
 */
export function messageStream(call: StreamCall, open: () => MessageSource): Response {
  const { server, caller } = call;
  const leave = server.admission.enterAll(lastingPlaces(server, caller, "streams"));
  const source = open();
  const signal = call.signal();
  const release = (): void => {
    clearInterval(checks);
    signal.removeEventListener("abort", release);
    source.close();
    leave();
  };
  let isClosed = false;
  let closeBody: () => void = () => undefined;
  const close = (): void => {
    release();
    if (isClosed) return;
    isClosed = true;
    closeBody();
  };
  // A token that cannot be looked up is no good either: the client comes again when it can.
  const check = (): Promise<void> => call.authenticateAgain().catch(close);
  const checks = setInterval(() => void check(), TOKEN_CHECK_MS);
  // A client that goes before it has the answer never takes up the body, so nobody cancels that.
  signal.addEventListener("abort", release);
  if (signal.aborted) release();
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        closeBody = () => controller.close();
        controller.enqueue(encoder.encode("retry: 1000\n\n"));
      },
      async pull(controller) {
        const text = await source.next().catch(() => null);
        // What was read while the token was good is not handed over when it no longer is.
        if (text !== null) await check();
        if (text === null) close();
        else if (!isClosed) controller.enqueue(encoder.encode(text));
      },
      cancel() {
        isClosed = true;
        release();
      },
    },
    { highWaterMark: 1 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "cross-origin-resource-policy": "same-origin",
      "x-accel-buffering": "no",
    },
  });
}
