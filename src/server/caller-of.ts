import { PawlError } from "../core/errors.ts";
import type { Caller } from "./authenticate.ts";
import type { ServerContext } from "./server-context.ts";
import { tokenInCookie } from "./session-cookie.ts";

/** Who sent a request: by its `Authorization` header, else by the cookie of a browser that signed in. */
export async function callerOf(
  server: Pick<ServerContext, "authenticate" | "engineOf" | "tokensRequired">,
  header: (name: string) => string | undefined,
): Promise<Caller> {
  const authorization = header("authorization");
  const token = authorization === undefined ? tokenInCookie(header("cookie")) : null;
  if (token === null) return server.authenticate(authorization);
  try {
    const caller = await server.authenticate(`Bearer ${token}`);
    if (server.engineOf.has(caller.ws)) return caller;
  } catch (error) {
    const isRefused = error instanceof PawlError && error.code === "UNAUTHORIZED";
    if (!isRefused || server.tokensRequired) throw error;
  }
  // A browser sends what another server on this address gave it, also where none is needed.
  return server.authenticate(undefined);
}
