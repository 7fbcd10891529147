import type { Command } from "commander";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { loadSpecs, publish } from "../load-specs.ts";
import { createLog } from "../log.ts";
import { withApi } from "../reach-api.ts";
import { print } from "../terminal.ts";

/** Adds the command that publishes a project's definitions. */
export function addDeployCommand(program: Command, cli: Cli): void {
  program
    .command("deploy")
    .description("publish this project's definitions")
    .action(
      act(async (options: GlobalOptions) => {
        const project = projectOf(cli, options);
        const log = createLog(cli.terminal, cli.env, { level: "warn", pretty: true });
        const loaded = await loadSpecs(project, log);
        await withApi(cli, options, "rows", async ({ client }) => {
          const published = await publish(client, loaded);
          const { definition_version: version } = published;
          const [changed, removed] = [published.changed.length, published.removed.length];
          print(cli.terminal, published, () => {
            const what = changed + removed === 0 ? "Nothing has changed" : "Published";
            return (
              `${what}: ${loaded.specs.length} definitions, ${changed} new or different, ` +
              `${removed} removed (version ${version}).`
            );
          });
        });
      }),
    );
}
