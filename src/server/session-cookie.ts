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
