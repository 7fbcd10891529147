import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { forkWorker } from "../../worker/fork-worker.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { given } from "../given.ts";
import { isIdle } from "../is-idle.ts";
import { workNamesIn } from "../load-specs.ts";
import { createLog } from "../log.ts";
import { durationOption } from "../option-values.ts";
import { areHeadsIdle, areSensorsIdle, owedHeads, owedLooks } from "../owed-looks.ts";
import { withApi } from "../reach-api.ts";
import { print } from "../terminal.ts";

/** How often to look whether there is anything left to do. */
const IDLE_POLL_MS = 200;

/** Adds the command that makes one pass of everything due, and may work for a while. */
export function addTickCommand(program: Command, cli: Cli): void {
  program
    .command("tick")
    .description("make one pass of everything that is due")
    .addOption(durationOption("--for <duration>", "work until idle, but no longer than this"))
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
  const worker = await forkWorker({ configPath, logger, concurrency: config.concurrency });
  worker.connect(given({ url, token: config.token ?? undefined }));
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
