import type { Command } from "commander";
import { SplitPhaseField } from "../../work/split/events.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import { integerOption, listOption, durationOption } from "../base/options.ts";
import { type PageOptions, withApi, expectOption, type Api } from "../base/api.ts";
import { splitIdOf, print, note, shortId } from "../base/terminal.ts";
import { splitLines, splitsText, splitText, checksText, tenantsText } from "../text/split.ts";
import { failureOfSplit, isEnded, waitForSplit } from "../wait/split.ts";
import { readFileSync } from "node:fs";
import type { Client } from "../../client/client.ts";
import type { SplitDocument, SplitTransition } from "../../work/split/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { optionMissing } from "../base/project.ts";

/** How a command says which split it is about. */
export const SPLIT_ARGUMENT = "the split's id, or its short form";

const PHASES = SplitPhaseField.options;
const NAMES = PHASES.map((phase) => phase.toUpperCase());

type ListOptions = PageOptions & { phase?: string[]; source?: string; target?: string };

/** Adds the commands that look at splits. */
export function addSplitShowCommands(split: Command, cli: Cli): void {
  split
    .command("list")
    .description("list splits, newest first")
    .addOption(listOption("--phase <phases>", "only these, such as tailing,reversible", NAMES))
    .option("--source <shard>", "only those away from this one")
    .option("--target <shard>", "only those to this one")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ListOptions & GlobalOptions) => {
        const { phase, source, target, limit, cursor, ...options } = all;
        const phases = phase?.join(",").toLowerCase();
        const query = given({ phase: phases, source, target, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listSplits", { query });
          print(cli.terminal, page, () => splitsText(cli.terminal, page));
        });
      }),
    );
  split
    .command("show")
    .description("show a split with everything that is known of it, and its last steps")
    .argument("<split>", SPLIT_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { split: await splitIdOf(client, text) };
          const document = await client.call("getSplit", { params });
          const { items: steps } = await client.call("listSplitSteps", {
            params,
            query: { limit: 20 },
          });
          print(cli.terminal, { ...document, steps }, () =>
            splitText(cli.terminal, document, steps),
          );
        });
      }),
    );
  addStatus(split, cli);
  addWatch(split, cli);
}

function addStatus(split: Command, cli: Cli): void {
  split
    .command("status")
    .description("show how far a split is and what can be done next; without one, all under way")
    .argument("[split]", SPLIT_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text?: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          if (text === undefined) {
            const query = { phase: PHASES.slice(0, -2).join(","), limit: 200 };
            const page = await client.call("listSplits", { query });
            print(cli.terminal, page, () => splitsText(cli.terminal, page));
            return;
          }
          const params = { split: await splitIdOf(client, text) };
          const document = await client.call("getSplit", { params });
          print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
        });
      }),
    );
}

function addWatch(split: Command, cli: Cli): void {
  split
    .command("watch")
    .description("show a split as it goes on, until it ends or cannot go on by itself")
    .argument("<split>", SPLIT_ARGUMENT)
    .addOption(
      listOption("--until <phases>", "until it is in one of these, such as reversible", NAMES),
    )
    .action(
      act(async ({ until, ...options }: GlobalOptions & { until?: string[] }, text: string) => {
        await withApi(cli, options, "work", async (api) => {
          const id = await splitIdOf(api.client, text);
          const isThere: Parameters<typeof waitForSplit>[3] = (document) =>
            until === undefined ? isEnded(document) : until.includes(document.phase.toUpperCase());
          const document = await waitForSplit(cli, api, id, isThere);
          print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
          const failure = failureOfSplit(document, isThere);
          if (failure !== null) throw failure;
        });
      }),
    );
}

type ChangeOptions = GlobalOptions & { reason?: string; expect?: number; wait?: boolean };

type Body = { reason?: string; expected_state_version?: number };

/** A command that changes a split: what it sends, and what is so when it is done. */
type Change = {
  name: string;
  description: string;
  /** What waiting for it means; null where there is nothing to wait for. */
  wait: string | null;
  send: (client: Client, params: { split: string }, body: Body) => Promise<SplitTransition>;
  isDone: (document: SplitDocument, sent: SplitTransition) => boolean;
  /** Whether it will not be done any more; never where only the end of the split or a failure can say so. */
  isOver?: (document: SplitDocument) => boolean;
};

/** The phases of a split whose copy was caught up and verified. */
const CAUGHT_UP: ReadonlySet<string> = new Set(["cutover_pending", "reversible", "completed"]);

const CHANGES: readonly Change[] = [
  {
    name: "start-dual-write",
    description: "arm the capture of changes and the fences inside the source",
    wait: "wait until they are armed and proven",
    send: (client, params, body) => client.call("startDualWrite", { params, body }),
    isDone: ({ armed, phase }) => armed || phase === "completed",
  },
  {
    name: "run-backfill",
    description: "copy the rows of the tenants, and follow what is written from then on",
    wait: "wait until the copy is caught up and verified",
    send: (client, params, body) => client.call("runSplitBackfill", { params, body }),
    isDone: ({ phase }) => CAUGHT_UP.has(phase),
  },
  {
    name: "complete",
    description: "end the way back; rows on the source are removed after the grace time",
    wait: "wait until it is complete",
    send: (client, params, body) => client.call("completeSplit", { params, body }),
    isDone: ({ phase }) => phase === "completed",
    isOver: ({ wanted }) => wanted !== "complete",
  },
  {
    name: "rollback",
    description: "discard the copy, or after a cutover hand the tenants back to the source",
    wait: "wait until it is rolled back",
    send: (client, params, body) => client.call("rollBackSplit", { params, body }),
    isDone: ({ phase }) => phase === "rolled_back",
    // A way back that could not be had is not wanted any more, and the split as before.
    isOver: ({ wanted }) => wanted !== "rollback",
  },
  {
    name: "resume",
    description: "try a step that failed, or found something wrong, once more",
    wait: null,
    send: (client, params, body) => client.call("resumeSplit", { params, body }),
    isDone: () => true,
  },
];

/** Adds the commands that take a split from phase to phase. */
export function addSplitChangeCommands(split: Command, cli: Cli): void {
  for (const change of CHANGES) {
    const command = changeCommand(split, change.name, change.description);
    if (change.wait !== null) command.option("--wait", change.wait);
    command.action(
      act((all: ChangeOptions, text: string) =>
        carryOut(cli, all, text, change.send, change.isDone, change.name, change.isOver),
      ),
    );
  }
  addCutover(split, cli);
  changeCommand(split, "ddl", "change the schema of both shards at the same place in the stream")
    .argument("<statement>", "the statement, or @file to read it from a file")
    .option("--wait", "wait until both shards have it")
    .action(
      act((all: ChangeOptions, text: string, statement: string) => {
        const ddl = statementOf(statement);
        return carryOut(
          cli,
          all,
          text,
          (client, params, body) =>
            client.call("changeSplitSchema", { params, body: { ...body, ddl } }),
          (document, sent) => isDdlRun(document) && !hasFailedSince(document, sent),
          "ddl",
          (document) => document.wanted !== "ddl",
        );
      }),
    );
}

function changeCommand(split: Command, name: string, description: string): Command {
  return split
    .command(name)
    .description(description)
    .argument("<split>", SPLIT_ARGUMENT)
    .option("--reason <text>", "why, for the record")
    .addOption(expectOption());
}

function statementOf(text: string): string {
  if (!text.startsWith("@")) return text;
  try {
    return readFileSync(text.slice(1), "utf8").trim();
  } catch (error) {
    throw new PawlError("INPUT_INVALID", `The file ${text.slice(1)} cannot be read.`, {
      details: { file: text.slice(1) },
      cause: error,
    });
  }
}

/** Whether nobody waits for a statement any more; one that gave way to a rollback was perhaps never run. */
function isDdlRun(document: SplitDocument): boolean {
  const { wanted } = document;
  return wanted !== "ddl" && wanted !== "rollback" && !isEnded(document);
}

/** Whether an error was recorded after the change was. */
function hasFailedSince({ error_at }: SplitDocument, { accepted_at }: SplitTransition): boolean {
  return error_at !== null && error_at >= accepted_at;
}

/** Changes a split, says what that will do, and waits for it where that is wanted. */
async function carryOut(
  cli: Cli,
  all: ChangeOptions,
  text: string,
  send: Change["send"],
  isDone: Change["isDone"],
  command: string,
  isOver: (document: SplitDocument) => boolean = () => false,
): Promise<void> {
  const { reason, expect, wait, ...options } = all;
  const body = given({ reason, expected_state_version: expect });
  await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
    const split = await splitIdOf(api.client, text);
    const before = await api.client.call("getSplit", { params: { split } });
    const sent = await send(api.client, { split }, body);
    const effect = before.next.commands.find((each) => each.command === command)?.effect;
    const said = `${sent.message} ${effect === undefined ? "" : `It ${effect}.`}`.trimEnd();
    if (wait === true) {
      note(cli.terminal, said);
      await waited(cli, api, sent, (document) => isDone(document, sent), isOver);
    } else print(cli.terminal, sent, () => said);
  });
}

async function waited(
  cli: Cli,
  api: Api,
  sent: SplitTransition,
  isDone: (document: SplitDocument) => boolean,
  isOver: (document: SplitDocument) => boolean,
): Promise<void> {
  const look = (document: SplitDocument) => isDone(document) || isOver(document);
  const document = await waitForSplit(cli, api, sent.split_id, look);
  print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
  const failure = failureOfSplit(document, isDone);
  if (failure !== null) throw failure;
}

type CutoverOptions = ChangeOptions & { dryRun?: boolean };

function addCutover(split: Command, cli: Cli): void {
  changeCommand(split, "cutover", "hand the tenants over to the target, with a short write pause")
    .option("--dry-run", "only say what stands in the way, and fail when something does")
    .option("--wait", "wait until the target serves, and fail when it falls back")
    .action(
      act((all: CutoverOptions, text: string) =>
        all.dryRun === true
          ? dryRun(cli, all, text)
          : carryOut(
              cli,
              all,
              text,
              (client, params, body) => client.call("cutOverSplit", { params, body }),
              isCutOver,
              "cutover",
              // A cutover that could not be had is not wanted any more, and the split as before.
              (document) => isEnded(document) || document.wanted !== "cutover",
            ),
      ),
    );
}

/** Whether the target serves and everything about it was carried out on both shards. */
function isCutOver({ phase, wanted }: SplitDocument): boolean {
  return phase === "reversible" && wanted !== "cutover";
}

async function dryRun(cli: Cli, all: CutoverOptions, text: string): Promise<void> {
  const { reason: _reason, expect, wait: _wait, dryRun: _dryRun, ...options } = all;
  await withApi(cli, options, "rows", async ({ client }) => {
    const split = await splitIdOf(client, text);
    const body = { dry_run: true, ...given({ expected_state_version: expect }) };
    const answer = await client.call("cutOverSplit", { params: { split }, body });
    print(
      cli.terminal,
      answer,
      () => `${checksText(cli.terminal, answer.checks ?? [])}\n\n${answer.message}`,
    );
    if (answer.ready === true) return;
    throw new PawlError("STATE_ILLEGAL", answer.message, {
      details: { split_id: split, checks: answer.checks },
    });
  });
}

type PlanOptions = GlobalOptions & {
  from?: string;
  to?: string;
  description?: string;
  autoCutover?: boolean;
  lagLimit?: number;
  fenceWait?: number;
  fenceHold?: number;
  grace?: number;
  requestId?: string;
  wait?: boolean;
};

/** Adds the command that plans a split. */
export function addSplitPlanCommand(split: Command, cli: Cli): void {
  split
    .command("plan")
    .description("plan to move tenants from one shard to another while they are used")
    .argument("<tenants...>", "whose rows go")
    .option("--from <shard>", "the shard that they are on now")
    .option("--to <shard>", "the shard that they go to")
    .option("--description <text>", "what it is for")
    .option("--auto-cutover", "cut over by itself once it is caught up and verified")
    .addOption(durationOption("--lag-limit <duration>", "what counts as caught up (default: 1s)"))
    .addOption(
      durationOption(
        "--fence-wait <duration>",
        "how long a cutover waits for writes (default: 1s)",
      ),
    )
    .addOption(
      durationOption("--fence-hold <duration>", "how long it holds writes at most (default: 5s)"),
    )
    .addOption(
      durationOption("--grace <duration>", "how long rows stay on the source (default: 1d)"),
    )
    .option("--request-id <text>", "a name for the request; the same name never plans a second")
    .option("--wait", "wait until both shards are compared, and fail when they do not fit")
    .action(act((options: PlanOptions, tenants: string[]) => plan(cli, options, tenants)));
}

async function plan(cli: Cli, all: PlanOptions, tenants: string[]): Promise<void> {
  const { from, to, description, autoCutover, requestId, wait, ...rest } = all;
  const { lagLimit, fenceWait, fenceHold, grace, ...options } = rest;
  if (from === undefined) throw optionMissing("--from", "the shard that the tenants are on");
  if (to === undefined) throw optionMissing("--to", "the shard that they go to");
  const body = {
    source: from,
    target: to,
    tenants,
    ...given({
      description,
      auto_cutover: autoCutover,
      lag_limit_ms: lagLimit,
      fence_wait_ms: fenceWait,
      fence_hold_ms: fenceHold,
      grace_ms: grace,
    }),
  };
  await withApi(cli, options, wait === true ? "work" : "definitions", async (api) => {
    const planned = await api.client.call("planSplit", { body, idempotencyKey: requestId });
    const { split_id } = planned;
    const said =
      `Planned split ${split_id}: ${tenantsText(tenants)} from ${from} to ${to}. Nothing is ` +
      "changed yet; both shards are compared first.";
    if (wait !== true) {
      const idle = api.isEmbedded
        ? "\nNo server is running; they are compared while one does, see `pawl start`."
        : "";
      const next = `\nThen: pawl split start-dual-write ${shortId(split_id)}`;
      print(cli.terminal, planned, () => said + idle + next);
      return;
    }
    note(cli.terminal, said);
    const fits: Parameters<typeof waitForSplit>[3] = ({ checks }) =>
      checks?.every(({ ok }) => ok) === true;
    const document = await waitForSplit(cli, api, split_id, fits);
    print(cli.terminal, document, () => splitLines(cli.terminal, document).join("\n"));
    const failure = failureOfSplit(document, fits);
    if (failure !== null) throw failure;
  });
}
