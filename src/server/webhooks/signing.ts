import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { PawlError } from "../../kernel/errors.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import type { Secret, Store, WorkspaceId } from "../../store/store.ts";

const SECRET_PREFIX = "whsec_";
/** The specification asks for 192 to 512 random bits. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;
const SECRET_BYTES = 32;

const SIGNATURE_PREFIX = "v1,";

/** A full stop would make `a` + `1.2` and `a.1` + `2` the same signed content. */
const ID = /^[\x21-\x2d\x2f-\x7e]+$/;
const TIMESTAMP = /^\d{1,12}$/;

/** What `verifyWebhook` found: the signed id, or a sentence that says why it is not believed. */
export type WebhookVerdict = { ok: true; id: string } | { ok: false; reason: string };

/** Makes a secret `whsec_<base64>`. */
export function newWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/**
 * The signature `v1,<base64>` of a webhook over the very bytes that are sent.
 *
 * While a secret is being replaced, sign with both and send the two with a space between them.
 * Throws INPUT_INVALID for an id with a full stop, a time before 1970 and a malformed secret.
 */
export function signWebhook(message: {
  id: string;
  timestampSeconds: number;
  body: Uint8Array;
  secret: string;
}): string {
  const { id, timestampSeconds, body, secret } = message;
  if (!ID.test(id)) {
    throw new PawlError(
      "INPUT_INVALID",
      `The webhook id ${JSON.stringify(id)} must be visible ASCII characters without a full stop.`,
      { details: { id } },
    );
  }
  const timestamp = `${timestampSeconds}`;
  if (!TIMESTAMP.test(timestamp)) {
    throw new PawlError(
      "INPUT_INVALID",
      `The time of a webhook must be whole seconds since 1970, not ${timestamp}.`,
      { details: { timestamp_seconds: timestampSeconds } },
    );
  }
  const signature = signatureOf(id, timestamp, body, secretBytes(secret));
  return SIGNATURE_PREFIX + signature.toString("base64");
}

/**
 * Checks a webhook against the Standard Webhooks specification: its headers, its age, and whether
 * one of its signatures was made with one of the secrets. Throws INPUT_INVALID for a malformed
 * secret, which is a mistake of the receiver and not of the sender.
 */
export function verifyWebhook(request: {
  headers: (name: string) => string | undefined;
  body: Uint8Array;
  secrets: readonly string[];
  nowMs: number;
  toleranceMs?: number;
}): WebhookVerdict {
  const { headers, body, secrets, nowMs, toleranceMs = 300_000 } = request;
  const id = headers("webhook-id") ?? "";
  const timestamp = headers("webhook-timestamp") ?? "";
  const signatures = headers("webhook-signature") ?? "";
  if (id === "") return refused("The header Webhook-Id is missing.");
  if (timestamp === "") return refused("The header Webhook-Timestamp is missing.");
  if (signatures === "") return refused("The header Webhook-Signature is missing.");
  if (!ID.test(id)) {
    return refused(
      "The header Webhook-Id must be visible ASCII characters without a full stop, " +
        `not ${JSON.stringify(id)}.`,
    );
  }
  if (!TIMESTAMP.test(timestamp)) {
    return refused(
      `The header Webhook-Timestamp must be whole seconds since 1970, not ${JSON.stringify(timestamp)}.`,
    );
  }
  const untimely = untimeliness(Number(timestamp) * 1000, nowMs, toleranceMs);
  if (untimely !== null) return refused(untimely);
  const expected = secrets.map((secret) => signatureOf(id, timestamp, body, secretBytes(secret)));
  return matchesOne(signatures, expected)
    ? { ok: true, id }
    : refused(
        "No signature in the header Webhook-Signature matches. Sign `{id}.{timestamp}.{body}` " +
          "with this receiver's secret, over the bytes of the body as they are sent.",
      );
}

function refused(reason: string): WebhookVerdict {
  return { ok: false, reason };
}

function untimeliness(sentMs: number, nowMs: number, toleranceMs: number): string | null {
  const ageMs = nowMs - sentMs;
  if (Math.abs(ageMs) <= toleranceMs) return null;
  const distance = `${Math.round(Math.abs(ageMs) / 1000)} s`;
  const limit = `${Math.round(toleranceMs / 1000)} s`;
  return ageMs > 0
    ? `The webhook was signed ${distance} ago; at most ${limit} are allowed. Sign each attempt anew.`
    : `The webhook was signed ${distance} in the future; at most ${limit} are allowed. ` +
        "Check the clocks of both sides.";
}

function signatureOf(id: string, timestamp: string, body: Uint8Array, secret: Buffer): Buffer {
  return createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest();
}

/** Other kinds of signature in the list, such as `v1a`, are for receivers that know them. */
function matchesOne(list: string, expected: readonly Buffer[]): boolean {
  let matches = false;
  for (const entry of list.split(" ")) {
    if (!entry.startsWith(SIGNATURE_PREFIX)) continue;
    const given = Buffer.from(entry.slice(SIGNATURE_PREFIX.length), "base64");
    for (const signature of expected) {
      if (given.length === signature.length && timingSafeEqual(given, signature)) matches = true;
    }
  }
  return matches;
}

function secretBytes(secret: string): Buffer {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : "";
  const bytes = Buffer.from(text, "base64");
  // Node skips what is no base64; writing the bytes again shows whether it skipped anything.
  const isWhole = bytes.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
  if (isWhole && bytes.length >= SECRET_BYTES_MIN && bytes.length <= SECRET_BYTES_MAX) return bytes;
  // The secret itself must not end up in a log, so the sentence does not repeat it.
  throw new PawlError(
    "INPUT_INVALID",
    `A webhook secret must be \`${SECRET_PREFIX}\` and the base64 of ` +
      `${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes.`,
  );
}

/** The part of a store that keeps secrets. */
export type SecretStore = Pick<Store, "secrets" | "addSecret" | "now">;

/** Whose secret it is. */
export type SecretOwner = { ws: WorkspaceId; kind: Secret["kind"]; id: string };

/** The secrets that are good now, newest first. */
export async function liveSecrets(
  store: SecretStore,
  { ws, kind, id }: SecretOwner,
  now: Instant,
): Promise<string[]> {
  const secrets = await store.secrets(ws, kind, id);
  return secrets
    .filter(({ expires_at }) => expires_at === null || expires_at > now)
    .map(({ secret }) => secret);
}

/** A secret that was just made, and until when the one before it is good. */
export type MadeSecret = {
  secret: string;
  created_at: Instant;
  previous_expires_at: Instant | null;
};

/** Makes a new secret; the ones before it stay good for a while. */
export async function makeSecret(
  store: SecretStore,
  owner: SecretOwner,
  overlapSeconds: number,
): Promise<MadeSecret> {
  const { ws, kind, id } = owner;
  const created_at = await store.now();
  const before = await liveSecrets(store, owner, created_at);
  const previousExpireAt = addMs(created_at, overlapSeconds * 1_000);
  const secret = newWebhookSecret();
  await store.addSecret(ws, { kind, id, secret, created_at, expires_at: null }, previousExpireAt);
  return { secret, created_at, previous_expires_at: before.length === 0 ? null : previousExpireAt };
}
