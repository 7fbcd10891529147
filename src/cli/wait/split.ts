import type { Client } from "../../client/client.ts";
import type { SplitDocument } from "../../work/split/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Cli } from "../cli.ts";
import { openLiveView } from "../base/progress.ts";
import { type Api, watchApi } from "../base/api.ts";
import { shortId, note } from "../base/terminal.ts";
import { splitLine, splitLines } from "../text/split.ts";

/** Shows a split until what was waited for is so, it has ended, or it cannot go on by itself. */
export async function waitForSplit(
  cli: Cli,
  api: Api,
  split: string,
  isThere: (document: SplitDocument) => boolean,
): Promise<SplitDocument> {
  const view = openLiveView(cli.terminal);
  try {
    const look = (client: Client) => client.call("getSplit", { params: { split } });
    return await watchApi(cli, api, look, (document) => {
      const mark = `${document.phase} ${document.step?.step ?? ""} ${document.step?.state ?? ""}`;
      view.show(splitLines(cli.terminal, document), splitLine(document), mark);
      return isThere(document) || isEnded(document) || isStuck(document);
    });
  } catch (error) {
    if (cli.signal.aborted) noteInterruption(cli, api, split);
    throw error;
  } finally {
    view.close();
  }
}

/** Whether nothing more will happen to a split, but for the removal of what is left. */
export function isEnded({ phase }: SplitDocument): boolean {
  return phase === "completed" || phase === "rolled_back";
}

/** Whether a split waits for somebody to look at what went wrong. */
function isStuck({ step, phase, checks }: SplitDocument): boolean {
  if (step?.state === "FAILED") return true;
  const isCompared = phase === "planning" && step?.state === "SUCCEEDED";
  return isCompared && checks !== null && checks.some(({ ok }) => !ok);
}

/** Why a split that nobody waits for any more counts as failed; null when it is where it should be. */
export function failureOfSplit(
  split: SplitDocument,
  isThere: (document: SplitDocument) => boolean,
): PawlError | null {
  if (isThere(split)) return null;
  const { step, phase, error_message } = split;
  const why = error_message === null ? "" : `: ${error_message.replace(/\.$/, "")}`;
  const what =
    step?.state === "FAILED"
      ? `cannot go on, because the step ${step.step} failed${why}`
      : isEnded(split)
        ? `is ${phase}`
        : `is in the phase ${phase}${why}`;
  return new PawlError(
    "WORK_FAILED",
    `Split ${shortId(split.id)} ${what}. See \`pawl split show ${shortId(split.id)}\`.`,
    { details: { split_id: split.id, phase, step: step?.step ?? null } },
  );
}

function noteInterruption(cli: Cli, api: Api, split: string): void {
  const where = api.isEmbedded
    ? "What was done is kept; it goes on when it is watched again, or with `pawl start`"
    : "The work goes on; see it again";
  note(cli.terminal, `Interrupted. ${where}: pawl split watch ${split}`);
}
