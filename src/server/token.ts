import { createHash, randomBytes } from "node:crypto";

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
