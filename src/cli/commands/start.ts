import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { isPageBuilt } from "../../server/page-files.ts";
import type { BackfillDocument } from "../../work/backfill/documents.ts";
import type { RunDocument } from "../../work/run/api.ts";
import type { SensorDocument } from "../../work/sensor/api.ts";
import { workNameOf } from "../../work/sync/spec.ts";
import { withApi } from "../base/api.ts";
import { createLog } from "../base/log.ts";
import { omitUndefined, option } from "../base/options.ts";
import { type ProjectFiles, requireProject, watchCode, workNamesIn } from "../base/project.ts";
import { runningServer } from "../base/server-file.ts";
import type { Serving } from "../base/serving.ts";
import { layoutFields, note, paint, print } from "../base/terminal.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { packageVersion } from "../package-version.ts";

/** The options of the commands that serve. */
export type StartOptions = {
  port?: number;
  host?: string;
  worker?: boolean;
  concurrency?: number;
  unsafe?: boolean;
  webhookHosts?: string;
};

/** Adds the command that serves a project. */
export function addStartCommand(program: Command, cli: Cli): void {
  addServeOptions(program.command("start"))
    .description("serve this project, with a worker")
    .option("--no-worker", "run no worker beside the server")
    .action(
      act(async (options: StartOptions) => {
        const { worker = true } = options;
        const project = servedProject(cli, options);
        const pretty = cli.terminal.stderr.isTTY === true;
        const log = createLog(cli.terminal, cli.env, { level: project.config.log_level, pretty });
        const { host, port } = project.config;
        const { startServing } = await import("../base/serving.ts");
        const serving = await startServing({ project, host, port, worker, log });
        printServing(cli, project, serving, worker);
        await untilInterrupted(cli.signal);
        note(cli.terminal, "Stopping: running tasks may finish. Once more to stop at once.");
        await serving.stop();
      }),
    );
}

/** Adds the options that say how to serve. */
export function addServeOptions(command: Command): Command {
  return command
    .addOption(option.integer("--port <n>", "the port to listen on (default: 7290)", 0, 65_535))
    .option("--host <address>", "the address to listen on (default: 127.0.0.1)")
    .addOption(option.integer("--concurrency <n>", "most tasks at once (default: 8)", 1, 1_000))
    .option("--webhook-hosts <hosts>", "receivers of webhooks in your own network, with commas")
    .option("--unsafe", "take a PostgreSQL server that may lose acknowledged writes");
}

/** The project to serve, configured with the command's flags. Throws CONFIG_INVALID. */
export function servedProject(cli: Cli, options: StartOptions & { config?: string }): ProjectFiles {
  const { port, host, concurrency, unsafe, config } = options;
  const webhook_hosts = options.webhookHosts?.split(",").map((text) => text.trim());
  // It is a server, and talks to no other.
  const flags = { port, host, concurrency, unsafe, webhook_hosts, url: null };
  const project = projectOf(cli, { config }, flags);
  requireProject(project);
  return project;
}

/** Prints where the server is and what it serves. */
export function printServing(
  cli: Cli,
  project: ProjectFiles,
  serving: Serving,
  worker: boolean,
): void {
  const { file, published, storeDescription } = serving;
  const document = {
    ...file,
    store: storeDescription,
    definition_version: published?.definition_version ?? null,
    assets: published?.assets ?? 0,
    syncs: published?.syncs ?? 0,
    worker,
  };
  print(cli.terminal, document, () => {
    const url = paint(cli.terminal, "bold", file.url);
    const fields = layoutFields([
      ["  project", project.configPath],
      ["  assets", published === null ? "none published" : String(published.assets)],
      ...(published === null || published.syncs === 0
        ? []
        : ([["  syncs", String(published.syncs)]] as const)),
      ["  store", storeDescription],
      ["  worker", worker ? `${project.config.concurrency} tasks at once` : "none"],
      ["  page", isPageBuilt() ? file.url : "not built: `npm run build:page` does that"],
      ["  API", `${file.url}/docs`],
    ]);
    return `Pawl ${packageVersion()} listens on ${url}\n${fields}`;
  });
}

/** Resolves when the command is to end. */
export function untilInterrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    // Keeps the process up even when nothing else does.
    const keepAlive = setInterval(() => undefined, 2 ** 30);
    signal.addEventListener("abort", () => {
      clearInterval(keepAlive);
      resolve();
    });
  });
}

/** Adds the command that serves a project while it is worked on. */
export function addDevCommand(program: Command, cli: Cli): void {
  addServeOptions(program.command("dev"))
    .description("serve this project and load its code again on every change")
    .action(
      act(async (options: StartOptions) => {
        const project = servedProject(cli, options);
        const log = createLog(cli.terminal, cli.env, {
          level: project.config.log_level,
          pretty: true,
        });
        const { host, port } = project.config;
        const { startServing } = await import("../base/serving.ts");
        const started = startServing({ project, host, port, worker: true, log });
        // Watched from the beginning: what changes while the code is loaded is loaded again.
        const watch = watchCode(project.directory, project.dataDirectory, async (path) => {
          await reload(await started, path, log);
        });
        try {
          const serving = await started;
          printServing(cli, project, serving, true);
          await untilInterrupted(cli.signal);
          note(cli.terminal, "Stopping: running tasks may finish. Once more to stop at once.");
          await serving.stop();
        } finally {
          watch.close();
        }
      }),
    );
}

async function reload(
  serving: Serving,
  path: string,
  log: ReturnType<typeof createLog>,
): Promise<void> {
  try {
    const { changed, removed } = await serving.reload();
    log.info({ changed, removed }, `${path} changed: the worker was started again.`);
  } catch (error) {
    const code = error instanceof PawlError ? error.code : "INTERNAL";
    const message = error instanceof Error ? error.message : String(error);
    log.error({ code }, `${message} The code from before goes on.`);
  }
}

/** How often to look whether there is anything left to do. */
const IDLE_POLL_MS = 200;

/** Adds the command that makes one pass of everything due, and may work for a while. */
export function addTickCommand(program: Command, cli: Cli): void {
  program
    .command("tick")
    .description("make one pass of everything that is due")
    .addOption(option.duration("--for <duration>", "work until idle, but no longer than this"))
    .action(
      act(async ({ for: forMs, ...options }: { for?: number }) => {
        if (forMs === undefined) {
          await withApi(cli, options, "rows", async ({ client }) => {
            const pass = await client.call("tick");
            print(cli.terminal, pass, () => `Recorded ${pass.events} events; at ${pass.pos}.`);
          });
          return;
        }
        await withApi(cli, options, "work", async (api) => {
          const worker = api.isEmbedded ? null : await startWorker(cli, options, api.client.url);
          const assets = worker === null ? api.assets : workNamesIn(worker.loaded.specs);
          try {
            await workUntilIdle(cli, api.client, new Set(assets), forMs);
          } finally {
            await worker?.stop();
          }
        });
      }),
    );
}

/** A worker beside a server that was there already. */
async function startWorker(cli: Cli, options: GlobalOptions, url: string) {
  const { config, configPath } = projectOf(cli, options);
  const logger = createLog(cli.terminal, cli.env, { level: "warn", pretty: true });
  const { forkWorker } = await import("../../worker/fork-worker.ts");
  const worker = await forkWorker({ configPath, logger, concurrency: config.concurrency });
  worker.connect(omitUndefined({ url, token: config.token ?? undefined }));
  return worker;
}

async function workUntilIdle(
  cli: Cli,
  client: Client,
  assets: ReadonlySet<string>,
  forMs: number,
): Promise<void> {
  const deadline = cli.terminal.now() + forMs;
  const owed = await owedLooks(client);
  const pass = await client.call("tick");
  // Heads that are needed are known once everything was gone through.
  const heads = await owedHeads(client, assets);
  const isDone = async () =>
    (await areHeadsIdle(client, heads)) &&
    (await isIdle(client, assets)) &&
    (await areSensorsIdle(client, owed));
  let idle = await isDone();
  while (!idle && cli.terminal.now() < deadline && !cli.signal.aborted) {
    await sleep(Math.min(IDLE_POLL_MS, Math.max(1, deadline - cli.terminal.now())));
    // Twice: the lists are read one after the other, and work may move on between them.
    idle = (await isDone()) && (await isDone());
  }
  const { pos } = await client.call("listEvents", { query: { limit: 1 } });
  const events = pos - (pass.pos - pass.events);
  print(cli.terminal, { events, pos, idle }, () => {
    const rest = idle ? "nothing is left that could be done" : "there is more to do";
    return `Recorded ${events} events; at ${pos}; ${rest}.`;
  });
}

type WorkerOptions = GlobalOptions & { concurrency?: number; codeVersion?: string };

/** Adds the command that runs a worker for a server, here or elsewhere. */
export function addWorkerCommand(program: Command, cli: Cli): void {
  program
    .command("worker")
    .description("run tasks of this project for a server (--url)")
    .addOption(option.integer("--concurrency <n>", "most tasks at once (default: 8)", 1, 1_000))
    .option("--code-version <text>", "the version of the code that this worker has")
    .action(
      act(async ({ concurrency, codeVersion, ...options }: WorkerOptions) => {
        const { forkWorker } = await import("../../worker/fork-worker.ts");
        const project = projectOf(cli, options, { concurrency });
        const { config } = project;
        const url = await serverUrl(project);
        const pretty = cli.terminal.stderr.isTTY === true;
        const logger = createLog(cli.terminal, cli.env, { level: config.log_level, pretty });
        const refused = Promise.withResolvers<PawlError>();
        // In a process of its own: whatever the project's code does, this one can stop it, and say so.
        const worker = await forkWorker(
          omitUndefined({
            configPath: project.configPath,
            logger,
            concurrency: config.concurrency,
            codeVersion,
            refused: refused.resolve,
          }),
        );
        const { specs } = worker.loaded;
        const assets = specs.flatMap((spec) => (spec.kind === "asset" ? [spec.asset_key] : []));
        const { workerId } = worker;
        print(cli.terminal, { url, worker_id: workerId, assets }, () => {
          return `Working for ${url}: ${assets.join(", ")}; ${config.concurrency} tasks at once.`;
        });
        worker.connect(omitUndefined({ url, token: config.token ?? undefined }));
        const failure = await Promise.race([refused.promise, aborted(cli.signal)]);
        await worker.stop();
        if (failure !== null) throw failure;
      }),
    );
}

function aborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener("abort", () => resolve(null), { once: true });
  });
}

async function serverUrl({ config, dataDirectory }: ProjectFiles): Promise<string> {
  if (config.url !== null) return config.url;
  const server = await runningServer(dataDirectory);
  if (server !== null) return server.url;
  throw new PawlError(
    "SERVER_UNREACHABLE",
    "No server runs for this project. Name one with --url, or start one with `pawl start`.",
  );
}

/**
 * Whether nothing is left that could go on by itself. What waits for a person to decide, or for a
 * worker that has its function, is left too, but no amount of waiting here helps it.
 */
export async function isIdle(client: Client, ownAssets: ReadonlySet<string>): Promise<boolean> {
  /** Backfills whose active runs all wait for a worker. */
  const stuck = new Set<string>();
  const runs = client.each("listRuns", { query: { status: "PENDING,RUNNING", limit: 200 } });
  for await (const run of runs) {
    if (!(await lacksWorker(client, run, ownAssets))) return false;
    if (run.backfill_id !== null) stuck.add(run.backfill_id);
  }
  const query = { status: "PENDING,RUNNING,CANCELLING", limit: 200 };
  for await (const backfill of client.each("listBackfills", { query })) {
    if (!(await isHeldUp(client, backfill, stuck))) return false;
  }
  return true;
}

/** Whether all that is left of a run waits for a worker that has its function. */
async function lacksWorker(
  client: Client,
  run: RunDocument,
  ownAssets: ReadonlySet<string>,
): Promise<boolean> {
  if (run.tasks_running > 0 || run.tasks_retry_wait > 0 || run.tasks_ready === 0) return false;
  const ready = client.each("listTasks", {
    params: { run_id: run.run_id },
    query: { status: "READY", limit: 200 },
  });
  for await (const { lacks_worker, asset_key } of ready) {
    // A worker of this command may be about to ask for the first time.
    if (!lacks_worker || ownAssets.has(asset_key)) return false;
  }
  return true;
}

/** Whether a backfill cannot go on: for want of a worker, or until a person decides. */
async function isHeldUp(
  client: Client,
  backfill: BackfillDocument,
  stuck: ReadonlySet<string>,
): Promise<boolean> {
  switch (backfill.state) {
    case "PAUSED":
      return true;
    case "RUNNING":
    case "CANCELLING":
      return stuck.has(backfill.backfill_id);
    case "PENDING":
      break;
    default:
      return false;
  }
  const { after_backfill_id: backfill_id, continue_on_failure } = backfill;
  if (backfill_id === null) return false;
  const before = await client.call("getBackfill", { params: { backfill_id } });
  if (before.state === "SUCCEEDED") return false;
  if (before.state === "FAILED" || before.state === "CANCELLED") return !continue_on_failure;
  return isHeldUp(client, before, stuck);
}

/** The sensors or heads that should have been looked at by now, and when each was last. */
export type OwedLooks = ReadonlyMap<string, string | null>;

const ACTING = { status: "ACTIVE,ERROR", limit: 200 } as const;
const ALL = { query: { limit: 200 } } as const;

/** The poll sensors that are due: one pass owes each of them one look, however short its interval. */
export async function owedLooks(client: Client): Promise<OwedLooks> {
  const owed = new Map<string, string | null>();
  for await (const sensor of client.each("listSensors", { query: ACTING })) {
    const isDue = sensor.lag_seconds > 0 || sensor.last_looked_at === null;
    if (sensor.mode === "poll" && isDue && mayBeEvaluated(sensor)) {
      owed.set(sensor.sensor_id, sensor.last_looked_at);
    }
  }
  return owed;
}

/** Whether every sensor has had its look, and no message waits for an evaluation. */
export async function areSensorsIdle(client: Client, owed: OwedLooks): Promise<boolean> {
  for await (const sensor of client.each("listSensors", { query: ACTING })) {
    if (!mayBeEvaluated(sensor)) continue;
    // One that was pushed to and looks by itself now leaves its messages where they are.
    if (sensor.mode === "push" && sensor.messages_pending > 0) return false;
    if (owed.get(sensor.sensor_id) === sensor.last_looked_at) return false;
  }
  return true;
}

/** The heads of own syncs that are due: one pass owes each of them one look. */
export async function owedHeads(client: Client, ownWork: ReadonlySet<string>): Promise<OwedLooks> {
  const owed = new Map<string, string | null>();
  for await (const { name, source, looked_at, look_due } of client.each("listSyncSources", ALL)) {
    if (look_due && ownWork.has(workNameOf(name))) owed.set(headName(name, source), looked_at);
  }
  return owed;
}

/** Whether every head that was due has had its look. */
export async function areHeadsIdle(client: Client, owed: OwedLooks): Promise<boolean> {
  if (owed.size === 0) return true;
  for await (const { name, source, looked_at, look_due } of client.each("listSyncSources", ALL)) {
    if (look_due && owed.get(headName(name, source)) === looked_at) return false;
  }
  return true;
}

function headName(name: string, source: string): string {
  return JSON.stringify([name, source]);
}

/** Whether there is, or is about to be, somebody to evaluate it: no waiting helps the others. */
function mayBeEvaluated({ needs_function, has_worker, origin }: SensorDocument): boolean {
  return !needs_function || has_worker || origin === "code";
}
