import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { MoveDetails } from "../../core/api/move-documents.ts";
import type { MoveTransition } from "../../core/api/move-operations.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { expectOption } from "../expect-option.ts";
import { given } from "../given.ts";
import { moveLines } from "../move-text.ts";
import { integerOption } from "../option-values.ts";
import { withApi } from "../reach-api.ts";
import { segmentIndexOf } from "../segment-index.ts";
import { moveRefOf } from "../short-id.ts";
import { note, print } from "../terminal.ts";
import { failureOfMove, isComplete, waitForMove } from "../wait-for-move.ts";
import { MOVE_ARGUMENT } from "./move-show.ts";

type ChangeOptions = GlobalOptions & { reason?: string; expect?: number; wait?: boolean };

type Body = { reason?: string; expected_state_version?: number };

type Change = {
  name: "start" | "pause" | "resume" | "cancel" | "verify";
  description: string;
  /** What waiting for it means; null where there is nothing to wait for. */
  wait: string | null;
  send: (client: Client, params: { move: string }, body: Body) => Promise<MoveTransition>;
};

const CHANGES: readonly Change[] = [
  {
    name: "start",
    description: "copy what was planned, and remove it from where it came from once verified",
    wait: "show it until it is complete, and fail when it cannot go on",
    send: (client, params, body) => client.call("startMove", { params, body }),
  },
  {
    name: "pause",
    description: "stop a move; its segments keep how far they got",
    wait: null,
    send: (client, params, body) => client.call("pauseMove", { params, body }),
  },
  {
    name: "resume",
    description: "let a move go on",
    wait: "show it until it is complete, and fail when it cannot go on",
    send: (client, params, body) => client.call("resumeMove", { params, body }),
  },
  {
    name: "cancel",
    description: "end a move for good; what was copied stays where it is",
    wait: null,
    send: (client, params, body) => client.call("cancelMove", { params, body }),
  },
  {
    name: "verify",
    description: "compare what was copied once more, and look where all rows are",
    wait: "wait for what it finds, and fail when something differs",
    send: (client, params, body) => client.call("verifyMove", { params, body }),
  },
];

/** Adds the commands that change moves and decide about what was set aside. */
export function addMoveChangeCommands(move: Command, cli: Cli): void {
  for (const change of CHANGES) {
    const command = changeCommand(move, change.name, change.description);
    if (change.wait !== null) command.option("--wait", change.wait);
    command.action(act((all: ChangeOptions, text: string) => carryOut(cli, all, text, change)));
  }
  addRetune(move, cli);
  addSegmentCommands(move, cli);
}

function changeCommand(move: Command, name: string, description: string): Command {
  return move
    .command(name)
    .description(description)
    .argument("<move>", MOVE_ARGUMENT)
    .option("--reason <text>", "why, for the record")
    .addOption(expectOption());
}

async function carryOut(cli: Cli, all: ChangeOptions, text: string, change: Change): Promise<void> {
  const { reason, expect, wait, ...options } = all;
  const body = given({ reason, expected_state_version: expect });
  await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
    const ref = await moveRefOf(api.client, text);
    const before = await api.client.call("getMove", { params: { move: ref } });
    const params = { move: before.move_id };
    const sent = await change.send(api.client, params, body);
    const effect = before.next.commands.find(({ command }) => command === change.name)?.effect;
    const said = `${sent.message}${effect === undefined ? "" : ` It ${effect}.`}`;
    if (wait !== true) {
      print(cli.terminal, sent, () => said);
      return;
    }
    note(cli.terminal, said);
    const isVerify = change.name === "verify";
    const document = isVerify
      ? await waitForMove(cli, api, before.move_id, isVerified(before.verifications + 1), isOver)
      : await waitForMove(cli, api, before.move_id, isComplete);
    print(cli.terminal, document, () => moveLines(cli.terminal, document).join("\n"));
    const failure = failureOfMove(document, isVerify ? isSound : isComplete);
    if (failure !== null) throw failure;
  });
}

/** Whether what was asked for by then has been compared. */
function isVerified(asked: number): (move: MoveDetails) => boolean {
  return ({ verifications, verify_waiting, check, state }) =>
    verifications >= asked &&
    verify_waiting === 0 &&
    !check.running &&
    (state !== "COMPLETE" || check.answers >= asked);
}

/** Whether nobody compares anything any more. */
function isOver({ state }: MoveDetails): boolean {
  return state === "CANCELLED";
}

/** Whether nothing that was compared differs. */
function isSound({ verify_failed, verify_waiting, check }: MoveDetails): boolean {
  return verify_failed === 0 && verify_waiting === 0 && check.ok !== false;
}

type RetuneOptions = GlobalOptions & {
  concurrency?: number;
  rowsPerSecond?: number;
  expect?: number;
};

function addRetune(move: Command, cli: Cli): void {
  move
    .command("retune")
    .description("change how many segments are copied at once, or how fast")
    .argument("<move>", MOVE_ARGUMENT)
    .addOption(integerOption("--concurrency <n>", "segments at once", 1, 64))
    .addOption(integerOption("--rows-per-second <n>", "by all workers together; 0 for no limit", 0))
    .addOption(expectOption())
    .action(
      act(async (all: RetuneOptions, text: string) => {
        const { concurrency, rowsPerSecond, expect, ...options } = all;
        const body = given({
          segment_concurrency: concurrency,
          rows_per_second: rowsPerSecond === 0 ? null : rowsPerSecond,
          expected_state_version: expect,
        });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { move: await moveRefOf(client, text) };
          const changed = await client.call("retuneMove", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
}

type SegmentOptions = GlobalOptions & { reason?: string; expect?: number };

function addSegmentCommands(move: Command, cli: Cli): void {
  changeCommand(move, "retry", "try a segment that was set aside once more, or all of them")
    .argument("[segment]", "its index, as `pawl move inspect` shows it")
    .action(
      act(async (all: SegmentOptions, text: string, index?: string) => {
        const { body, options } = bodyOf(all);
        await withApi(cli, options, "rows", async ({ client }) => {
          const ref = await moveRefOf(client, text);
          const changed =
            index === undefined
              ? await client.call("retryMove", { params: { move: ref }, body })
              : await client.call("retryMoveSegment", {
                  params: { move: ref, segment_index: segmentIndexOf(index) },
                  body,
                });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
  changeCommand(move, "recopy", "copy a segment again from its beginning")
    .argument("<segment>", "its index, as `pawl move inspect` shows it")
    .action(
      act(async (all: SegmentOptions, text: string, index: string) => {
        const { body, options } = bodyOf(all);
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = {
            move: await moveRefOf(client, text),
            segment_index: segmentIndexOf(index),
          };
          const changed = await client.call("recopyMoveSegment", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
  move
    .command("exclude")
    .description("let a segment that was set aside stay where it is, on record")
    .argument("<move>", MOVE_ARGUMENT)
    .argument("<segment>", "its index, as `pawl move inspect` shows it")
    .requiredOption("--reason <text>", "why it may stay, for the record")
    .addOption(expectOption())
    .action(
      act(async (all: SegmentOptions & { reason: string }, text: string, index: string) => {
        const { body, options } = bodyOf(all);
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = {
            move: await moveRefOf(client, text),
            segment_index: segmentIndexOf(index),
          };
          const reason = { reason: all.reason };
          const changed = await client.call("excludeMoveSegment", {
            params,
            body: { ...body, ...reason },
          });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
}

function bodyOf({ reason, expect, ...options }: SegmentOptions) {
  return { body: given({ reason, expected_state_version: expect }), options };
}
