import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { TaskLines } from "../../server/task-lines.ts";
import { isPageBuilt } from "../../server/page-files.ts";
import { withApi } from "../base/api.ts";
import { passUntilIdle } from "../base/idle.ts";
import { createLog } from "../base/log.ts";
import { omitUndefined, option } from "../base/options.ts";
import {
  environmentOf,
  type ProjectFiles,
  requireProject,
  watchCode,
  workNamesIn,
} from "../base/project.ts";
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
  taskLines?: TaskLines;
};

const TASK_LINES = ["off", "failures", "all"] as const satisfies readonly TaskLines[];

/** Adds the command that serves a project. */
export function addStartCommand(program: Command, cli: Cli): void {
  addServeOptions(program.command("start"), "failures")
    .description("serve this project, with a worker")
    .option("--no-worker", "run no worker beside the server")
    .action(
      act(async (options: StartOptions) => {
        const { worker = true, taskLines = "failures" } = options;
        const project = servedProject(cli, options);
        const pretty = cli.terminal.stderr.isTTY === true;
        const log = createLog(cli.terminal, cli.env, { level: project.config.log_level, pretty });
        const { host, port } = project.config;
        const { startServing } = await import("../base/serving.ts");
        const serving = await startServing({ project, host, port, worker, log, taskLines });
        printServing(cli, project, serving, worker);
        await untilInterrupted(cli.signal);
        note(cli.terminal, "Stopping: running tasks may finish. Once more to stop at once.");
        await serving.stop();
      }),
    );
}

/** Adds the options that say how to serve. */
export function addServeOptions(command: Command, taskLines: TaskLines): Command {
  return command
    .addOption(option.integer("--port <n>", "the port to listen on (default: 7290)", 0, 65_535))
    .option("--host <address>", "the address to listen on (default: 127.0.0.1)")
    .addOption(option.integer("--concurrency <n>", "most tasks at once (default: 8)", 1, 1_000))
    .addOption(
      option.choice(
        "--task-lines <which>",
        `what the log says of tasks (default: ${taskLines})`,
        TASK_LINES,
      ),
    )
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
  addServeOptions(program.command("dev"), "all")
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
        const { taskLines = "all" } = options;
        const started = startServing({ project, host, port, worker: true, log, taskLines });
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
  const project = projectOf(cli, options);
  const { config, configPath } = project;
  const logger = createLog(cli.terminal, cli.env, { level: "warn", pretty: true });
  const { forkWorker } = await import("../../worker/fork-worker.ts");
  const { concurrency } = config;
  const env = environmentOf(project);
  const worker = await forkWorker({ configPath, logger, concurrency, env });
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
  const leftMs = () => (cli.signal.aborted ? 0 : deadline - cli.terminal.now());
  const { events, pos, idle } = await passUntilIdle(client, assets, leftMs);
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
            env: environmentOf(project),
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
