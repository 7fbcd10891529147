import { z } from "zod";
import { Count, InstantText } from "../events/fields.ts";
import { type Operation, ORCHESTRATION_PATH, VERBS } from "./operation.ts";

/** An access token as the API shows it: never its secret. */
export const TokenDocument = z
  .strictObject({
    token_id: z.string(),
    principal: z.string(),
    verbs: z.array(z.enum(VERBS)),
    created_at: InstantText,
    expires_at: InstantText.nullable(),
    revoked_at: InstantText.nullable(),
  })
  .meta({ id: "Token" });
export type TokenDocument = z.infer<typeof TokenDocument>;

/** A wish for a token. */
export const CreateTokenBody = z
  .strictObject({
    /** Who uses it; stands in every event that the token causes. */
    principal: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,99}$/, {
      error: "must be 1 to 100 letters, digits, _ . @ / - and start with a letter, a digit or _",
    }),
    verbs: z.array(z.enum(VERBS)).min(1).max(VERBS.length),
    expires_in_seconds: z.int().min(1).max(315_360_000).optional(),
  })
  .meta({ id: "CreateToken" });
export type CreateTokenBody = z.infer<typeof CreateTokenBody>;

/** What the API can do with tokens, and what it says about itself. */
export const SERVER_OPERATIONS = {
  listTokens: {
    method: "GET",
    path: `${ORCHESTRATION_PATH}/tokens`,
    summary: "Lists access tokens",
    verb: "admin",
    answer: z.strictObject({ items: z.array(TokenDocument) }),
    status: 200,
  },
  createToken: {
    method: "POST",
    path: `${ORCHESTRATION_PATH}/tokens`,
    summary: "Creates an access token; its text is shown this once",
    verb: "admin",
    body: CreateTokenBody,
    answer: TokenDocument.extend({ token: z.string() }).meta({ id: "CreatedToken" }),
    status: 201,
  },
  revokeToken: {
    method: "DELETE",
    path: `${ORCHESTRATION_PATH}/tokens/{token_id}`,
    summary: "Ends a token at once",
    verb: "admin",
    params: z.strictObject({ token_id: z.string().min(1).max(100) }),
    answer: z.strictObject({
      token_id: z.string(),
      /** False when there was no such token. */
      revoked: z.boolean(),
    }),
    status: 200,
  },
  livez: {
    method: "GET",
    path: "/livez",
    summary: "Says that the process answers",
    verb: null,
    answer: z.strictObject({ status: z.literal("ok") }),
    status: 200,
  },
  readyz: {
    method: "GET",
    path: "/readyz",
    summary: "Says whether the server can serve, and what it runs on",
    verb: null,
    answer: z
      .strictObject({
        status: z.enum(["ok", "unavailable"]),
        version: z.string(),
        store: z.string(),
        /** Why an acknowledged write may be lost on power failure; null when it cannot. */
        unsafe: z.string().nullable(),
        /** What keeps the server from serving. */
        reasons: z.array(z.string()),
        uptime_seconds: Count,
      })
      .meta({ id: "Readiness" }),
    status: 200,
  },
} as const satisfies Record<string, Operation>;
