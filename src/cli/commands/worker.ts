import { hostname } from "node:os";
import { dirname } from "node:path";
import process from "node:process";
import type { Command } from "commander";
import { ulid } from "ulid";
import { connectWorker } from "../../client/worker-connection.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { given } from "../given.ts";
import { createLog } from "../log.ts";
import { integerOption } from "../option-values.ts";
import type { Project } from "../project.ts";
import { runningServer } from "../server-file.ts";
import { print } from "../terminal.ts";

type WorkerOptions = GlobalOptions & { concurrency?: number; codeVersion?: string };

/** Adds the command that runs a worker for a server, here or elsewhere. */
export function addWorkerCommand(program: Command, cli: Cli): void {
  program
    .command("worker")
    .description("run tasks of this project for a server (--url)")
    .addOption(integerOption("--concurrency <n>", "most tasks at once (default: 8)", 1, 1_000))
    .option("--code-version <text>", "the version of the code that this worker has")
    .action(
      act(async ({ concurrency, codeVersion, ...options }: WorkerOptions) => {
        const { loadProject } = await import("../../worker/load-project.ts");
        const { runWorker } = await import("../../worker/run-worker.ts");
        const project = projectOf(cli, options, { concurrency });
        const { config } = project;
        const url = await serverUrl(project);
        const code = await loadProject(project.configPath);
        const pretty = cli.terminal.stderr.isTTY === true;
        const logger = createLog(cli.terminal, cli.env, { level: config.log_level, pretty });
        const workerId = `${hostname().slice(0, 100)}:${process.pid}:${ulid()}`;
        const connection = connectWorker(given({ url, token: config.token ?? undefined }));
        const assets = [...code.functions.keys()];
        print(cli.terminal, { url, worker_id: workerId, assets }, () => {
          return `Working for ${url}: ${assets.join(", ")}; ${config.concurrency} tasks at once.`;
        });
        try {
          await runWorker({
            connection,
            project: code,
            workerId,
            codeVersion: codeVersion ?? null,
            logger,
            signal: cli.signal,
            folder: dirname(project.configPath),
            concurrency: config.concurrency,
          });
        } finally {
          connection.close();
        }
      }),
    );
}

async function serverUrl({ config, dataDirectory }: Project): Promise<string> {
  if (config.url !== null) return config.url;
  const server = await runningServer(dataDirectory);
  if (server !== null) return server.url;
  throw new PawlError(
    "SERVER_UNREACHABLE",
    "No server runs for this project. Name one with --url, or start one with `pawl start`.",
  );
}
