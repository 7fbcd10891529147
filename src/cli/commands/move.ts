import type { Command } from "commander";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import {
  moveLines,
  moveSegmentsText,
  moveSegmentText,
  movesText,
  planText,
  moveLabel,
} from "../text/move.ts";
import { integerOption, statesOption } from "../base/options.ts";
import { type PageOptions, withApi, expectOption } from "../base/api.ts";
import { segmentIndexOf } from "../text/sync.ts";
import { moveRefOf, print, note, shortId } from "../base/terminal.ts";
import { failureOfMove, isComplete, waitForMove } from "../wait/move.ts";
import type { Client } from "../../client/client.ts";
import type { MoveDetails, MoveTransition, PlanMoveBody } from "../../work/move/api.ts";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { PawlError } from "../../kernel/errors.ts";

/** How a command says which move it is about. */
export const MOVE_ARGUMENT = "the move's id, its short form, or the name of its definition";

type ListOptions = PageOptions & { status?: string; name?: string };

/** Adds the commands that look at moves. */
export function addMoveShowCommands(move: Command, cli: Cli): void {
  move
    .command("list")
    .description("list moves, newest first")
    .addOption(statesOption("--status <states>", "only these, such as running,paused"))
    .option("--name <name>", "only those of this definition")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ListOptions & GlobalOptions) => {
        const { status, name, limit, cursor, ...options } = all;
        const query = given({ status, name, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listMoves", { query });
          print(cli.terminal, page, () => movesText(cli.terminal, page));
        });
      }),
    );
  move
    .command("status")
    .description("show what a move does to which rows, how far it is and what can be done next")
    .argument("<move>", MOVE_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { move: await moveRefOf(client, text) };
          const document = await client.call("getMove", { params });
          print(cli.terminal, document, () =>
            [...moveLines(cli.terminal, document), "", planText(document)].join("\n"),
          );
        });
      }),
    );
  addInspect(move, cli);
  move
    .command("watch")
    .description("show a move as it goes on, until it is complete or cannot go on by itself")
    .argument("<move>", MOVE_ARGUMENT)
    .action(
      act(async (options: GlobalOptions, text: string) => {
        await withApi(cli, options, "work", async (api) => {
          const ref = await moveRefOf(api.client, text);
          const document = await waitForMove(cli, api, ref, isComplete);
          print(cli.terminal, document, () => moveLines(cli.terminal, document).join("\n"));
          const failure = failureOfMove(document, isComplete);
          if (failure !== null) throw failure;
        });
      }),
    );
}

type InspectOptions = PageOptions & GlobalOptions & { state?: string; active?: boolean };

function addInspect(move: Command, cli: Cli): void {
  move
    .command("inspect")
    .description("list the segments of a move, or show one with its runs")
    .argument("<move>", MOVE_ARGUMENT)
    .argument("[segment]", "the index of a segment")
    .addOption(statesOption("--state <states>", "only these, such as poisoned,excluded"))
    .option("--active", "only those that are worked on")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: InspectOptions, text: string, index?: string) => {
        const { state, active, limit, cursor, ...options } = all;
        await withApi(cli, options, "rows", async ({ client }) => {
          const ref = await moveRefOf(client, text);
          if (index !== undefined) {
            const params = { move: ref, segment_index: segmentIndexOf(index) };
            const segment = await client.call("getMoveSegment", { params });
            print(cli.terminal, segment, () => moveSegmentText(cli.terminal, segment));
            return;
          }
          const isActive = active === true ? ("true" as const) : undefined;
          const query = given({ state, active: isActive, limit, cursor });
          const page = await client.call("listMoveSegments", { params: { move: ref }, query });
          print(cli.terminal, page, () => moveSegmentsText(cli.terminal, page));
        });
      }),
    );
}

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

type PlanOptions = GlobalOptions & {
  file?: string;
  dryRun?: boolean;
  wait?: boolean;
  requestId?: string;
};

/** Adds the command that plans a move. */
export function addMovePlanCommand(move: Command, cli: Cli): void {
  move
    .command("plan")
    .description("plan to move rows between shards; says which rows leave where, copies nothing")
    .argument("[name]", "the name of a move that is defined in code")
    .option("--file <plan.json>", "a plan of its own: from, to, tables, strategy and so on")
    .option("--dry-run", "only look how many rows that is, and wait for it")
    .option("--wait", "wait until it is known how many rows that is")
    .option("--request-id <text>", "a name for the request; the same name never plans a second")
    .action(act((options: PlanOptions, name?: string) => plan(cli, options, name)));
}

async function plan(cli: Cli, all: PlanOptions, name: string | undefined): Promise<void> {
  const { file, dryRun = false, wait = false, requestId, ...options } = all;
  const body = { ...wishOf(cli, name, file), dry_run: dryRun };
  const isAwaited = dryRun || wait;
  await withApi(cli, options, isAwaited ? "work" : "definitions", async (api) => {
    const planned = await api.client.call("planMove", { body, idempotencyKey: requestId });
    const { move_id: move } = planned;
    if (!isAwaited) {
      const document = await api.client.call("getMove", { params: { move } });
      const idle = api.isEmbedded
        ? "\nNo server is running; it is looked at while one does, see `pawl start`."
        : "";
      const next = `Then: pawl move start ${shortId(move)}`;
      const title = `Planned move ${moveLabel(document)}.`;
      print(cli.terminal, document, () => `${title} ${planText(document)}${idle}\n${next}`);
      return;
    }
    note(cli.terminal, planned.message);
    const isKnown: Parameters<typeof waitForMove>[3] = ({ surveyed, check }) =>
      surveyed && (!dryRun || check.ok === true);
    const document = await waitForMove(cli, api, move, isKnown);
    const title = `${dryRun ? "Looked at" : "Planned"} move ${moveLabel(document)}.`;
    print(cli.terminal, document, () => `${title} ${planText(document)}`);
    const failure = failureOfMove(document, isKnown);
    if (failure !== null) throw failure;
  });
}

function wishOf(
  cli: Cli,
  name: string | undefined,
  file: string | undefined,
): Pick<PlanMoveBody, "move" | "plan"> {
  if (file !== undefined && name === undefined) return { plan: planIn(cli, file) };
  if (file === undefined && name !== undefined) return { move: name };
  throw new PawlError(
    "INPUT_INVALID",
    "Give the name of a move that is defined in code, or --file with a plan, and not both.",
    { details: { name: name ?? null, file: file ?? null } },
  );
}

/** What is in the file; the server says what is wrong with it. */
function planIn({ cwd }: Cli, file: string): NonNullable<PlanMoveBody["plan"]> {
  try {
    return JSON.parse(readFileSync(resolve(cwd, file), "utf8")) as NonNullable<
      PlanMoveBody["plan"]
    >;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `--file: ${file} is no plan in JSON: ${why}.`, {
      details: { file },
      cause: error,
    });
  }
}
