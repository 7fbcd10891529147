import { Command } from "commander";
import type { Cli } from "./cli.ts";
import { addAssetCommands } from "./commands/asset.ts";
import { addBackfillChangeCommands, addBackfillCreateCommands } from "./commands/backfill.ts";
import { addBackfillShowCommands } from "./commands/backfill-show.ts";
import { addConflictsCommand } from "./commands/conflicts.ts";
import { addDeployCommand, addDoctorCommand, addInitCommand } from "./commands/project.ts";
import {
  addDevCommand,
  addStartCommand,
  addTickCommand,
  addWorkerCommand,
} from "./commands/start.ts";
import { addEventsCommand } from "./commands/events.ts";
import { addLedgerCommands } from "./commands/ledger.ts";
import { addMoveChangeCommands, addMovePlanCommand, addMoveShowCommands } from "./commands/move.ts";
import { addPartitionsCommands } from "./commands/partitions.ts";
import { addRoutingCommands } from "./commands/routing.ts";
import { addRunCommands } from "./commands/run.ts";
import { addScheduleChangeCommands, addScheduleDefineCommands } from "./commands/schedule.ts";
import { addScheduleShowCommands } from "./commands/schedule-show.ts";
import { addSensorChangeCommands, addSensorDefineCommands } from "./commands/sensor.ts";
import { addSensorShowCommands } from "./commands/sensor-show.ts";
import {
  addSplitChangeCommands,
  addSplitPlanCommand,
  addSplitShowCommands,
} from "./commands/split.ts";
import { addShardCommands } from "./commands/shard.ts";
import {
  addSyncChangeCommands,
  addSyncCheckCommands,
  addSyncDefineCommands,
} from "./commands/sync.ts";
import { addSyncShowCommands } from "./commands/sync-show.ts";
import { addTokenCommands } from "./commands/token.ts";
import { addWebhookDefineCommands, addWebhookShowCommands } from "./commands/webhook.ts";
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
  addBackfillCreateCommands(backfill, cli);
  addBackfillShowCommands(backfill, cli);
  addBackfillChangeCommands(backfill, cli);
  addRunCommands(program, cli);
  const schedule = program.command("schedule").description("run assets at set times");
  addScheduleDefineCommands(schedule, cli);
  addScheduleShowCommands(schedule, cli);
  addScheduleChangeCommands(schedule, cli);
  const sensor = program.command("sensor").description("run assets when something has happened");
  addSensorDefineCommands(sensor, cli);
  addSensorShowCommands(sensor, cli);
  addSensorChangeCommands(sensor, cli);
  const webhook = program.command("webhook").description("tell others what became of the work");
  addWebhookDefineCommands(webhook, cli);
  addWebhookShowCommands(webhook, cli);
  const sync = program.command("sync").description("keep copies of numbered things complete");
  addSyncDefineCommands(sync, cli);
  addSyncShowCommands(sync, cli);
  addSyncChangeCommands(sync, cli);
  addSyncCheckCommands(sync, cli);
  const move = program.command("move").description("move rows between shards, in segments");
  addMovePlanCommand(move, cli);
  addMoveShowCommands(move, cli);
  addMoveChangeCommands(move, cli);
  const split = program.command("split").description("move tenants to a shard while they are used");
  addSplitPlanCommand(split, cli);
  addSplitShowCommands(split, cli);
  addSplitChangeCommands(split, cli);
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
