import { PawlError } from "./errors.ts";

/** Any value that JSON can hold. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * The one text of a JSON value: keys sorted by code unit, no white space, absent where `undefined`.
 *
 * Refuses what would not come back the same: numbers that are not finite or, as integers, beyond
 * ±(2^53−1), and the key `__proto__`.
 */
export function canonicalJson(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "boolean":
      return value ? "true" : "false";
    case "number":
      return canonicalNumber(value);
    case "object":
      if (value === null) return "null";
      return Array.isArray(value) ? canonicalArray(value) : canonicalObject(value);
    default:
      throw new PawlError("INPUT_INVALID", `A ${typeof value} cannot be written as JSON.`);
  }
}

/** Texts of documents that were made before: they are values, so a document never changes. */
const documentTexts = new WeakMap<object, string>();

/**
 * The one text of a document, made once: a run's row is written several times with the same list of keys,
 * and an answer that is kept is sent, too. Of texts shorter than `lengthMin` none is remembered.
 */
export function documentText(document: object, lengthMin = 0): string {
  let text = documentTexts.get(document);
  if (text === undefined) {
    text = canonicalJson(document);
    if (text.length >= lengthMin) documentTexts.set(document, text);
  }
  return text;
}

/** The one text of a document where it was made already. */
export function knownText(document: unknown): string | undefined {
  return typeof document === "object" && document !== null
    ? documentTexts.get(document)
    : undefined;
}

function canonicalNumber(value: number): string {
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new PawlError("INPUT_INVALID", `The number ${value} cannot be kept exactly as JSON.`);
  }
  return `${value}`;
}

function canonicalArray(values: readonly unknown[]): string {
  // Texts are the same to the platform's own writer, which is much faster for a list of keys.
  if (values.every((value) => typeof value === "string")) return JSON.stringify(values);
  let text = "[";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ",";
    text += canonicalJson(values[index]);
  }
  return `${text}]`;
}

function canonicalObject(value: object): string {
  let text = "{";
  let comma = "";
  for (const key of sortedKeys(value)) {
    const member = (value as Record<string, unknown>)[key];
    if (member === undefined) continue;
    if (key === "__proto__") {
      throw new PawlError("INPUT_INVALID", "The key __proto__ is not allowed in a document.");
    }
    text += comma + keyText(key) + canonicalJson(member);
    comma = ",";
  }
  return `${text}}`;
}

/** Longest list of keys that is sorted by insertion: up to there it takes half the time. */
const INSERTION_MAX = 32;

/** The keys in order; most documents are built nearly that way already. */
function sortedKeys(value: object): string[] {
  const keys = Object.keys(value);
  if (keys.length > INSERTION_MAX) return keys.toSorted();
  for (let index = 1; index < keys.length; index++) {
    const key = keys[index] as string;
    let at = index;
    for (; at > 0 && (keys[at - 1] as string) > key; at--) keys[at] = keys[at - 1] as string;
    keys[at] = key;
  }
  return keys;
}

/** Texts of keys, which documents share: looking one up costs a fraction of writing it. */
const KEY_TEXTS = new Map<string, string>();
/** More than all keys of our own; those of users beyond it are written each time. */
const KEY_TEXTS_MAX = 1_000;

function keyText(key: string): string {
  let text = KEY_TEXTS.get(key);
  if (text === undefined) {
    text = `${JSON.stringify(key)}:`;
    if (KEY_TEXTS.size < KEY_TEXTS_MAX && key.length < 100) KEY_TEXTS.set(key, text);
  }
  return text;
}

/** Hash functions, handed in by the outer layers so that this layer needs no platform. */
export interface Hash {
  /** The SHA-256 of the UTF-8 text, as lower-case hex. */
  sha256(text: string): string;
  /** The HMAC-SHA256 of the UTF-8 text under the secret (UTF-8), as raw bytes. */
  hmacSha256(secret: string, text: string): Uint8Array;
}
