import { z } from "zod";
import { type Operation, VERBS } from "./operation.ts";

/** Where a browser signs in and out. */
export const SESSION_PATH = "/api/v1/session";

/** Who a browser is signed in as, and what they may do. */
export const SessionDocument = z
  .strictObject({
    /** Whether the server answers at all: it may need no token, or have one. */
    signed_in: z.boolean(),
    /** Whether a token is needed to look. */
    token_required: z.boolean(),
    principal: z.string().nullable(),
    verbs: z.array(z.enum(VERBS)),
    tenant_id: z.string().nullable(),
    workspace_id: z.string().nullable(),
    version: z.string(),
  })
  .meta({ id: "Session" });
export type SessionDocument = z.infer<typeof SessionDocument>;

/** What a browser can do about who it is. */
export const SESSION_OPERATIONS = {
  getSession: {
    method: "GET",
    path: SESSION_PATH,
    summary: "Says who is asking, and what they may do",
    verb: null,
    answer: SessionDocument,
    status: 200,
  },
  signIn: {
    method: "POST",
    path: SESSION_PATH,
    summary: "Keeps a token in a cookie of the browser, for the page",
    verb: null,
    body: z.strictObject({ token: z.string().min(1).max(200) }),
    // Anybody may send one: there is no token yet.
    bodyBytesMax: 1_024,
    answer: SessionDocument,
    status: 200,
  },
  signOut: {
    method: "DELETE",
    path: SESSION_PATH,
    summary: "Takes the token out of the browser",
    verb: null,
    answer: SessionDocument,
    status: 200,
  },
} as const satisfies Record<string, Operation>;
