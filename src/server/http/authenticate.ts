import { createHash, randomBytes } from "node:crypto";
import { type Verb, VERBS } from "../../work/operation.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Actor, LOCAL_ACTOR } from "../../work/envelope.ts";
import { isGoodToken } from "../../engine/claim-queue.ts";
import type { Store, WorkspaceId } from "../../store/store.ts";

/** A new token: its text is given out once, only the hash of its secret is kept. */
export type NewToken = { token_id: string; token: string; secret_hash: string };

const TOKEN = /^pawl_([0-9a-f]{12})_([0-9a-f]{64})$/;

/** Makes a token `pawl_<token_id>_<secret>`. */
export function newToken(): NewToken {
  const token_id = randomBytes(6).toString("hex");
  const secret = randomBytes(32).toString("hex");
  return { token_id, token: `pawl_${token_id}_${secret}`, secret_hash: secretHash(secret) };
}

/** The id and the hash that a token's text stands for, or null when it is no token. */
export function parseToken(text: string): { token_id: string; secret_hash: string } | null {
  const [, token_id, secret] = TOKEN.exec(text) ?? [];
  if (token_id === undefined || secret === undefined) return null;
  return { token_id, secret_hash: secretHash(secret) };
}

/** Whether an `Authorization` header carries one of our tokens, good or not. */
export function isToken(authorization: string): boolean {
  return /^Bearer +pawl_/i.test(authorization);
}

/** The secret has 256 random bits, so one round of a fast hash is enough. */
function secretHash(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Who sent a request, in which workspace, and what they may do there. */
export type Caller = {
  actor: Actor;
  ws: WorkspaceId;
  verbs: readonly string[];
};

/** Finds out who sent a request from its `Authorization` header; throws `UNAUTHORIZED`. */
export type Authenticate = (authorization: string | undefined) => Promise<Caller> | Caller;

/** What authentication needs to know. */
export type AuthenticateOptions = {
  store: Pick<Store, "tokenByHash" | "now">;
  /** Whether a request without a token is refused. */
  required: boolean;
  /** The workspace of requests without a token. */
  localWs: WorkspaceId;
};

/**
 * Makes the check of tokens. A token is looked up for every request and never remembered, so that
 * a revoked one ends at once, whichever server revoked it.
 */
export function createAuthenticate(options: AuthenticateOptions): Authenticate {
  const local: Caller = {
    actor: LOCAL_ACTOR,
    ws: options.localWs,
    verbs: VERBS,
  };
  return (authorization) => {
    if (authorization !== undefined) return byToken(options, authorization);
    if (!options.required) return local;
    throw new PawlError(
      "UNAUTHORIZED",
      "This server wants a token: send it as `Authorization: Bearer pawl_…`. " +
        "`pawl token create` makes one.",
    );
  };
}

async function byToken(options: AuthenticateOptions, authorization: string): Promise<Caller> {
  const text = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  const parsed = text === undefined ? null : parseToken(text);
  if (parsed === null) throw refused();
  const token = await options.store.tokenByHash(parsed.secret_hash);
  if (token === null || token.token_id !== parsed.token_id) throw refused();
  // By the store's time, which never goes back: what has ended does not come back with a clock.
  const now = token.expires_at === null ? token.created_at : await options.store.now();
  if (!isGoodToken(token, now)) throw refused();
  return {
    actor: { principal: token.principal, token_id: token.token_id },
    ws: token.ws,
    verbs: token.verbs,
  };
}

/** One answer for every token that is no good: which of the reasons it is tells too much. */
function refused(): PawlError {
  return new PawlError(
    "UNAUTHORIZED",
    "The token is not valid: it is unknown, has expired or was revoked. " +
      "`pawl token create` makes a new one.",
  );
}

/** The name under which what a caller reads waits its turn. */
export function askerOf({ ws, actor }: Caller): string {
  return `${ws} ${actor.token_id ?? ""}`;
}

/** Refuses with `FORBIDDEN` a caller that lacks the right. */
export function checkVerb(caller: Caller, verb: Verb): void {
  if (caller.verbs.includes(verb)) return;
  throw new PawlError(
    "FORBIDDEN",
    `This token may ${caller.verbs.join(", ")}; the request needs the right to ${verb}. ` +
      `\`pawl token create --verbs ${[...caller.verbs, verb].join(",")}\` makes one that may.`,
    { details: { verbs: caller.verbs, verb } },
  );
}

/**
 * The cookie that holds the token of a browser. Scripts cannot read it, pages of other sites never
 * make a browser send it, and it ends with the browser; the token is looked up for every request, so
 * that a revoked one ends at once here too.
 */
export const COOKIE_NAME = "pawl_session";

/** The token that a `Cookie` header holds, or null. */
export function tokenInCookie(header: string | undefined): string | null {
  for (const part of header?.split(";") ?? []) {
    const [name, value] = part.trim().split("=", 2);
    if (name === COOKIE_NAME && value !== undefined && value !== "") return value;
  }
  return null;
}

/** The `Set-Cookie` header that keeps a token, or forgets it. */
export function setCookie(token: string | null, isSecure: boolean): string {
  const lasting = token === null ? `${COOKIE_NAME}=; Max-Age=0` : `${COOKIE_NAME}=${token}`;
  return `${lasting}; Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
}
