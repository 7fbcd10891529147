import type { Client } from "../../client/client.ts";
import type { MoveDetails } from "../../work/move/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Cli } from "../cli.ts";
import { openLiveView } from "../base/progress.ts";
import { moveLine, moveLines } from "../text/move.ts";
import { type Api, watchApi } from "../base/api.ts";
import { shortId, note } from "../base/terminal.ts";

/** Shows a move until what was waited for is so, it has ended, or it cannot go on by itself. */
export async function waitForMove(
  cli: Cli,
  api: Api,
  move: string,
  isThere: (document: MoveDetails) => boolean,
  isStuck: (document: MoveDetails) => boolean = cannotGoOn,
): Promise<MoveDetails> {
  const view = openLiveView(cli.terminal);
  try {
    const look = (client: Client) => client.call("getMove", { params: { move } });
    return await watchApi(cli, api, look, (document) => {
      const mark = `${document.state} ${document.phase}`;
      view.show(moveLines(cli.terminal, document), moveLine(document), mark);
      return isThere(document) || isStuck(document);
    });
  } catch (error) {
    if (cli.signal.aborted) noteInterruption(cli, api, move);
    throw error;
  } finally {
    view.close();
  }
}

/** Whether a move has come to its end, or waits for somebody. */
function cannotGoOn(move: MoveDetails): boolean {
  if (move.state === "CANCELLED" || move.state === "PAUSED") return true;
  return isSetAside(move);
}

/** Whether all that is left to copy was set aside. */
function isSetAside({
  surveyed,
  segments_pending,
  segments_active,
  ...move
}: MoveDetails): boolean {
  const isIdle = segments_pending === 0 && segments_active === 0;
  return move.state === "RUNNING" && surveyed && isIdle && move.segments_poisoned > 0;
}

/** Whether a move is complete. */
export function isComplete({ state }: MoveDetails): boolean {
  return state === "COMPLETE";
}

/** Why a move that nobody waits for any more counts as failed; null when it is where it should be. */
export function failureOfMove(
  move: MoveDetails,
  isThere: (document: MoveDetails) => boolean,
): PawlError | null {
  if (isThere(move)) return null;
  const { move_id, state, reason, segments_poisoned: aside } = move;
  const why = reason === null ? "" : `: ${reason.replace(/\.$/, "")}`;
  const count = aside === 1 ? "1 segment was" : `${aside} segments were`;
  const what = isSetAside(move)
    ? `cannot go on: ${count} set aside; see \`pawl move inspect ${shortId(move_id)}\``
    : `is ${state}${why}`;
  return new PawlError("WORK_FAILED", `Move ${shortId(move_id)} ${what}.`, {
    details: { move_id, state, segments_poisoned: aside },
  });
}

function noteInterruption(cli: Cli, api: Api, move: string): void {
  const where = api.isEmbedded
    ? "What was copied is kept; it goes on when it is watched again, or with `pawl start`"
    : "The work goes on; see it again";
  note(cli.terminal, `Interrupted. ${where}: pawl move watch ${move}`);
}
