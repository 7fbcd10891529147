import type { Client } from "../../client/client.ts";
import type { RunDocument } from "../../work/run/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Cli } from "../cli.ts";
import { openProgress } from "../base/progress.ts";
import { type Api, watchApi } from "../base/api.ts";
import { shortId, paintState } from "../base/terminal.ts";

/** How a run ended that was waited for. */
export type WaitedRun = {
  document: RunDocument;
  /** The end in a line, for people. */
  text: string;
  /** Why the work counts as failed; null when it succeeded. */
  failure: PawlError | null;
};

/** Shows the progress of a run until it ends. Rejects when the command is interrupted. */
export async function waitForRun(cli: Cli, api: Api, run_id: string): Promise<WaitedRun> {
  const document = await watchRun(cli, api, run_id);
  const state = paintState(cli.terminal, document.state);
  return {
    document,
    text: `Run ${document.run_id} ${state}: ${tasksText(document)}.`,
    failure: document.state === "SUCCEEDED" ? null : failureOf(document),
  };
}

async function watchRun(cli: Cli, api: Api, run_id: string): Promise<RunDocument> {
  const progress = openProgress(cli.terminal, "tasks");
  try {
    const look = (client: Client) => client.call("getRun", { params: { run_id } });
    return await watchApi(cli, api, look, (document) => {
      progress.update({
        total: document.tasks_total,
        done: doneTasks(document),
        failed: document.tasks_failed,
        ratePerSecond: null,
        etaMs: null,
        note: "",
      });
      return document.finished_at !== null;
    });
  } finally {
    progress.close();
  }
}

function failureOf({ run_id, state, first_error: error }: RunDocument): PawlError {
  const first = error === null ? "" : ` The first error: ${error.message.replace(/\.$/, "")}.`;
  return new PawlError("WORK_FAILED", `Run ${shortId(run_id)} ended as ${state}.${first}`, {
    details: { run_id, state },
  });
}

/** How many tasks of a run were worked through; what was cancelled was not. */
export function doneTasks(run: RunDocument): number {
  return run.tasks_succeeded + run.tasks_failed + run.tasks_skipped;
}

/** How many tasks of a run stand where: `3 succeeded, 1 failed`. */
export function tasksText(run: RunDocument): string {
  const counts: [string, number][] = [
    ["waiting", run.tasks_waiting],
    ["ready", run.tasks_ready],
    ["running", run.tasks_running],
    ["to be tried again", run.tasks_retry_wait],
    ["succeeded", run.tasks_succeeded],
    ["failed", run.tasks_failed],
    ["cancelled", run.tasks_cancelled],
    ["skipped", run.tasks_skipped],
  ];
  const there = counts.filter(([, count]) => count > 0);
  return there.map(([name, count]) => `${count} ${name}`).join(", ") || "no tasks";
}
