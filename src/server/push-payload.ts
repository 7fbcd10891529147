import { bodyValuesMax, DOCUMENT_BYTES_MAX } from "../core/api/operation.ts";
import { canonicalJson, type Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { cleanText, decodeBody, parseBody } from "./request-body.ts";

/** Whether a media type says that what it is about is JSON. */
export function isJsonType(contentType: string | null): boolean {
  return contentType !== null && /^[^;]*[/+]json\s*(?:;|$)/i.test(contentType);
}

/** The JSON value of bytes that must be JSON, within the limits that hold for every body. */
export function decodeJson(bytes: Uint8Array): Json {
  return parseJson(decodeBody(bytes));
}

/** The JSON value of bytes that must be text, and the text itself when it is no JSON. */
export function decodeJsonOrText(bytes: Uint8Array): Json {
  return parseJsonOrText(decodeBody(bytes));
}

/**
 * The value of bytes that may be anything: JSON, text, or `{ base64 }` for what a text cannot hold.
 * Without a media type they are JSON if they can be. No bytes are null.
 */
export function decodeData(bytes: Uint8Array, contentType: string | null): Json {
  if (bytes.byteLength === 0) return null;
  if (isJsonType(contentType)) return decodeJson(bytes);
  const text = textOf(bytes);
  // A NUL is good UTF-8, but not every database keeps it in a text.
  if (text === null || text.includes("\u0000")) {
    return { base64: Buffer.from(bytes).toString("base64") };
  }
  return contentType === null ? parseJsonOrText(text) : text;
}

/** The bytes of base64 in its one canonical form; `INPUT_INVALID` names the field otherwise. */
export function decodeBase64(text: string, field: string): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  // Node skips what is no base64; writing the bytes again shows whether it skipped anything.
  if (bytes.toString("base64") === text) return bytes;
  throw new PawlError("INPUT_INVALID", `The field ${field} is not base64 with padding.`, {
    details: { field },
  });
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function parseJson(text: string): Json {
  const value = parseBody(text, false, bodyValuesMax(DOCUMENT_BYTES_MAX)) as Json;
  // Refuses numbers that would not come back as they were sent.
  canonicalJson(value);
  return value;
}

function parseJsonOrText(text: string): Json {
  try {
    return parseJson(text);
  } catch (error) {
    const isNoJson = error instanceof PawlError && error.cause instanceof SyntaxError;
    if (isNoJson) return cleanText(text, false);
    throw error;
  }
}
