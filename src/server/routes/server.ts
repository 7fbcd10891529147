import type { Engine } from "../../engine/engine.ts";
import { type Call, type Handlers, type Reply, callerOf } from "../http/call.ts";
import { VERBS } from "../../work/operation.ts";
import type { SessionDocument, TokenDocument } from "../../work/server-api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type Caller, setCookie, newToken } from "../http/authenticate.ts";
import { engineOf } from "../http/serve-operation.ts";
import type { ServerContext } from "../start-server.ts";
import { addMs } from "../../kernel/instant.ts";
import type { TokenRow } from "../../store/store.ts";

/** How long the store may take to show that it is there. */
const STORE_ANSWERS_WITHIN_MS = 1_000;

/** Anybody may ask, so what exactly is wrong, and where on this machine, is for the log. */
const SEE_LOG = "A workspace cannot be served; the log of the server has the reason.";

/** Why a workspace cannot be served, or null; of its events only where no token is needed to look. */
async function reasonOf(engine: Engine, isOpen: boolean): Promise<string | null> {
  const { last_error } = engine.status();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    const reason = `The store did not answer within ${STORE_ANSWERS_WITHIN_MS} ms.`;
    timer = setTimeout(() => resolve(reason), STORE_ANSWERS_WITHIN_MS);
  });
  const read = engine
    .read((reader) => reader.head())
    .then(({ damage }) => {
      if (damage === null) return last_error === null ? null : SEE_LOG;
      return isOpen ? `Read only. ${damage.reason}` : "A workspace is read only; see the log.";
    })
    .catch(() => SEE_LOG);
  const reason = await Promise.race([read, late]);
  clearTimeout(timer);
  return reason;
}

async function readyz({ server }: Call<"readyz">): Promise<Reply> {
  const found = await Promise.all(
    server.engines.map((engine) => reasonOf(engine, !server.tokensRequired)),
  );
  const reasons = found.filter((reason) => reason !== null);
  if (server.stopping.aborted) reasons.push("The server is stopping.");
  const isReady = reasons.length === 0;
  const { description, unsafe } = server.store;
  const answer = {
    status: isReady ? "ok" : "unavailable",
    version: server.version,
    // Without the path or the database, which stand in brackets.
    store: description.replace(/ \(.*\)$/, ""),
    unsafe,
    reasons,
    uptime_seconds: Math.floor(server.uptimeMs() / 1_000),
  };
  return { answer, pos: null, status: isReady ? 200 : 503 };
}

/** What the server says about itself. */
export const HEALTH_HANDLERS = {
  livez: () => Promise.resolve({ answer: { status: "ok" }, pos: null }),
  readyz,
} satisfies Handlers;

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
export const SESSION_HANDLERS = {
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
} satisfies Handlers;

function documentOf(row: TokenRow): TokenDocument {
  const { token_id, principal, created_at, expires_at, revoked_at } = row;
  const verbs = [...row.verbs] as TokenDocument["verbs"];
  return { token_id, principal, verbs, created_at, expires_at, revoked_at };
}

async function createToken({ body, engine, server }: Call<"createToken">): Promise<Reply> {
  const { token, ...made } = newToken();
  const created_at = await server.store.now();
  const { principal, expires_in_seconds: seconds } = body;
  const row: TokenRow = {
    ...made,
    ws: engine.workspace.ws,
    principal,
    verbs: [...new Set(body.verbs)],
    created_at,
    expires_at: seconds === undefined ? null : addMs(created_at, seconds * 1_000),
    revoked_at: null,
  };
  await server.store.saveToken(row);
  return { answer: { ...documentOf(row), token }, pos: null };
}

/** What can be done with tokens. */
export const TOKEN_HANDLERS = {
  async listTokens({ engine, server }) {
    const tokens = await server.store.tokens(engine.workspace.ws);
    return { answer: { items: tokens.map(documentOf) }, pos: null };
  },
  createToken,
  async revokeToken({ engine, server, params }) {
    const revoked = await server.store.revokeToken(engine.workspace.ws, params.token_id);
    return { answer: { token_id: params.token_id, revoked }, pos: null };
  },
} satisfies Handlers;
