import type { OperationName } from "../core/api/operations.ts";
import type { Call } from "./call.ts";

/** How often a quiet stream says that it is still there, and looks whether its token still is. */
export const HEARTBEAT_MS = 15_000;

/** Where the messages of a stream come from. */
export interface MessageSource {
  /** The next messages as text, a comment when all is quiet, null when the stream should end. */
  next(): Promise<string | null>;
  close(): void;
}

type StreamCall = Pick<Call<OperationName>, "server" | "caller" | "signal">;

const encoder = new TextEncoder();

/**
 * Answers server-sent events. A client that reads slowly is waited for: the next messages are asked
 * for when it has taken the last ones.
 */
export function messageStream(call: StreamCall, open: () => MessageSource): Response {
  const { server, caller } = call;
  const leave = server.admission.enter(
    `streams:${caller.ws}:${caller.actor.token_id ?? ""}`,
    server.limits.streamsPerToken,
    "streams of events with this token",
    429,
  );
  const source = open();
  const signal = call.signal();
  const end = (): void => {
    signal.removeEventListener("abort", end);
    source.close();
    leave();
  };
  // A client that goes before it has the answer never takes up the body, so nobody cancels that.
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode("retry: 1000\n\n")),
      async pull(controller) {
        const text = await source.next().catch(() => null);
        if (text !== null) {
          controller.enqueue(encoder.encode(text));
          return;
        }
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 1 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    },
  });
}
