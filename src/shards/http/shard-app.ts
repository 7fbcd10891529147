import { createHash, timingSafeEqual } from "node:crypto";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { keyOfHeader } from "../../work/operation.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { ApplyRequest, Shard } from "../shard.ts";
import {
  ADMIN_CALLS,
  answerToText,
  argsFromText,
  checkedJson,
  isAdminCall,
} from "./admin-calls.ts";
import type { StatementRunner } from "./run-statements.ts";
import { StatementsRequest } from "./statement-protocol.ts";

/** What a served shard is made of. */
export type ShardAppOptions = {
  shard: Shard;
  statements: StatementRunner;
  /** What every request must carry, as `Authorization: Bearer …`. */
  token: string;
  /** Whether it may change the schema as part of a split. */
  allowsDdl: boolean;
  /** The answer to a request that failed. */
  refuse: (error: unknown) => Response;
};

/** Most bytes in the body of an application's request: 16 MiB; and in rows that are copied: 256 MiB. */
const STATEMENTS_BYTES_MAX = 16_777_216;
const ROWS_BYTES_MAX = 268_435_456;

const ADMIN_PATHS = [...new Set(Object.values(ADMIN_CALLS).map(({ path }) => path))];

/** Makes the HTTP side of one SQLite shard. */
export function createShardApp(options: ShardAppOptions): Hono {
  const { statements, refuse } = options;
  const app = new Hono();
  const isToken = tokenCheck(options.token);
  app.get("/health", () => Response.json({ status: "ok", engine: "sqlite" }));
  app.use("*", async (context, next) => {
    if (!isToken(context.req.header("authorization"))) throw unauthorized();
    await next();
  });
  const limit = (maxSize: number) =>
    bodyLimit({
      maxSize,
      onError: () => {
        throw tooLarge(maxSize);
      },
    });
  for (const path of ADMIN_PATHS) {
    app.post(path, limit(ROWS_BYTES_MAX), async (context) => {
      const call = context.req.query("call") ?? "";
      return answerJson(await callShard(options, path, call, await bodyOf(context)));
    });
  }
  app.post("/query", limit(STATEMENTS_BYTES_MAX), async (context) => {
    const request = checkedJson(StatementsRequest, await bodyOf(context));
    return answerJson(JSON.stringify(await statements.query(request)));
  });
  app.post("/mutation", limit(STATEMENTS_BYTES_MAX), async (context) => {
    const key = keyOf(context.req.header("idempotency-key"));
    const request = checkedJson(StatementsRequest, await bodyOf(context));
    const { answer, isReplayed } = await statements.mutate(request, key);
    return answerJson(JSON.stringify(answer), isReplayed);
  });
  app.notFound((context) => refuse(unrouted(context)));
  app.onError((error) => refuse(error));
  return app;
}

async function callShard(
  { shard, allowsDdl }: ShardAppOptions,
  path: string,
  call: string,
  text: string,
): Promise<string> {
  if (!isAdminCall(call) || ADMIN_CALLS[call].path !== path) throw unknownCall(path, call);
  const args = argsFromText(call, text);
  const isDdl = call === "runDdl" || (call === "apply" && (args[0] as ApplyRequest).ddl !== null);
  if (isDdl && !allowsDdl) throw noDdl();
  // The table of calls says for each what it takes; here they are all one.
  const method = shard[call] as (...given: unknown[]) => Promise<unknown>;
  return answerToText(call, await method.apply(shard, args));
}

function noDdl(): PawlError {
  return new PawlError(
    "DDL_NOT_ALLOWED",
    "This shard's server changes no schemas. Serve it with `pawl shard serve --allow-ddl`, or " +
      "run the statement on each shard yourself when the split has ended.",
  );
}

function unknownCall(path: string, call: string): PawlError {
  const calls = Object.entries(ADMIN_CALLS).filter(([, spec]) => spec.path === path);
  const names = calls.map(([name]) => name).join(", ");
  return new PawlError(
    "INPUT_INVALID",
    `query.call: expected one of ${names}, got ${JSON.stringify(call)}.`,
    { details: { path, call } },
  );
}

function answerJson(text: string, isReplayed = false): Response {
  const headers = { "content-type": "application/json" };
  return new Response(text, {
    headers: isReplayed ? { ...headers, "idempotent-replayed": "true" } : headers,
  });
}

/** Compares digests, so that neither time nor length tells anything of the token. */
function tokenCheck(token: string): (authorization: string | undefined) => boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const expected = digest(token);
  return (authorization = "") => {
    const given = /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? "";
    return timingSafeEqual(digest(given), expected);
  };
}

async function bodyOf(context: Context): Promise<string> {
  const type = context.req.header("content-type") ?? "none";
  // A form of another site can send texts, but not this type.
  if (!/^application\/json\b/i.test(type)) {
    throw new PawlError(
      "INPUT_INVALID",
      `The body must be sent as \`Content-Type: application/json\`, not ${type}.`,
      { details: { content_type: type, status: 415 } },
    );
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await context.req.arrayBuffer());
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new PawlError("INPUT_INVALID", "The body is not UTF-8. Send it as UTF-8.", { cause });
  }
}

const KEY = /^[\x21-\x7e]{1,200}$/;

function keyOf(header: string | undefined): string {
  const key = keyOfHeader(header);
  if (key !== undefined && KEY.test(key)) return key;
  throw new PawlError(
    "IDEMPOTENCY_KEY_MISSING",
    "A mutation needs an `Idempotency-Key` of 1 to 200 characters, so that it can be sent again " +
      "without being done twice.",
  );
}

function unauthorized(): PawlError {
  return new PawlError(
    "UNAUTHORIZED",
    "This shard wants its token: send it as `Authorization: Bearer …`. It is the one that " +
      "`pawl shard serve` was given.",
  );
}

function tooLarge(bytesMax: number): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `The body may have at most ${bytesMax} bytes. Send it in smaller parts.`,
    { details: { bytes_max: bytesMax, status: 413 } },
  );
}

function unrouted({ req }: Context): PawlError {
  const paths = ["/health", "/query", "/mutation", ...ADMIN_PATHS];
  const { path, method } = req;
  if (paths.includes(path)) {
    return new PawlError("METHOD_NOT_ALLOWED", `${path} takes no ${method}.`, {
      details: { path, method },
    });
  }
  return new PawlError("ROUTE_NOT_FOUND", `A shard has no ${path}. It has ${paths.join(", ")}.`, {
    details: { path },
  });
}
