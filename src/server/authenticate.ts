import type { Verb } from "../core/api/operation.ts";
import { VERBS } from "../core/api/operation.ts";
import { PawlError } from "../core/errors.ts";
import { type Actor, LOCAL_ACTOR } from "../core/events/envelope.ts";
import type { Instant } from "../core/instant.ts";
import { isGoodToken } from "../engine/claim-queue.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { parseToken } from "./token.ts";

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
  store: Pick<Store, "tokenByHash">;
  /** Whether a request without a token is refused. */
  required: boolean;
  /** The workspace of requests without a token. */
  localWs: WorkspaceId;
  now: () => Instant;
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
  if (!isGoodToken(token, options.now())) throw refused();
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
