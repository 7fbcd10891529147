import { Command } from "commander";
import type { Cli } from "./cli.ts";
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

type Add = (parent: Command, cli: Cli) => Promise<void>;

/** Commands as `pawl --help` lists them, and what adds them with all that they take and do. */
type Listed = { readonly lines: Readonly<Record<string, string>>; readonly add: Add };

/**
 * Everything that `pawl` can do. A command's file, and all that it imports, is loaded when the command
 * line names the command: most of the time that a short command takes goes to loading.
 */
const COMMANDS: Readonly<Record<string, readonly Listed[]>> = {
  "Project:": [
    command(
      "init [options] [directory]",
      "make a new project that runs at once",
      async (program, cli) => {
        const { addInitCommand } = await import("./commands/project.ts");
        addInitCommand(program, cli);
      },
    ),
    command(
      "dev [options]",
      "serve this project and load its code again on every change",
      async (program, cli) => {
        const { addDevCommand } = await import("./commands/start.ts");
        addDevCommand(program, cli);
      },
    ),
    command("start [options]", "serve this project, with a worker", async (program, cli) => {
      const { addStartCommand } = await import("./commands/start.ts");
      addStartCommand(program, cli);
    }),
    command(
      "worker [options]",
      "run tasks of this project for a server (--url)",
      async (program, cli) => {
        const { addWorkerCommand } = await import("./commands/start.ts");
        addWorkerCommand(program, cli);
      },
    ),
    command("deploy", "publish this project's definitions", async (program, cli) => {
      const { addDeployCommand } = await import("./commands/project.ts");
      addDeployCommand(program, cli);
    }),
    command("tick [options]", "make one pass of everything that is due", async (program, cli) => {
      const { addTickCommand } = await import("./commands/start.ts");
      addTickCommand(program, cli);
    }),
    command("shard", "serve SQLite files as shards", async (program, cli) => {
      const { addShardCommands } = await import("./commands/shard.ts");
      addShardCommands(program, cli);
    }),
  ],
  "Work:": [
    commandGroup("backfill", "fill partitions of assets", async (backfill, cli) => {
      const { addBackfillCommands } = await import("./commands/backfill.ts");
      addBackfillCommands(backfill, cli);
    }),
    command("run", "run assets once", async (program, cli) => {
      const { addRunCommands } = await import("./commands/run.ts");
      addRunCommands(program, cli);
    }),
    command(
      "logs [options] <what> [part]",
      "show what tasks of a run, a partition or a backfill logged",
      async (program, cli) => {
        const { addLogsCommand } = await import("./commands/logs.ts");
        addLogsCommand(program, cli);
      },
    ),
    commandGroup("schedule", "run assets at set times", async (schedule, cli) => {
      const { addScheduleCommands } = await import("./commands/schedule.ts");
      addScheduleCommands(schedule, cli);
    }),
    commandGroup("sensor", "run assets when something has happened", async (sensor, cli) => {
      const { addSensorCommands } = await import("./commands/sensor.ts");
      addSensorCommands(sensor, cli);
    }),
    commandGroup("webhook", "notify others of what became of the work", async (webhook, cli) => {
      const { addWebhookCommands } = await import("./commands/webhook.ts");
      addWebhookCommands(webhook, cli);
    }),
    commandGroup("sync", "keep copies of numbered things complete", async (sync, cli) => {
      const { addSyncCommands } = await import("./commands/sync.ts");
      addSyncCommands(sync, cli);
    }),
    commandGroup("move", "move rows between shards, in segments", async (move, cli) => {
      const { addMoveCommands } = await import("./commands/move.ts");
      addMoveCommands(move, cli);
    }),
    commandGroup("split", "move tenants to a shard while they are used", async (split, cli) => {
      const { addSplitCommands } = await import("./commands/split.ts");
      addSplitCommands(split, cli);
    }),
    command("routing", "which tenant is on which shard", async (program, cli) => {
      const { addRoutingCommands } = await import("./commands/routing.ts");
      addRoutingCommands(program, cli);
    }),
    command("asset", "look at published assets", async (program, cli) => {
      const { addAssetCommands } = await import("./commands/asset.ts");
      addAssetCommands(program, cli);
    }),
    command("partitions", "look at partitions of assets", async (program, cli) => {
      const { addPartitionsCommands } = await import("./commands/asset.ts");
      addPartitionsCommands(program, cli);
    }),
  ],
  "Record and upkeep:": [
    command(
      "events [options]",
      "show the newest events of the ledger, oldest first",
      async (program, cli) => {
        const { addEventsCommand } = await import("./commands/events.ts");
        addEventsCommand(program, cli);
      },
    ),
    command(
      "conflicts [options]",
      "list requests that used a run key of another request",
      async (program, cli) => {
        const { addConflictsCommand } = await import("./commands/run.ts");
        addConflictsCommand(program, cli);
      },
    ),
    command("token", "manage access tokens", async (program, cli) => {
      const { addTokenCommands } = await import("./commands/token.ts");
      addTokenCommands(program, cli);
    }),
    command("doctor", "look for what would keep Pawl from working here", async (program, cli) => {
      const { addDoctorCommand } = await import("./commands/project.ts");
      addDoctorCommand(program, cli);
    }),
    {
      lines: {
        "verify [options]": "check the hash chain, and that the rows are what the ledger says",
        "rebuild [options]": "throw the rows away and fold them anew from the ledger",
      },
      add: async (program, cli) => {
        const { addLedgerCommands } = await import("./commands/ledger.ts");
        addLedgerCommands(program, cli);
      },
    },
  ],
};

/** A command that its file adds by itself, with the line of `pawl --help` that comes of it. */
function command(line: string, description: string, add: Add): Listed {
  return { lines: { [line]: description }, add };
}

/** A command that several functions add commands to. */
function commandGroup(name: string, description: string, add: Add): Listed {
  return {
    lines: { [name]: description },
    add: (program, cli) => add(program.command(name).description(description), cli),
  };
}

/** The program for these arguments, and with all of every command when there are none. */
export async function buildProgram(cli: Cli, args?: readonly string[]): Promise<Command> {
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

  for (const [heading, listed] of Object.entries(COMMANDS)) {
    program.commandsGroup(heading);
    for (const { lines, add } of listed) {
      // A name may stand there as a value only; then a file too many is loaded.
      const isNamed = Object.keys(lines).some((line) => args?.includes(nameOf(line)) ?? true);
      if (isNamed) await add(program, cli);
      else
        for (const [line, text] of Object.entries(lines)) program.command(line).description(text);
    }
  }
  // Whoever names another command does without the kinds that have theirs from what they are.
  if (!program.commands.some((each) => args?.includes(each.name()))) await addKinds(program, cli);
  return program;
}

async function addKinds(program: Command, cli: Cli): Promise<void> {
  const { SHOWN_KINDS } = await import("../work/kinds.ts");
  if (SHOWN_KINDS.length === 0) return;
  const { addKindCommands } = await import("./commands/work.ts");
  program.commandsGroup("Work:");
  for (const kind of SHOWN_KINDS) addKindCommands(program.command(kind.name), cli, kind);
}

function nameOf(line: string): string {
  return line.split(" ")[0] ?? line;
}
