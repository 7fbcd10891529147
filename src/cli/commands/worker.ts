import type { Command } from "commander";
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
        const { forkWorker } = await import("../../worker/fork-worker.ts");
        const project = projectOf(cli, options, { concurrency });
        const { config } = project;
        const url = await serverUrl(project);
        const pretty = cli.terminal.stderr.isTTY === true;
        const logger = createLog(cli.terminal, cli.env, { level: config.log_level, pretty });
        const refused = Promise.withResolvers<PawlError>();
        // In a process of its own: whatever the project's code does, this one can stop it, and say so.
        const worker = await forkWorker(
          given({
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
        worker.connect(given({ url, token: config.token ?? undefined }));
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

async function serverUrl({ config, dataDirectory }: Project): Promise<string> {
  if (config.url !== null) return config.url;
  const server = await runningServer(dataDirectory);
  if (server !== null) return server.url;
  throw new PawlError(
    "SERVER_UNREACHABLE",
    "No server runs for this project. Name one with --url, or start one with `pawl start`.",
  );
}
