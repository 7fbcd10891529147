import type { Command } from "commander";
import { isPageBuilt } from "../../server/page-files.ts";
import { act, type Cli, projectOf } from "../cli.ts";
import { createLog } from "../log.ts";
import { integerOption } from "../option-values.ts";
import { packageVersion } from "../package-version.ts";
import { type Project, requireProject } from "../project.ts";
import type { Serving } from "../serving.ts";
import { layoutFields } from "../table.ts";
import { note, paint, print } from "../terminal.ts";

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
        const { startServing } = await import("../serving.ts");
        const serving = await startServing({ project, host, port, worker, log });
        sayServing(cli, project, serving, worker);
        await untilInterrupted(cli.signal);
        note(cli.terminal, "Stopping: running tasks may finish. Once more to stop at once.");
        await serving.stop();
      }),
    );
}

/** Adds the options that say how to serve. */
export function addServeOptions(command: Command): Command {
  return command
    .addOption(integerOption("--port <n>", "the port to listen on (default: 7290)", 0, 65_535))
    .option("--host <address>", "the address to listen on (default: 127.0.0.1)")
    .addOption(integerOption("--concurrency <n>", "most tasks at once (default: 8)", 1, 1_000))
    .option("--webhook-hosts <hosts>", "receivers of webhooks in your own network, with commas")
    .option("--unsafe", "take a PostgreSQL server that may lose acknowledged writes");
}

/** The project to serve, configured with the command's flags. Throws CONFIG_INVALID. */
export function servedProject(cli: Cli, options: StartOptions & { config?: string }): Project {
  const { port, host, concurrency, unsafe, config } = options;
  const webhook_hosts = options.webhookHosts?.split(",").map((text) => text.trim());
  // It is a server, and talks to no other.
  const flags = { port, host, concurrency, unsafe, webhook_hosts, url: null };
  const project = projectOf(cli, { config }, flags);
  requireProject(project);
  return project;
}

/** Says where the server is and what it serves. */
export function sayServing(cli: Cli, project: Project, serving: Serving, worker: boolean): void {
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
