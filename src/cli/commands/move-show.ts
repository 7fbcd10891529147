import type { Command } from "commander";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { moveLines, moveSegmentsText, moveSegmentText, movesText, planText } from "../move-text.ts";
import { integerOption, statesOption } from "../option-values.ts";
import type { PageOptions } from "../page-options.ts";
import { withApi } from "../reach-api.ts";
import { segmentIndexOf } from "../segment-index.ts";
import { moveRefOf } from "../short-id.ts";
import { print } from "../terminal.ts";
import { failureOfMove, isComplete, waitForMove } from "../wait-for-move.ts";

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
