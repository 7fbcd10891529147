import { readFileSync } from "node:fs";
import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { SplitDocument } from "../../core/api/split-documents.ts";
import type { SplitTransition } from "../../core/api/split-operations.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { expectOption } from "../expect-option.ts";
import { given } from "../given.ts";
import { type Api, withApi } from "../reach-api.ts";
import { splitIdOf } from "../short-id.ts";
import { checksText, splitLines } from "../split-text.ts";
import { note, print } from "../terminal.ts";
import { failureOfSplit, isEnded, waitForSplit } from "../wait-for-split.ts";
import { SPLIT_ARGUMENT } from "./split-show.ts";

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
