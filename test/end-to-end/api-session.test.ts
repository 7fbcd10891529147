import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, checkAnswer, publish, startApi, type TokenClient } from "./api-server.ts";

const SESSION = "/api/v1/session";
const RUNS = "/api/v1/orchestration/runs";
const TICK = "/api/v1/orchestration/tick";
const SAME_ORIGIN = { "sec-fetch-site": "same-origin" };

let api: Api;
let alice: TokenClient;

beforeAll(async () => {
  api = await startApi({ workspaces: ["ours", "theirs"], tokensRequired: true });
  alice = await api.clientOf(0, ["read", "write", "admin"], "alice");
  await publish(alice);
});

afterAll(() => api.close());

/** Signs in as a browser does, and answers the cookie. */
async function signIn(token: string): Promise<string> {
  const answer = await api.send("POST", SESSION, { body: { token }, headers: SAME_ORIGIN });
  expect(answer.status).toBe(200);
  await checkAnswer("POST", SESSION, answer.clone());
  const header = answer.headers.get("set-cookie") ?? "";
  return header.split(";")[0] ?? "";
}

describe("signing in", () => {
  test("I72: keeps the token in a cookie that scripts and other sites cannot use", async () => {
    const body = { token: alice.token };
    const answer = await api.send("POST", SESSION, { body, headers: SAME_ORIGIN });
    expect(answer.headers.get("set-cookie")).toBe(
      `pawl_session=${alice.token}; Path=/; HttpOnly; SameSite=Strict`,
    );
    expect(await answer.json()).toEqual({
      signed_in: true,
      token_required: true,
      principal: "alice",
      verbs: ["read", "write", "admin"],
      tenant_id: "default",
      workspace_id: "ours",
      version: "0.0.0",
    });
  });

  test("I72: leaves by no other way than TLS where it came by TLS", async () => {
    for (const proto of ["https", "https, http"]) {
      const headers = { ...SAME_ORIGIN, "x-forwarded-proto": proto };
      const answer = await api.send("POST", SESSION, { body: { token: alice.token }, headers });
      expect(answer.headers.get("set-cookie")).toMatch(/; Secure$/);
    }
  });

  test("refuses what is no token without saying why, and keeps nothing", async () => {
    const answer = await api.send("POST", SESSION, { body: { token: "pawl_guess" } });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("set-cookie")).toBeNull();
    expect(await answer.json()).toMatchObject({ code: "UNAUTHORIZED" });
  });

  test("lets a browser read and change as its token may, and is named in the ledger", async () => {
    const cookie = await signIn(alice.token);
    const read = await api.send("GET", RUNS, { headers: { cookie } });
    expect(read.status).toBe(200);
    const made = await api.send("POST", RUNS, {
      body: { assets: ["report"] },
      headers: { cookie, ...SAME_ORIGIN, "idempotency-key": "from the page" },
    });
    expect(made.status).toBe(202);
    const { items } = await alice.call("listEvents", { query: { types: "RunRequested" } });
    expect(items.at(-1)?.actor).toEqual({ principal: "alice", token_id: alice.tokenId });
  });

  test("I66: shows only the workspace of the token", async () => {
    const bob = await api.clientOf(1, ["read"], "bob");
    const cookie = await signIn(bob.token);
    const session = await api.send("GET", SESSION, { headers: { cookie } });
    expect(await session.json()).toMatchObject({ principal: "bob", workspace_id: "theirs" });
    const read = await api.send("GET", RUNS, { headers: { cookie } });
    expect(await read.json()).toMatchObject({ items: [] });
  });

  test("I72: ends with its token, at the next request", async () => {
    const made = await alice.call("createToken", { body: { principal: "ci", verbs: ["read"] } });
    const cookie = await signIn(made.token);
    expect((await api.send("GET", RUNS, { headers: { cookie } })).status).toBe(200);
    await alice.call("revokeToken", { params: { token_id: made.token_id } });
    expect((await api.send("GET", RUNS, { headers: { cookie } })).status).toBe(401);
    const session = await api.send("GET", SESSION, { headers: { cookie } });
    expect(await session.json()).toMatchObject({ signed_in: false, principal: null, verbs: [] });
  });

  test("is asked for where the cookie is of a workspace that this server does not serve", async () => {
    const elsewhere = await api.clientOf(-1, ["read"], "bob");
    const cookie = `pawl_session=${elsewhere.token}`;
    const session = await api.send("GET", SESSION, { headers: { cookie } });
    expect(await session.json()).toMatchObject({ signed_in: false, workspace_id: null });
    expect((await api.send("GET", RUNS, { headers: { cookie } })).status).toBe(401);
    const signed = await api.send("POST", SESSION, { body: { token: elsewhere.token } });
    expect(signed.status).toBe(403);
    expect(signed.headers.get("set-cookie")).toBeNull();
  });

  test("signing out takes the cookie away", async () => {
    const cookie = await signIn(alice.token);
    const answer = await api.send("DELETE", SESSION, { headers: { cookie, ...SAME_ORIGIN } });
    expect(answer.headers.get("set-cookie")).toMatch(/^pawl_session=; Max-Age=0; Path=\//);
    expect(await answer.json()).toMatchObject({ signed_in: false, token_required: true });
  });

  test("I72: a page of another site neither signs in or out nor changes anything", async () => {
    const cookie = await signIn(alice.token);
    for (const site of ["cross-site", "same-site"]) {
      const headers = { cookie, "sec-fetch-site": site };
      for (const [method, path, body] of [
        ["POST", SESSION, { token: alice.token }],
        ["DELETE", SESSION, undefined],
        ["POST", TICK, {}],
      ] as const) {
        const answer = await api.send(method, path, { headers, body });
        expect(answer.status).toBe(403);
        expect(answer.headers.get("set-cookie")).toBeNull();
      }
    }
  });
});

describe("a server that needs no token", () => {
  test("takes a browser as the local user, also with a cookie of some other server", async () => {
    const open = await startApi();
    try {
      const elsewhere = await open.clientOf(-1, ["read"]);
      const cookies = ["pawl_of_another; theme=dark", elsewhere.token];
      const asked = cookies.map((value) => ({ cookie: `pawl_session=${value}` }));
      for (const headers of [{}, ...asked]) {
        const answer = await open.send("GET", SESSION, { headers });
        expect(await answer.json()).toMatchObject({
          signed_in: true,
          token_required: false,
          principal: "local",
        });
        expect((await open.send("GET", RUNS, { headers })).status).toBe(200);
      }
    } finally {
      await open.close();
    }
  });
});
