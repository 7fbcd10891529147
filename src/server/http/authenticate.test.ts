import { describe, expect, test } from "vitest";
import { newToken, parseToken } from "./authenticate.ts";

describe("tokens", () => {
  test("are known by their id and the hash of their secret", () => {
    const { token, token_id, secret_hash } = newToken();
    expect(token).toMatch(/^pawl_[0-9a-f]{12}_[0-9a-f]{64}$/);
    expect(parseToken(token)).toEqual({ token_id, secret_hash });
    expect(token).not.toContain(secret_hash);
  });

  test("are never the same twice", () => {
    const tokens = Array.from({ length: 100 }, () => newToken());
    expect(new Set(tokens.map(({ token }) => token)).size).toBe(100);
  });

  test("are not mistaken for other texts", () => {
    const { token } = newToken();
    for (const text of [
      "",
      "pawl_",
      token.toUpperCase(),
      `${token}0`,
      token.slice(5),
      ` ${token}`,
    ]) {
      expect(parseToken(text), text).toBeNull();
    }
  });
});
