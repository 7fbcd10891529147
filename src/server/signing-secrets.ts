import { addMs, type Instant } from "../core/instant.ts";
import type { Secret, Store, WorkspaceId } from "../store/store.ts";
import { newWebhookSecret } from "./standard-webhooks.ts";

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
