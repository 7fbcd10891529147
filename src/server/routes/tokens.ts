import type { TokenDocument } from "../../core/api/server-operations.ts";
import { addMs } from "../../core/instant.ts";
import type { TokenRow } from "../../store/store.ts";
import type { Call, Handler, Reply } from "../call.ts";
import { newToken } from "../token.ts";

function documentOf(row: TokenRow): TokenDocument {
  const { token_id, principal, created_at, expires_at, revoked_at } = row;
  const verbs = [...row.verbs] as TokenDocument["verbs"];
  return { token_id, principal, verbs, created_at, expires_at, revoked_at };
}

async function createToken({ body, engine, server }: Call<"createToken">): Promise<Reply> {
  const { token, ...made } = newToken();
  const created_at = server.now();
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
export const TOKEN_HANDLERS: {
  listTokens: Handler<"listTokens">;
  createToken: Handler<"createToken">;
  revokeToken: Handler<"revokeToken">;
} = {
  async listTokens({ engine, server }) {
    const tokens = await server.store.tokens(engine.workspace.ws);
    return { answer: { items: tokens.map(documentOf) }, pos: null };
  },
  createToken,
  async revokeToken({ engine, server, params }) {
    const revoked = await server.store.revokeToken(engine.workspace.ws, params.token_id);
    return { answer: { token_id: params.token_id, revoked }, pos: null };
  },
};
