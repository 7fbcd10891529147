import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { type Operation, type Verb, Problem, PROBLEM_TYPE } from "../../src/work/operation.ts";
import { type AnswerOf, OPERATIONS, type PartInput } from "../../src/work/operations.ts";
import { instantOf } from "../../src/kernel/instant.ts";
import { Engine } from "../../src/engine/engine.ts";
import { type MailSettings, machineEnvironment } from "../../src/engine/config.ts";
import type { Limits } from "../../src/server/http/admission.ts";
import { SAID_LIMITS, type SaidLimits } from "../../src/engine/budgets.ts";
import { type App, createApp } from "../../src/server/http/app.ts";
import { NotificationSender } from "../../src/server/webhooks/sender.ts";
import { Sampler } from "../../src/server/sampler.ts";
import { type ConnectionLimits, startServer } from "../../src/server/start-server.ts";
import { newToken } from "../../src/server/http/authenticate.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";

/** How a test wants its server. */
export type ApiOptions = {
  /** Where the store is; a new folder when it is left out. */
  folder?: string;
  workspaces?: readonly string[];
  tokensRequired?: boolean;
  hosts?: readonly string[];
  limits?: Partial<Limits>;
  /** How much of what tasks say is kept, where it differs. */
  saidLimits?: Partial<SaidLimits>;
  connections?: Partial<ConnectionLimits>;
  /** Whether webhooks are told, and which of their receivers may be local. */
  webhookHosts?: readonly string[];
  /** The SMTP server that sends e-mail. */
  mail?: MailSettings;
  /** A PostgreSQL database for the store, instead of a file; its clock is its own. */
  databaseUrl?: string;
  /** Where the store's clock stands until it jumps; the machine's own time when it is left out. */
  clockAt?: string;
  /** Whether anything happens between requests; it does unless told otherwise. */
  actsByItself?: boolean;
};

/** A real server on a real file, and what a test asks it with. */
export type Api = {
  readonly url: string;
  readonly folder: string;
  readonly app: App;
  readonly store: Store;
  readonly engines: readonly [Engine, ...Engine[]];
  readonly client: Client;
  /** Tells the webhooks of the first workspace. */
  readonly notifications: NotificationSender;
  /** Samples the first workspace. */
  readonly sampler: Sampler;
  /** Errors that the server logged. */
  readonly logged: unknown[];
  /** A client with a token of a workspace. */
  clientOf(workspace: number, verbs: readonly Verb[], principal?: string): Promise<TokenClient>;
  send(method: string, path: string, options?: SendOptions): Promise<Response>;
  /** Lets the store's clock jump ahead. */
  jump(ms: number): void;
  stopServer(): Promise<void>;
  close(): Promise<void>;
};

/** A client and the token it uses. */
export type TokenClient = Client & { readonly token: string; readonly tokenId: string };

/** A request as a test writes it; text goes out as it is. */
export type SendOptions = { body?: unknown; headers?: Record<string, string> };

/** Starts a server. */
export async function startApi(options: ApiOptions = {}): Promise<Api> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "pawl-api-"));
  let jumpedMs = 0;
  const standsAt = options.clockAt === undefined ? null : Date.parse(options.clockAt);
  const clock = () => (standsAt ?? Date.now()) + jumpedMs;
  const store =
    options.databaseUrl === undefined
      ? await openSqliteStore({ path: join(folder, "pawl.db"), clock })
      : await openPostgresStore({ url: options.databaseUrl });
  const environment = machineEnvironment(() => undefined);
  const saidLimits = { ...SAID_LIMITS, ...options.saidLimits };
  const [first = "default", ...others] = options.workspaces ?? [];
  const open = (workspaceId: string) =>
    Engine.open({ store, tenantId: "default", workspaceId, environment, saidLimits });
  const engines: [Engine, ...Engine[]] = [await open(first)];
  for (const workspaceId of others) engines.push(await open(workspaceId));
  if (options.actsByItself !== false) for (const engine of engines) engine.start();
  const logged: unknown[] = [];
  const outlets = { allowedHosts: options.webhookHosts ?? [], mail: options.mail ?? null };
  const notifications = new NotificationSender({
    store,
    engine: engines[0],
    outlets,
    warn: () => undefined,
  });
  if (options.webhookHosts !== undefined) notifications.start();
  const sampler = new Sampler({ store, engine: engines[0], warn: () => undefined });
  if (options.actsByItself !== false) sampler.start();
  const app = createApp({
    engines,
    store,
    auth: { required: options.tokensRequired ?? false, hosts: options.hosts },
    log: { error: (fields) => logged.push(fields) },
    version: "0.0.0",
    limits: options.limits,
    outlets,
    notifications: [notifications],
    now: () => instantOf(clock()),
  });
  const limits = options.connections;
  const server = await startServer({ app, host: "127.0.0.1", port: 0, limits });
  let isStopped = false;
  const stopServer = async () => {
    if (isStopped) return;
    isStopped = true;
    await server.stop(2_000);
    await notifications.stop();
    for (const engine of engines) await engine.stop();
    await sampler.stop();
  };
  return {
    url: server.url,
    folder,
    app,
    store,
    engines,
    notifications,
    sampler,
    logged,
    client: createClient({ url: server.url, fetch: checkedFetch, retryDelaysMs: [] }),
    clientOf: (workspace, verbs, principal = "tester") =>
      tokenClient(server.url, store, engines[workspace]?.workspace.ws ?? -1, verbs, principal),
    send: (method, path, sent = {}) => send(server.url, method, path, sent),
    jump: (ms) => {
      jumpedMs += ms;
    },
    stopServer,
    async close() {
      await stopServer();
      await store.close();
      if (options.folder === undefined) rmSync(folder, { recursive: true });
    },
  };
}

async function tokenClient(
  url: string,
  store: Store,
  ws: number,
  verbs: readonly Verb[],
  principal: string,
): Promise<TokenClient> {
  const { token, ...made } = newToken();
  const created_at = await store.now();
  const rest = { ws, principal, verbs, created_at, expires_at: null, revoked_at: null };
  await store.saveToken({ ...made, ...rest });
  const client = createClient({ url, token, fetch: checkedFetch, retryDelaysMs: [] });
  return { ...client, token, tokenId: made.token_id };
}

function send(
  url: string,
  method: string,
  path: string,
  { body, headers = {} }: SendOptions,
): Promise<Response> {
  const text = typeof body === "string" ? body : body === undefined ? null : JSON.stringify(body);
  const type: Record<string, string> = text === null ? {} : { "content-type": "application/json" };
  return fetch(`${url}${path}`, { method, body: text, headers: { ...type, ...headers } });
}

/** As `fetch`, and holds every answer to what the contract says about it. */
export async function checkedFetch(request: Request): Promise<Response> {
  const response = await fetch(request);
  await checkAnswer(request.method, new URL(request.url).pathname, response.clone());
  return response;
}

/** Fails unless the answer has the status, the media type and the fields of its operation. */
export async function checkAnswer(method: string, path: string, response: Response): Promise<void> {
  const type = response.headers.get("content-type");
  if (type === "text/event-stream") return;
  expect(response.headers.get("x-request-id")).toMatch(/./);
  const body: unknown = await response.json();
  if (!response.ok) {
    expect(type).toBe(PROBLEM_TYPE);
    expect(Problem.parse(body).status).toBe(response.status);
    return;
  }
  expect(type).toBe("application/json");
  const operation = operationAt(method, path);
  const isReplay = response.headers.get("idempotent-replayed") === "true";
  expect(response.status).toBe(isReplay ? 200 : operation.status);
  const parsed = operation.answer.safeParse(body);
  expect(parsed.error?.issues ?? [], `${method} ${path}`).toEqual([]);
}

function operationAt(method: string, path: string): Operation {
  const found = (Object.values(OPERATIONS) as Operation[]).find(
    (operation) =>
      operation.method === method &&
      new RegExp(`^${operation.path.replace(/\{\w+\}/g, "[^/]+")}$`).test(path),
  );
  if (found === undefined) throw new Error(`${method} ${path} is no operation`);
  return found;
}

/** An asset with a partition for each of the ten first days of 2025. */
export const ORDERS = {
  kind: "asset",
  asset_key: "sales/orders",
  partitions: { type: "daily", start: "2025-01-01", end: "2025-01-11" },
} as const;

/** An asset without partitions. */
export const REPORT = { kind: "asset", asset_key: "report", partitions: null } as const;

/** An asset whose partitions are added at run time. */
export const TENANTS = {
  kind: "asset",
  asset_key: "tenants",
  partitions: { type: "dynamic", name: "tenants" },
} as const;

/** Publishes the three assets above. */
export async function publish(client: Client): Promise<void> {
  await client.call("publishDefinitions", { body: { specs: [ORDERS, REPORT, TENANTS] } });
}

/** A wish for a backfill of all days, in chunks of two. */
export const ALL_ORDERS: PartInput<"createBackfill", "body"> = {
  assets: ["sales/orders"],
  selector: { type: "all" },
  chunk_size: 2,
};

/** Takes all tasks that are ready and reports them with the outcome. */
export async function work(
  client: Client,
  outcome: "SUCCEEDED" | "FAILED",
  code_version: string | null = null,
  wait_ms = 200,
): Promise<number> {
  const lease_id = crypto.randomUUID();
  const claimed = await client.call("claim", {
    body: {
      worker_id: "worker",
      lease_id,
      slots: 500,
      assets: ["sales/orders", "report", "tenants"],
      code_version,
      wait_ms,
    },
  });
  const results = claimed.groups.flatMap(({ run_pos, tasks }) =>
    tasks.map(({ task_key, attempt }) => ({
      run_pos,
      task_key,
      attempt,
      outcome,
      ...(outcome === "FAILED" ? { final: true, error: { class: "user", message: "no" } } : {}),
    })),
  );
  if (results.length === 0) return 0;
  await client.call("report", {
    body: { worker_id: "worker", code_version, results, released_leases: [lease_id] },
  });
  return results.length;
}

/** The overview once it tells of what is stale now: a busy server tells what it knew before. */
export async function currentOverview(client: Client): Promise<AnswerOf<"getOverview">> {
  for (;;) {
    const answer = await client.call("getOverview");
    if (answer.stale_pos >= answer.pos) return answer;
  }
}
