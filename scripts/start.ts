/**
 * `npm start`: serves the example in `examples/sales`, fills its partitions while showing how far it
 * is, says what came out, and goes on serving. `npm start -- --port 8000` listens elsewhere.
 *
 * What it keeps lies in `examples/sales/.pawl`, so a second start has nothing left to fill.
 */
import { fileURLToPath } from "node:url";
import { PawlError } from "../src/kernel/errors.ts";
import { act, type Cli } from "../src/cli/cli.ts";
import { waitForBackfills } from "../src/cli/commands/backfill.ts";
import {
  addServeOptions,
  printServing,
  servedProject,
  type StartOptions,
  untilInterrupted,
} from "../src/cli/commands/start.ts";
import { createLog } from "../src/cli/base/log.ts";
import { newProgram } from "../src/cli/program.ts";
import { runCommand } from "../src/cli/base/run-command.ts";
import { type Serving, startServing } from "../src/cli/base/serving.ts";
import { shortId } from "../src/cli/base/api.ts";
import { layoutTable, note } from "../src/cli/base/terminal.ts";
import { sizeText } from "../src/cli/text/backfill.ts";
import { buildPage } from "./build-page.ts";

const CONFIG = "examples/sales/pawl.config.ts";
const EXAMPLE = fileURLToPath(new URL(`../${CONFIG}`, import.meta.url));

await runCommand(process.argv.slice(2), (cli) =>
  addServeOptions(newProgram(cli, "npm start --"), "off")
    .description("serve the example project and fill its partitions")
    .action(act((options: StartOptions) => start(cli, options))),
);

async function start(cli: Cli, options: StartOptions): Promise<void> {
  await buildPage();
  const project = servedProject(cli, { ...options, config: EXAMPLE });
  const log = createLog(cli.terminal, cli.env, { level: project.config.log_level, pretty: true });
  const { host, port } = project.config;
  const { taskLines = "off" } = options;
  const serving = await startServing({ project, host, port, worker: true, log, taskLines });
  try {
    printServing(cli, project, serving, true);
    say(cli, "");
    await fill(cli, serving);
    await summarize(cli, serving);
    say(cli, `\nServing ${serving.file.url} until you press Ctrl-C.`);
    await untilInterrupted(cli.signal);
    note(cli.terminal, "Stopping: running tasks may finish. Once more to stop at once.");
  } catch (error) {
    // Interrupted while it was filling: what is finished is kept, and the next start goes on.
    if (!cli.signal.aborted) throw error;
  } finally {
    await serving.stop();
  }
}

/** Fills everything at the first start; later ones end what an earlier one left unfinished. */
async function fill(cli: Cli, serving: Serving): Promise<void> {
  const { client } = serving;
  const { items: known } = await client.call("listBackfills");
  const unfinished = known.filter(({ finished_at }) => finished_at === null);
  if (unfinished.length > 0) {
    say(cli, "An earlier start left work unfinished; it goes on.");
    await wait(cli, serving, unfinished.map(({ backfill_id }) => backfill_id).toReversed());
  } else if (known.length > 0) {
    say(cli, "An earlier start has filled the partitions.");
  } else {
    await fillEverything(cli, serving);
  }
}

async function fillEverything(cli: Cli, serving: Serving): Promise<void> {
  const { client } = serving;
  const { items: assets } = await client.call("listAssets");
  const { backfills } = await client.call("createBackfill", {
    body: {
      assets: assets.map(({ asset_key }) => asset_key),
      selector: { type: "all" },
      max_concurrent_runs: 4,
      continue_on_failure: true,
    },
  });
  for (const made of backfills) {
    say(cli, `Filling ${made.asset_selection.join(" and ")}: ${sizeText(made)}.`);
  }
  const ids = backfills.map(({ backfill_id }) => backfill_id);
  await wait(cli, serving, ids);
}

async function wait(cli: Cli, serving: Serving, ids: readonly string[]): Promise<void> {
  const api = {
    client: serving.client,
    isEmbedded: true,
    reopen: () => Promise.reject(new PawlError("INTERNAL", "The server is in this process.")),
  };
  const { text } = await waitForBackfills(cli, api, ids);
  say(cli, text);
}

async function summarize(cli: Cli, { client }: Serving): Promise<void> {
  const filled: { key: string; description: string; materialized: number; total: number }[] = [];
  for await (const { asset_key: key, spec } of client.each("listAssets")) {
    const params = { asset_key: key };
    const { materialized, total } = await client.call("summarizePartitions", { params });
    filled.push({ key, description: spec.description ?? "", materialized, total });
  }
  const table = layoutTable(filled, [
    ["ASSET", ({ key }) => key],
    ["WHAT IT IS", ({ description }) => description],
    ["FILLED", ({ materialized }) => String(materialized), "right"],
    ["OF", ({ total }) => String(total), "right"],
  ]);
  say(cli, `\n${table}`);
  await explainFailures(cli, client);
}

/** A partition that failed is the example's to show: what is wrong, and how to fill just that one. */
async function explainFailures(cli: Cli, client: Serving["client"]): Promise<void> {
  const { items } = await client.call("listBackfills");
  const retried = new Set(items.map(({ parent_backfill_id }) => parent_backfill_id));
  const failed = items.filter(
    ({ state, backfill_id }) => state === "FAILED" && !retried.has(backfill_id),
  );
  for (const { backfill_id, partitions_failed, first_error } of failed.toReversed()) {
    say(cli, `\nFailed partitions: ${partitions_failed}. ${first_error?.message ?? ""}`);
    say(
      cli,
      `  node bin/pawl --config ${CONFIG} backfill retry-failed ${shortId(backfill_id)} --wait`,
    );
  }
}

function say({ terminal }: Cli, text: string): void {
  terminal.stdout.write(`${text}\n`);
}
