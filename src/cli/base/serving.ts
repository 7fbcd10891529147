import { makePrivateDirectory, makePrivateFile } from "../../store/make-directory.ts";
import { join } from "node:path";
import Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import {
  readServerFile,
  newServerSecret,
  provingApp,
  removeServerFile,
  type ServerAddress,
  writeServerFile,
} from "./server-file.ts";
import { hostname } from "node:os";
import process from "node:process";
import type { Client } from "../../client/client.ts";
import type { AnswerOf } from "../../work/operations.ts";
import { addMs, instantOf } from "../../kernel/instant.ts";
import { areTokensRequired, isLoopback } from "../../engine/config.ts";
import { splitPhaseLine } from "../../server/split-checks.ts";
import { logTasks, type TaskLines } from "../../server/task-lines.ts";
import { type Outlets, outletsOf, webhookFault } from "../../server/webhooks/sender.ts";
import { type RunningServer, startServer } from "../../server/start-server.ts";
import { newToken } from "../../server/http/authenticate.ts";
import { type ForkedWorker, forkWorker, type LoadedSpecs } from "../../worker/fork-worker.ts";
import type { WorkerLogger } from "../../worker/run-worker.ts";
import { type EngineHost, openEngineHost } from "./engine-host.ts";
import type { Spec } from "../../work/definition/published-spec.ts";
import {
  environmentOf,
  hasDefinitions,
  loadSpecs,
  type ProjectFiles,
  publish,
  workNamesIn,
} from "./project.ts";

/**
 * Makes this process the one server of an embedded store, until it lets go or ends in whatever way:
 * the lock is the operating system's, on a file of its own. Throws STORE_LOCKED.
 */
export function holdServerLock(
  dataDirectory: string,
  warn?: (sentence: string) => void,
): { release(): void } {
  const database = openLockFile(dataDirectory, warn);
  try {
    database.exec("begin exclusive");
  } catch (cause) {
    database.close();
    if (!isBusy(cause)) throw unwritable(dataDirectory, cause);
    const server = readServerFile(dataDirectory);
    const who = server === null ? "" : ` at ${server.url} (pid ${server.pid})`;
    throw new PawlError(
      "STORE_LOCKED",
      `Another Pawl server${who} already works on ${dataDirectory}. Use that one, or stop it first.`,
      { cause, details: { data_dir: dataDirectory, url: server?.url, pid: server?.pid } },
    );
  }
  return { release: () => database.close() };
}

function openLockFile(
  dataDirectory: string,
  warn: ((sentence: string) => void) | undefined,
): Database.Database {
  try {
    makePrivateDirectory(dataDirectory, warn);
    const path = join(dataDirectory, "server.lock");
    makePrivateFile(path);
    return new Database(path, { timeout: 0 });
  } catch (cause) {
    throw unwritable(dataDirectory, cause);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
}

function unwritable(dataDirectory: string, cause: unknown): PawlError {
  return new PawlError(
    "DATA_DIRECTORY_UNWRITABLE",
    `The data directory ${dataDirectory} cannot be made or written. ` +
      "Make it writable, or name another one with PAWL_DATA_DIR.",
    { cause, details: { data_dir: dataDirectory } },
  );
}

/** What publishing a project's definitions answers. */
export type PublishedProject = AnswerOf<"publishDefinitions">;

/** How to serve a project. */
export type ServingOptions = {
  project: ProjectFiles;
  host: string;
  port: number;
  /** Whether to run a worker beside the server. */
  worker: boolean;
  log: WorkerLogger;
  /** What the log says of tasks; nothing unless told. */
  taskLines?: TaskLines;
};

/** A server of a project, with its worker if it has one. */
export interface Serving {
  readonly file: ServerAddress;
  /** Calls the API in this process, without a token. */
  readonly client: Client;
  readonly storeDescription: string;
  /** The names of what the project's workers do. */
  readonly assets: readonly string[];
  /** How much the project defines, and what publishing it did; null without definitions. */
  readonly published: (PublishedProject & { assets: number; syncs: number }) | null;
  /** Loads the project's code anew and publishes it; what runs goes on if that fails. */
  reload(): Promise<PublishedProject>;
  /** Lets running tasks end, then the requests, then the engine. */
  stop(): Promise<void>;
}

/**
 * Serves a project until it is stopped: one server on an embedded store, with the worker in a
 * process of its own. Throws `STORE_LOCKED`, `PORT_IN_USE`, `CONFIG_INVALID` and what else keeps it
 * from starting, having taken back whatever it had begun.
 */
export async function startServing(options: ServingOptions): Promise<Serving> {
  const cleanup: Cleanup = [];
  const stop = async (): Promise<void> => {
    for (const step of cleanup.splice(0).toReversed()) await step();
  };
  try {
    return await start(options, cleanup, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  { project, host, port, worker: hasWorker, log, taskLines = "off" }: ServingOptions,
  cleanup: Cleanup,
  stop: () => Promise<void>,
): Promise<Serving> {
  const { config, dataDirectory } = project;
  const engineHost = await openServing(project, log, cleanup);
  const { client, engine, store, notifications } = engineHost;
  logTasks(engine, log, taskLines);
  const app = engineHost.createServedApp({
    required: areTokensRequired({ ...config, host }),
    // Its own commands and its worker come by the address that it listens on.
    hosts: config.hosts.length === 0 ? undefined : [...config.hosts, nameInUrl(host)],
  });
  const secret = newServerSecret();
  const served = provingApp(app, secret);
  const server = await listen({ app: served, host, port }, cleanup);
  const ownUrl = isLoopback(host) ? reachable(server, host) : null;
  notifications.start(config.public_url ?? ownUrl);

  const worker = hasWorker
    ? await forkWorker({
        configPath: project.configPath,
        logger: log,
        concurrency: config.concurrency,
        env: environmentOf(project),
      })
    : null;
  if (worker !== null) cleanup.push(() => worker.stop());
  const loaded = await loadedOf(project, worker, log);
  const published = await beginServing(engineHost, project, loaded, log);
  const specs = loaded?.specs ?? [];
  const countOf = (kind: Spec["kind"]) => specs.filter((spec) => spec.kind === kind).length;
  if (worker !== null) {
    const token = app.tokensRequired ? await workerToken(engineHost, cleanup, log) : {};
    worker.connect({ url: reachable(server, host), ...token });
  }
  const file = sayWhere(project, reachable(server, host), secret, log);
  cleanup.push(() => removeServerFile(dataDirectory, file.pid));
  return {
    file,
    client,
    storeDescription: store.description,
    assets: workNamesIn(specs),
    published:
      published === null
        ? null
        : { ...published, assets: countOf("asset"), syncs: countOf("sync") },
    async reload() {
      const again = await publish(client, await (worker?.restart() ?? loadSpecs(project, log)));
      void warnOfWebhooks(client, outletsOf(config), log);
      return again;
    },
    stop,
  };
}

/** What takes back, last first, what was begun. */
export type Cleanup = (() => Promise<void> | void)[];

/** Opens the store of a project, as its only server where it is embedded, and an engine on it. */
export async function openServing(
  project: ProjectFiles,
  log: WorkerLogger,
  cleanup: Cleanup,
): Promise<EngineHost> {
  if (project.config.database_url === null) {
    const lock = holdServerLock(project.dataDirectory, (sentence) => log.warn({}, sentence));
    cleanup.push(() => lock.release());
  }
  const host = await openEngineHost(project, log);
  cleanup.push(() => host.close());
  cleanup.push(() => host.notifications.stop());
  host.engine.onCommit((events) => {
    for (const event of events) {
      const line = splitPhaseLine(event);
      if (line !== null) log.info(line, "A split has come to another phase.");
    }
  });
  return host;
}

/** Publishes what the project defines, if anything, and lets the engine act by itself. */
export async function beginServing(
  { client, engine, notifications, sampler, ledgerWatch }: EngineHost,
  { config }: ProjectFiles,
  loaded: LoadedSpecs | null,
  log: WorkerLogger,
): Promise<PublishedProject | null> {
  // What happened until now is told as the webhooks were until now.
  await notifications.looked();
  const published = loaded === null ? null : await publishUnlessDamaged(client, loaded, log);
  void warnOfWebhooks(client, outletsOf(config), log);
  engine.start();
  sampler.start();
  ledgerWatch.start();
  return published;
}

/** Says which webhooks are never told, before there is anything to tell: names may take a while. */
async function warnOfWebhooks(client: Client, outlets: Outlets, log: WorkerLogger): Promise<void> {
  try {
    for await (const webhook of client.each("listWebhooks")) {
      const { name } = webhook;
      const fault = await webhookFault(webhook, outlets);
      if (fault !== null) log.warn({ webhook: name, code: fault.code }, fault.message);
    }
  } catch {
    // The server stops already, or cannot read its store, which others tell of.
  }
}

/** Publishes the definitions; a damaged ledger takes none, and is served for reading all the same. */
async function publishUnlessDamaged(
  client: Client,
  loaded: LoadedSpecs,
  log: WorkerLogger,
): Promise<PublishedProject | null> {
  try {
    return await publish(client, loaded);
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "LEDGER_CORRUPT") throw error;
    log.error({ reason: error.message }, "The definitions of the project were not published.");
    return null;
  }
}

/** Writes the server's file; one that cannot be written only makes the server harder to find. */
function sayWhere(
  { dataDirectory }: ProjectFiles,
  url: string,
  secret: string,
  log: WorkerLogger,
): ServerAddress {
  const file = { url, pid: process.pid, started_at: instantOf(Date.now()) };
  try {
    makePrivateDirectory(dataDirectory, (sentence) => log.warn({}, sentence));
    writeServerFile(dataDirectory, file, secret);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    log.warn({ reason }, `Commands will need --url ${url} to find this server.`);
  }
  return file;
}

async function loadedOf(
  project: ProjectFiles,
  worker: ForkedWorker | null,
  log: WorkerLogger,
): Promise<LoadedSpecs | null> {
  if (worker !== null) return worker.loaded;
  return hasDefinitions(project) ? loadSpecs(project, log) : null;
}

function nameInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** A listener on all addresses is reached on this machine by its own. */
function reachable(server: RunningServer, host: string): string {
  if (host === "0.0.0.0") return `http://127.0.0.1:${server.port}`;
  if (host === "::") return `http://[::1]:${server.port}`;
  return server.url;
}

/** How long the token of a server's own worker is good for without its server. */
const WORKER_TOKEN_MS = 10 * 60_000;

/** A token for the worker of this server, which ends with it: soon, where the server was killed. */
async function workerToken(
  { store, engine }: EngineHost,
  cleanup: Cleanup,
  log: WorkerLogger,
): Promise<{ token: string }> {
  const { token, ...made } = newToken();
  const { ws } = engine.workspace;
  const now = await store.now();
  const row = {
    ...made,
    ws,
    principal: `worker@${hostname().slice(0, 80)}`,
    verbs: ["work"],
    created_at: now,
    expires_at: addMs(now, WORKER_TOKEN_MS),
    revoked_at: null,
  };
  await store.saveToken(row);
  const renew = async (): Promise<void> => {
    const current = (await store.tokens(ws)).find(({ token_id }) => token_id === made.token_id);
    // One that somebody ended stays so.
    if (current === undefined || current.revoked_at !== null) return;
    await store.saveToken({ ...row, expires_at: addMs(await store.now(), WORKER_TOKEN_MS) });
  };
  const timer = setInterval(() => {
    renew().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      log.warn({ reason }, "The token of the worker could not be made to last; trying again.");
    });
  }, WORKER_TOKEN_MS / 10);
  cleanup.push(async () => {
    clearInterval(timer);
    await store.revokeToken(ws, made.token_id);
  });
  return { token };
}

/** Listens until what was begun is taken back. Throws PORT_IN_USE, TOKEN_REQUIRED, CONFIG_INVALID. */
export async function listen(
  options: Parameters<typeof startServer>[0],
  cleanup: Cleanup,
): Promise<RunningServer> {
  const { host, port } = options;
  try {
    const server = await startServer(options);
    cleanup.push(() => server.stop());
    return server;
  } catch (cause) {
    if (cause instanceof PawlError) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new PawlError(
      "CONFIG_INVALID",
      `The server cannot listen on ${host}:${port} (${code ?? message}). ` +
        "Choose another address with --host or --port.",
      { cause, details: { host, port } },
    );
  }
}
