import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { PlanMoveBody } from "../../core/api/move-operations.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { moveLabel, planText } from "../move-text.ts";
import { withApi } from "../reach-api.ts";
import { shortId } from "../short-id.ts";
import { note, print } from "../terminal.ts";
import { failureOfMove, waitForMove } from "../wait-for-move.ts";

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
