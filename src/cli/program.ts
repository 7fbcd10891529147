import { Command } from "commander";
import type { Cli } from "./cli.ts";
import { addAssetCommands } from "./commands/asset.ts";
import { addBackfillCommands } from "./commands/backfill.ts";
import { addDeployCommand, addDoctorCommand, addInitCommand } from "./commands/project.ts";
import {
  addDevCommand,
  addStartCommand,
  addTickCommand,
  addWorkerCommand,
} from "./commands/start.ts";
import { addEventsCommand } from "./commands/events.ts";
import { addLedgerCommands } from "./commands/ledger.ts";
import { addMoveCommands } from "./commands/move.ts";
import { addPartitionsCommands } from "./commands/partitions.ts";
import { addRoutingCommands } from "./commands/routing.ts";
import { addConflictsCommand, addRunCommands } from "./commands/run.ts";
import { addScheduleCommands } from "./commands/schedule.ts";
import { addSensorCommands } from "./commands/sensor.ts";
import { addSplitCommands } from "./commands/split.ts";
import { addShardCommands } from "./commands/shard.ts";
import { addSyncCommands } from "./commands/sync.ts";
import { addTokenCommands } from "./commands/token.ts";
import { addWebhookCommands } from "./commands/webhook.ts";
import { packageVersion } from "./package-version.ts";

/** A program whose complaints are thrown, to be reported in one place. */
export function newProgram({ terminal }: Cli, name: string): Command {
  return new Command(name)
    .configureOutput({
      outputError: () => undefined,
      writeOut: (text) => terminal.stdout.write(text),
      writeErr: (text) => terminal.stderr.write(text),
    })
    .exitOverride();
}

/**
 * Everything that `pawl` can do. Most commands only talk to a server: what serves, works or opens a
 * store is imported by those that do, when they run, and the others start twice as fast.
 */
export function buildProgram(cli: Cli): Command {
  const program = newProgram(cli, "pawl");
  program
    .description("Durable backfills: plan long data work, run it in chunks, survive anything.")
    .version(packageVersion())
    .option("--json", "write one JSON document for machines")
    .option("--url <url>", "the server to talk to, instead of the one of this project")
    .option("--token-file <file>", "the file with the token for that server (or PAWL_TOKEN)")
    .option("--token <token>", "the token itself, which other users of this machine can see")
    .option("--config <file>", "the project's pawl.config.ts, instead of the nearest one")
    .configureHelp({ showGlobalOptions: true });

  program.commandsGroup("Project:");
  addInitCommand(program, cli);
  addDevCommand(program, cli);
  addStartCommand(program, cli);
  addWorkerCommand(program, cli);
  addDeployCommand(program, cli);
  addTickCommand(program, cli);
  addShardCommands(program, cli);

  program.commandsGroup("Work:");
  const backfill = program.command("backfill").description("fill partitions of assets");
  addBackfillCommands(backfill, cli);
  addRunCommands(program, cli);
  const schedule = program.command("schedule").description("run assets at set times");
  addScheduleCommands(schedule, cli);
  const sensor = program.command("sensor").description("run assets when something has happened");
  addSensorCommands(sensor, cli);
  const webhook = program.command("webhook").description("tell others what became of the work");
  addWebhookCommands(webhook, cli);
  const sync = program.command("sync").description("keep copies of numbered things complete");
  addSyncCommands(sync, cli);
  const move = program.command("move").description("move rows between shards, in segments");
  addMoveCommands(move, cli);
  const split = program.command("split").description("move tenants to a shard while they are used");
  addSplitCommands(split, cli);
  addRoutingCommands(program, cli);
  addAssetCommands(program, cli);
  addPartitionsCommands(program, cli);

  program.commandsGroup("Record and upkeep:");
  addEventsCommand(program, cli);
  addConflictsCommand(program, cli);
  addTokenCommands(program, cli);
  addDoctorCommand(program, cli);
  addLedgerCommands(program, cli);
  return program;
}
