import type { Command } from "commander";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli } from "../cli.ts";
import { createLog } from "../log.ts";
import type { Serving } from "../serving.ts";
import { note } from "../terminal.ts";
import { watchCode } from "../watch-code.ts";
import {
  addServeOptions,
  sayServing,
  servedProject,
  type StartOptions,
  untilInterrupted,
} from "./start.ts";

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
        const { startServing } = await import("../serving.ts");
        const started = startServing({ project, host, port, worker: true, log });
        // Watched from the beginning: what changes while the code is loaded is loaded again.
        const watch = watchCode(project.directory, project.dataDirectory, async (path) => {
          await reload(await started, path, log);
        });
        try {
          const serving = await started;
          sayServing(cli, project, serving, true);
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
