import type { IncomingMessage, ServerResponse } from "node:http";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { ulid } from "ulid";
import { passUntilIdle } from "../cli/base/idle.ts";
import { type ProjectFiles, workNamesIn } from "../cli/base/project.ts";
import { beginServing, type Cleanup, listen, openServing } from "../cli/base/serving.ts";
import type { Client } from "../client/client.ts";
import { workWithin } from "../client/worker-connection.ts";
import type { Project } from "../define/define-pawl.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import { areTokensRequired, isLoopback, loadConfig } from "../engine/config.ts";
import { stopping } from "../engine/commit-loop.ts";
import { databaseAddress } from "../kernel/database-address.ts";
import { PawlError } from "../kernel/errors.ts";
import type { App } from "../server/http/app.ts";
import { problemOf, problemResponse } from "../server/http/input-problems.ts";
import { requestListener } from "../server/start-server.ts";
import { loadProject } from "../worker/load-project.ts";
import { runWorker } from "../worker/run-worker.ts";
import { captureChildren } from "../worker/tasks/child-lines.ts";
import {
  besideTasks,
  captureConsole,
  TASK_OUTPUTS,
  type TaskOutput,
} from "../worker/tasks/console-lines.ts";

/** Where Pawl says what an operator should know; a pino logger is one. */
export interface PawlLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** How Pawl runs inside a service. */
export type PawlOptions = {
  /** What `definePawl` answered, or the path of the file that exports it. */
  project: Project | string;
  /** The folder of the embedded store, or the `postgres://` URL of a database; `.pawl` unless told. */
  store?: string;
  /** Where to listen: 0 for any free port, null for nowhere, which is so unless told. */
  port?: number | null;
  /** The address to listen on; 127.0.0.1 unless told. */
  host?: string;
  /** Tasks that run here at once; 8 unless told, 0 for a service that runs none. */
  concurrency?: number;
  /**
   * Whether `fetch`, `handle` and the port want a token; they do unless told, but for a port that only
   * this machine can reach. `client` never needs one.
   */
  tokensRequired?: boolean;
  /** Names besides the loopback ones that requests may be sent to; any where tokens are required. */
  hosts?: readonly string[];
  /** Receivers of webhooks in your own network, as `host` or `host:port`. */
  webhookHosts?: readonly string[];
  /** The SMTP server that sends e-mail, such as `smtp://user:password@host:587`; none unless told. */
  smtpUrl?: string;
  /** Whom e-mail is from, such as `Pawl <pawl@example.com>`; it goes with `smtpUrl`. */
  emailFrom?: string;
  /** How long a task may block this process before another may take it; 15 s unless told. */
  leaseMs?: number;
  /** How long running tasks may go on when Pawl is to stop; 6 s unless told. */
  stopGraceMs?: number;
  /**
   * What becomes of what tasks write on the console, and their child processes on the output of this one:
   * kept as lines of the task's log, shown, or both, which is so unless told. What the service itself
   * writes is only shown, whatever this says.
   */
  taskOutput?: TaskOutput;
  /** The version of the code that is said to have made things. */
  codeVersion?: string;
  /** Take a PostgreSQL server that may lose acknowledged writes on power failure. */
  unsafe?: boolean;
  /** Where to say what an operator should know; nowhere unless told. */
  log?: PawlLog;
};

/** Pawl inside this process. */
export type EmbeddedPawl = {
  /** Where it listens; null when it does not. */
  readonly url: string | null;
  /** Calls the API in this process, without a token. */
  readonly client: Client;
  /** Answers a request to the API or the page, as route handlers of the web do. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The same for servers of Node, and what is built on them. */
  readonly handle: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
  /**
   * Makes one pass of everything due, and works until nothing is left that could be done, but no longer
   * than this; says how many events were recorded, where the ledger ends, and whether nothing is left.
   */
  tick(options: { forMs: number }): Promise<{ events: number; pos: number; idle: boolean }>;
  /** Lets running tasks end or gives them back, then the requests, then the engine; once is enough. */
  stop(): Promise<void>;
};

const OPTIONS = [
  "project",
  "store",
  "port",
  "host",
  "concurrency",
  "tokensRequired",
  "hosts",
  "webhookHosts",
  "smtpUrl",
  "emailFrom",
  "leaseMs",
  "stopGraceMs",
  "taskOutput",
  "codeVersion",
  "unsafe",
  "log",
];

const SILENT: PawlLog = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/**
 * Starts the engine, the API and a worker inside this process. Throws `STORE_LOCKED` while another server
 * works on the same folder, `PORT_IN_USE`, `CONFIG_INVALID` and what else keeps Pawl from starting, having
 * taken back whatever it had begun.
 */
export async function startPawl(options: PawlOptions): Promise<EmbeddedPawl> {
  refuseUnknownOptions("startPawl()", options, OPTIONS);
  const cleanup: Cleanup = [];
  let stopped: Promise<void> | null = null;
  const stop = (): Promise<void> => {
    stopped ??= (async () => {
      for (const step of cleanup.splice(0).toReversed()) await step();
    })();
    return stopped;
  };
  try {
    return await start(options, cleanup, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  options: PawlOptions,
  cleanup: Cleanup,
  stop: () => Promise<void>,
): Promise<EmbeddedPawl> {
  const { port = null, codeVersion = null } = options;
  const log = besideAllTasks(options.log ?? SILENT);
  const files = filesOf(options);
  const { config } = files;
  const { concurrency = config.concurrency } = options;
  const output = taskOutputOf(options.taskOutput);
  // Before the project is loaded: its modules may take a method of the console for themselves.
  if (concurrency > 0 && output !== "show") {
    cleanup.push(captureConsole(console), captureChildren(process));
  }
  const project = await projectOf(options.project);
  const host = await openServing(files, log, cleanup);
  const app = host.createServedApp({
    required: options.tokensRequired ?? (port === null || areTokensRequired(config)),
    hosts: config.hosts.length === 0 ? undefined : [...config.hosts, config.host],
  });
  let isStopped = false;
  cleanup.push(() => {
    isStopped = true;
    app.stop();
  });
  // What outlives it, such as a route of the service, would be told of a past that nobody adds to.
  const fetch: App["fetch"] = (request, environment) =>
    isStopped
      ? problemResponse(problemOf(stopping(), "none"), {})
      : app.fetch(request, environment);
  const at = { app, host: config.host, sharesProcess: true };
  const server = port === null ? null : await listen({ ...at, port }, cleanup);
  const ownUrl = isLoopback(config.host) ? (server?.url ?? null) : null;
  host.notifications.start(config.public_url ?? ownUrl);
  await beginServing(host, files, { specs: project.specs, codeVersion }, log);
  if (concurrency > 0) {
    cleanup.push(work({ ...options, concurrency, log }, output, project, host.client));
  }
  const handle = requestListener({ fetch }, true);
  const own = new Set(concurrency > 0 ? workNamesIn(project.specs) : []);
  return {
    url: server?.url ?? null,
    client: host.client,
    fetch: async (request) => fetch(request),
    handle: (incoming, outgoing) => void handle(incoming, outgoing),
    async tick({ forMs }) {
      const deadline = performance.now() + durationOf(forMs);
      return passUntilIdle(host.client, own, () => deadline - performance.now());
    },
    stop,
  };
}

/** Works for this process until the function that it answers is called. */
function work(
  options: PawlOptions & { concurrency: number; log: PawlLog },
  output: TaskOutput,
  project: Project,
  client: Client,
): () => Promise<void> {
  const { concurrency, log, stopGraceMs, codeVersion = null } = options;
  const controller = new AbortController();
  const ended = runWorker({
    connection: workWithin(client),
    project,
    workerId: `embedded-${ulid()}`,
    codeVersion,
    logger: log,
    signal: controller.signal,
    concurrency,
    output,
    folder: typeof options.project === "string" ? dirname(resolve(options.project)) : process.cwd(),
    ...(stopGraceMs === undefined ? {} : { stopGraceMs }),
  }).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    log.error({ reason }, "The worker inside this process has ended; start Pawl again.");
  });
  return async () => {
    controller.abort();
    await ended;
  };
}

/** What Pawl says is nobody's line, also while a task is what made it say so. */
function besideAllTasks(log: PawlLog): PawlLog {
  return {
    info: (fields, message) => besideTasks(() => log.info(fields, message)),
    warn: (fields, message) => besideTasks(() => log.warn(fields, message)),
    error: (fields, message) => besideTasks(() => log.error(fields, message)),
  };
}

function taskOutputOf(given: TaskOutput = "keep-and-show"): TaskOutput {
  if (TASK_OUTPUTS.includes(given)) return given;
  throw new PawlError(
    "CONFIG_INVALID",
    `startPawl(), taskOutput: expected ${TASK_OUTPUTS.join(" or ")}, got ${JSON.stringify(given)}.`,
  );
}

async function projectOf(given: Project | string): Promise<Project> {
  if (typeof given === "string") return loadProject(given);
  const isThere = typeof given === "object" && given !== null && Array.isArray(given.specs);
  if (isThere) return given;
  throw new PawlError(
    "CONFIG_INVALID",
    "startPawl(), project: expected what definePawl() answers, or the path of a pawl.config.ts.",
  );
}

/** What the options say, in the words of the configuration. Throws CONFIG_INVALID. */
function filesOf(options: PawlOptions): ProjectFiles {
  const { store = ".pawl", concurrency } = options;
  const address = databaseAddress(store, { subject: "startPawl(): store" });
  const given = {
    ...(address.type === "postgres" ? { database_url: store } : { data_dir: store }),
    host: options.host,
    port: options.port ?? undefined,
    hosts: options.hosts,
    webhook_hosts: options.webhookHosts,
    smtp_url: options.smtpUrl,
    email_from: options.emailFrom,
    lease_ms: options.leaseMs,
    unsafe: options.unsafe,
    tokens_required: options.tokensRequired,
    concurrency: concurrency === 0 ? undefined : concurrency,
  };
  const value = Object.fromEntries(Object.entries(given).filter(([, each]) => each !== undefined));
  const directory = process.cwd();
  const config = loadConfig({ file: { name: "startPawl()", value }, env: {} });
  return {
    directory,
    configPath: typeof options.project === "string" ? resolve(options.project) : directory,
    isThere: true,
    config,
    dataDirectory: resolve(directory, config.data_dir),
    variables: {},
  };
}

function durationOf(forMs: number): number {
  if (Number.isFinite(forMs) && forMs >= 0) return forMs;
  throw new PawlError("INPUT_INVALID", `forMs: expected milliseconds from 0, got ${forMs}.`, {
    details: { for_ms: String(forMs) },
  });
}
