import type { IncomingMessage } from "node:http";
import { PawlError } from "../../kernel/errors.ts";
import { checkJsonBudget, JSON_KEY_LENGTH_MAX } from "../../kernel/json-budget.ts";

/** Refuses a body that does not say it is JSON, as a form of another site could send it. */
export function checkContentType(contentType: string | undefined): void {
  if (contentType !== undefined && /^application\/([\w.-]+\+)?json\b/i.test(contentType)) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The body must be sent as \`Content-Type: application/json\`, not ${contentType ?? "without a type"}.`,
    { details: { content_type: contentType ?? null, status: 415 } },
  );
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a body; what is not UTF-8 is refused, as nobody could tell what was meant. */
export function decodeBody(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new PawlError("INPUT_INVALID", "The body is not UTF-8. Send it as UTF-8.", { cause });
  }
}

/**
 * The JSON value of a body of at most so many values, looked through in passes that cost the same
 * for each. Text that not every database can keep (a NUL, half a character) is
 * refused, or replaced by `U+FFFD` with `mends`: what a task logged must not stop its worker.
 */
export function parseBody(text: string, mends: boolean, valuesMax: number): unknown {
  if (text === "") return {};
  checkJsonBudget(text, valuesMax);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The body is not JSON: ${reason}.`, { cause: error });
  }
  return cleaned(value, mends);
}

function cleaned(value: unknown, mends: boolean): unknown {
  if (typeof value === "string") return cleanText(value, mends);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      value[index] = cleaned(value[index], mends);
    }
    return value;
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    if (key.length > JSON_KEY_LENGTH_MAX) throw longKey(key);
    if (key === "__proto__" || cleanText(key, false) !== key) {
      throw new PawlError("INPUT_INVALID", `The key ${JSON.stringify(key)} is not allowed.`);
    }
    members[key] = cleaned(members[key], mends);
  }
  return members;
}

function longKey(key: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The key ${JSON.stringify(`${key.slice(0, 80)}…`)} has ${key.length} characters; a key may have ` +
      `at most ${JSON_KEY_LENGTH_MAX}.`,
    { details: { length: key.length, length_max: JSON_KEY_LENGTH_MAX } },
  );
}

/** Refuses, or mends, text that not every database can keep. */
export function cleanText(text: string, mends: boolean): string {
  if (text.isWellFormed() && !text.includes("\u0000")) return text;
  if (mends) return text.toWellFormed().replaceAll("\u0000", "\uFFFD");
  throw new PawlError(
    "INPUT_INVALID",
    `The text ${JSON.stringify(text.slice(0, 80))} holds a NUL or half a character. Take it out.`,
  );
}

/** What a body is read from: the connection itself, or the stream of a request in this process. */
export type BodySource = IncomingMessage | ReadableStream<Uint8Array> | null;

/** How much may be on its way in at once. */
export type ReceptionLimits = { bodies: number; bytes: number };

/** Bytes a second that a sender must manage at least, after a start of some seconds. */
const PACE_BYTES = 524_288;
const START_MS = 10_000;

/** How long a body of at most so many bytes may take to come in. */
export function bodyDeadlineMs(bytesMax: number): number {
  return START_MS + Math.ceil((bytesMax / PACE_BYTES) * 1_000);
}

/** A body on its way in. */
type Arrival = { share: Share; bytes: number; give: (error: PawlError) => void };
/** Those of one sender, the one that came first in front. */
type Share = { name: string; arrivals: Set<Arrival>; bytes: number };

/**
 * Receives bodies: within their size, within a time, and together within a number and a memory.
 * When there is no room left, the body that has been on its way longest is given up, of the sender
 * that takes up most: thousands of senders who never finish keep out only each other, as what is
 * sent at once is always among the newest.
 */
export class Reception {
  readonly #limits: ReceptionLimits;
  readonly #shares = new Map<string, Share>();
  #count = 0;
  #bytes = 0;

  constructor(limits: ReceptionLimits) {
    this.#limits = limits;
  }

  /** Bodies and bytes that are here and not whole. */
  get held(): ReceptionLimits {
    return { bodies: this.#count, bytes: this.#bytes };
  }

  /**
   * The bytes of a body. Throws `INPUT_INVALID` when they are too many (413) or cut off, and
   * `OVERLOADED` when they were too slow (408) or had to give way (503).
   */
  async receive(
    source: BodySource,
    options: { bytesMax: number; sender: string; deadlineMs?: number | undefined },
  ): Promise<Uint8Array> {
    if (source === null) return NOTHING;
    const { bytesMax, sender, deadlineMs = bodyDeadlineMs(bytesMax) } = options;
    const stop = new AbortController();
    const arrival = this.#begin(sender, (error) => stop.abort(error));
    const timer = setTimeout(() => stop.abort(tooSlow(deadlineMs)), deadlineMs);
    const take = (bytes: number): void => {
      if (arrival.bytes + bytes > bytesMax) throw tooLarge(arrival.bytes + bytes, bytesMax);
      this.#grow(arrival, bytes);
    };
    try {
      return await (isStream(source)
        ? readStream(source, take, stop.signal)
        : readConnection(source, take, stop.signal));
    } finally {
      clearTimeout(timer);
      this.#end(arrival);
    }
  }

  #begin(sender: string, give: Arrival["give"]): Arrival {
    if (this.#count >= this.#limits.bodies) this.#makeRoom((share) => share.arrivals.size);
    const share = this.#shares.get(sender) ?? { name: sender, arrivals: new Set(), bytes: 0 };
    this.#shares.set(sender, share);
    const arrival: Arrival = { share, bytes: 0, give };
    share.arrivals.add(arrival);
    this.#count++;
    return arrival;
  }

  #grow(arrival: Arrival, bytes: number): void {
    if (!arrival.share.arrivals.has(arrival)) return;
    arrival.bytes += bytes;
    arrival.share.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#limits.bytes) this.#makeRoom((share) => share.bytes);
  }

  #makeRoom(weight: (share: Share) => number): void {
    let largest: Share | null = null;
    for (const share of this.#shares.values()) {
      if (largest === null || weight(share) > weight(largest)) largest = share;
    }
    const [oldest] = largest?.arrivals ?? [];
    if (oldest === undefined) return;
    this.#end(oldest);
    oldest.give(noRoom());
  }

  #end(arrival: Arrival): void {
    const { share } = arrival;
    if (!share.arrivals.delete(arrival)) return;
    share.bytes -= arrival.bytes;
    this.#bytes -= arrival.bytes;
    this.#count--;
    if (share.arrivals.size === 0) this.#shares.delete(share.name);
  }
}

const NOTHING = new Uint8Array();

function isStream(source: object): source is ReadableStream<Uint8Array> {
  return "getReader" in source;
}

async function readStream(
  body: ReadableStream<Uint8Array>,
  take: (bytes: number) => void,
  stop: AbortSignal,
): Promise<Uint8Array> {
  const reader = body.getReader();
  const parts: Uint8Array[] = [];
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  stop.addEventListener("abort", cancel, { once: true });
  try {
    while (true) {
      const { done, value } = await reader.read();
      stop.throwIfAborted();
      if (done) return Buffer.concat(parts);
      take(value.byteLength);
      parts.push(value);
    }
  } catch (error) {
    cancel();
    throw error instanceof PawlError ? error : cutOff(error);
  } finally {
    stop.removeEventListener("abort", cancel);
  }
}

/** Reads from the connection itself: a stream around it would cost more than all the rest. */
function readConnection(
  incoming: IncomingMessage,
  take: (bytes: number) => void,
  stop: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    const finish = (error: unknown): void => {
      incoming.off("data", onData);
      incoming.off("end", onEnd);
      incoming.off("error", onError);
      incoming.off("close", onError);
      stop.removeEventListener("abort", onStop);
      if (error === null) {
        const [only] = parts;
        resolve(parts.length === 1 && only !== undefined ? only : Buffer.concat(parts));
        return;
      }
      // Whoever sends the answer lets a little of the rest come, and then ends the connection.
      incoming.pause();
      reject(error instanceof Error ? error : cutOff(error));
    };
    const onData = (part: Buffer): void => {
      try {
        take(part.byteLength);
        parts.push(part);
      } catch (error) {
        finish(error);
      }
    };
    const onEnd = (): void => finish(null);
    const onError = (error?: unknown): void => finish(cutOff(error));
    const onStop = (): void => finish(stop.reason);
    stop.addEventListener("abort", onStop, { once: true });
    if (incoming.readableEnded) {
      finish(null);
      return;
    }
    if (incoming.destroyed) {
      onError(incoming.errored);
      return;
    }
    incoming.on("data", onData);
    incoming.on("end", onEnd);
    incoming.on("error", onError);
    incoming.on("close", onError);
  });
}

function tooLarge(bytes: number, bytesMax: number): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body has ${bytes} bytes or more; this request may have at most ${bytesMax}. ` +
      "Send it in smaller parts.",
    { details: { bytes, bytes_max: bytesMax, status: 413 } },
  );
}

/** Refuses at once a body that says it is too large. */
export function checkLength(contentLength: string | undefined, bytesMax: number): void {
  const bytes = Number(contentLength ?? 0);
  if (bytes > bytesMax) throw tooLarge(bytes, bytesMax);
}

/** May be tried again: it can have been the server that stood still. */
function tooSlow(deadlineMs: number): PawlError {
  return new PawlError(
    "OVERLOADED",
    `The body was not whole within ${deadlineMs} ms. Send it faster, or in smaller parts.`,
    { details: { deadline_ms: deadlineMs, status: 408 } },
  );
}

function noRoom(): PawlError {
  return new PawlError(
    "OVERLOADED",
    "Too many bodies are on their way in, and this one has been for longest. Try again in a moment.",
    { details: { status: 503 } },
  );
}

function cutOff(cause: unknown): PawlError {
  return new PawlError("INPUT_INVALID", "The body was cut off before its end.", { cause });
}
