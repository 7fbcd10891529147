import { canonicalJson, type Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { epochMsOf, type Instant } from "../core/instant.ts";
import type { Attempt } from "../engine/delivery.ts";
import { sendWebhook } from "./send-webhook.ts";
import { signWebhook } from "./standard-webhooks.ts";

/** How long a receiver may take to answer. */
const TIMEOUT_MS = 15_000;

/** Something to be told to the receiver of a webhook. */
export type OutgoingNotification = {
  url: string;
  /** The same on every attempt. */
  id: string;
  body: Json;
  /** All that are good now, so that a receiver may know either while one takes over. */
  secrets: readonly string[];
  allowedHosts: readonly string[];
  now: Instant;
  signal?: AbortSignal;
};

/** Tells the receiver once, and says how that went; it never throws for what the receiver does. */
export async function sendNotification(
  outgoing: OutgoingNotification,
): Promise<Attempt & { durationMs: number }> {
  const { url, id, allowedHosts, secrets, signal } = outgoing;
  const body = new TextEncoder().encode(canonicalJson(outgoing.body));
  const timestampSeconds = Math.floor(epochMsOf(outgoing.now) / 1_000);
  const signatures = secrets.map((secret) => signWebhook({ id, timestampSeconds, body, secret }));
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "pawl",
    "webhook-id": id,
    "webhook-timestamp": `${timestampSeconds}`,
    ...(signatures.length === 0 ? {} : { "webhook-signature": signatures.join(" ") }),
  };
  const startedMs = performance.now();
  try {
    const { status, durationMs } = await sendWebhook({
      url,
      body,
      headers,
      timeoutMs: TIMEOUT_MS,
      allowedHosts,
      ...(signal === undefined ? {} : { signal }),
    });
    const isTaken = status >= 200 && status < 300;
    return { status, error: isTaken ? null : `The receiver answered ${status}.`, durationMs };
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    const durationMs = Math.round(performance.now() - startedMs);
    return { status: null, error: error.message, durationMs };
  }
}
