import { PawlError } from "../core/errors.ts";

/** How deep the objects and lists of a body may be nested. */
const DEPTH_MAX = 64;

/** The parts of a request that reading its body takes. */
export type BodyRequest = {
  header(name: string): string | undefined;
  text(): Promise<string>;
  arrayBuffer(): Promise<ArrayBuffer>;
  readonly raw: { readonly body: ReadableStream<Uint8Array> | null };
};

/** Reads the text of a body of at most so many bytes. */
export async function readBody(request: BodyRequest, bytesMax: number): Promise<string> {
  const length = request.header("content-length");
  if (length === undefined) return readUnmeasured(request.raw.body, bytesMax);
  if (Number(length) > bytesMax) throw tooLarge(Number(length), bytesMax);
  return request.text();
}

/** Reads the bytes of a body as they are, at most so many. */
export async function readBytes(request: BodyRequest, bytesMax: number): Promise<Uint8Array> {
  const length = request.header("content-length");
  if (length === undefined) return readUnmeasuredBytes(request.raw.body, bytesMax);
  if (Number(length) > bytesMax) throw tooLarge(Number(length), bytesMax);
  return new Uint8Array(await request.arrayBuffer());
}

async function readUnmeasuredBytes(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body ?? []) {
    bytes += part.byteLength;
    if (bytes > bytesMax) throw tooLarge(bytes, bytesMax);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** A body that does not say its length is counted as it comes. */
async function readUnmeasured(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<string> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = "";
  for await (const part of body) {
    bytes += part.byteLength;
    if (bytes > bytesMax) throw tooLarge(bytes, bytesMax);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(bytes: number, bytesMax: number): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body has ${bytes} bytes or more; this request may have at most ${bytesMax}. ` +
      "Send it in smaller parts.",
    { details: { bytes, bytes_max: bytesMax, status: 413 } },
  );
}

/** Refuses a body that does not say it is JSON, as a form of another site could send it. */
export function checkContentType(contentType: string | undefined): void {
  if (contentType !== undefined && /^application\/([\w.-]+\+)?json\b/i.test(contentType)) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The body must be sent as \`Content-Type: application/json\`, not ${contentType ?? "without a type"}.`,
    { details: { content_type: contentType ?? null, status: 415 } },
  );
}

/**
 * The JSON value of a body. Text that not every database can keep (a NUL, half a character) is
 * refused, or replaced by `U+FFFD` with `mends`: what a task logged must not stop its worker.
 */
export function parseBody(text: string, mends: boolean): unknown {
  if (text === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The body is not JSON: ${reason}.`, { cause: error });
  }
  return cleaned(value, mends, 0);
}

function cleaned(value: unknown, mends: boolean, depth: number): unknown {
  if (typeof value === "string") return cleanText(value, mends);
  if (typeof value !== "object" || value === null) return value;
  if (depth === DEPTH_MAX) {
    throw new PawlError("INPUT_INVALID", `The body is nested more than ${DEPTH_MAX} levels deep.`, {
      details: { depth_max: DEPTH_MAX },
    });
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      value[index] = cleaned(value[index], mends, depth + 1);
    }
    return value;
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    if (key === "__proto__" || cleanText(key, false) !== key) {
      throw new PawlError("INPUT_INVALID", `The key ${JSON.stringify(key)} is not allowed.`);
    }
    members[key] = cleaned(members[key], mends, depth + 1);
  }
  return members;
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
