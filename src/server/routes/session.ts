import { VERBS } from "../../core/api/operation.ts";
import type { SessionDocument } from "../../core/api/session-operations.ts";
import { PawlError } from "../../core/errors.ts";
import type { Caller } from "../authenticate.ts";
import type { Handler } from "../call.ts";
import { callerOf } from "../caller-of.ts";
import { engineOf } from "../serve-operation.ts";
import type { ServerContext } from "../server-context.ts";
import { setCookie } from "../session-cookie.ts";

function sessionOf(server: ServerContext, caller: Caller | null): SessionDocument {
  const workspace = caller === null ? null : engineOf(server, caller).workspace;
  return {
    signed_in: caller !== null,
    token_required: server.tokensRequired,
    principal: caller?.actor.principal ?? null,
    verbs: VERBS.filter((verb) => caller?.verbs.includes(verb) === true),
    tenant_id: workspace?.tenant_id ?? null,
    workspace_id: workspace?.workspace_id ?? null,
    version: server.version,
  };
}

/** Who sent the request, or null when that is not known and they would be refused. */
async function known(
  server: ServerContext,
  header: (name: string) => string | undefined,
): Promise<Caller | null> {
  try {
    return await callerOf(server, header);
  } catch (error) {
    if (error instanceof PawlError && error.code === "UNAUTHORIZED") return null;
    throw error;
  }
}

/** Behind a proxy that speaks TLS, the cookie is not to leave by any other way; the first is it. */
function isSecure(header: (name: string) => string | undefined): boolean {
  return header("x-forwarded-proto")?.split(",")[0]?.trim() === "https";
}

/** What a browser can do about who it is. */
export const SESSION_HANDLERS: {
  getSession: Handler<"getSession">;
  signIn: Handler<"signIn">;
  signOut: Handler<"signOut">;
} = {
  async getSession({ server, header }) {
    return { answer: sessionOf(server, await known(server, header)), pos: null };
  },
  async signIn({ server, header, body }) {
    const token = body.token.trim();
    const caller = await server.authenticate(`Bearer ${token}`);
    const headers = { "set-cookie": setCookie(token, isSecure(header)) };
    return { answer: sessionOf(server, caller), pos: null, headers };
  },
  async signOut({ server, header }) {
    const headers = { "set-cookie": setCookie(null, isSecure(header)) };
    const withoutCookie = (name: string) => (name === "cookie" ? undefined : header(name));
    return { answer: sessionOf(server, await known(server, withoutCookie)), pos: null, headers };
  },
};
