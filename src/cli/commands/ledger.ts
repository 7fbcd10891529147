import type { Command } from "commander";
import { PawlError } from "../../core/errors.ts";
import type { Store, Workspace } from "../../store/store.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { integerOption } from "../option-values.ts";
import { openProgress } from "../progress.ts";
import { type Project, requireProject } from "../project.ts";
import { runningServer } from "../server-file.ts";
import { layoutTable } from "../table.ts";
import { print } from "../terminal.ts";

/** Adds the commands that check the ledger and refold its rows, on the store itself. */
export function addLedgerCommands(program: Command, cli: Cli): void {
  program
    .command("verify")
    .description("check the hash chain, and that the rows are what the ledger says")
    .action(
      act(async (options: GlobalOptions) => {
        const project = projectOf(cli, options);
        requireProject(project);
        const { verifyLedger } = await import("../../engine/verify-ledger.ts");
        const items = await eachWorkspace(cli, project, async (store, workspace, onProgress) => {
          const { events, state_hash } = await verifyLedger(store, workspace, { onProgress });
          return { ...namesOf(workspace), events, state_hash };
        });
        print(cli.terminal, { items }, () => {
          const rows = items.map((item) => [
            `${item.tenant_id}/${item.workspace_id}`,
            String(item.events),
            item.state_hash,
          ]);
          const columns = [{ heading: "WORKSPACE" }, { heading: "EVENTS" }, { heading: "STATE" }];
          return `${layoutTable(columns, rows)}\nEverything is in order.`;
        });
      }),
    );
  program
    .command("rebuild")
    .description("throw the rows away and fold them anew from the ledger")
    .addOption(integerOption("--batch <n>", "events folded at once", 1, 100_000))
    .action(
      act(async ({ batch, ...options }: GlobalOptions & { batch?: number }) => {
        const project = projectOf(cli, options);
        requireProject(project);
        const { rebuildRows } = await import("../../engine/refold.ts");
        const release = await keepServersOut(project);
        try {
          const items = await eachWorkspace(cli, project, async (store, workspace, onProgress) => {
            const size = batch === undefined ? {} : { batch };
            const { events } = await rebuildRows(store, workspace, { ...size, onProgress });
            return { ...namesOf(workspace), events };
          });
          print(cli.terminal, { items }, () => {
            const total = items.reduce((sum, { events }) => sum + events, 0);
            return `Folded ${total} events of ${items.length} workspaces anew.`;
          });
        } finally {
          release();
        }
      }),
    );
}

function namesOf({ tenant_id, workspace_id }: Workspace) {
  return { tenant_id, workspace_id };
}

type OnProgress = (pos: number, head: number) => void;

async function eachWorkspace<Result>(
  cli: Cli,
  project: Project,
  body: (store: Store, workspace: Workspace, onProgress: OnProgress) => Promise<Result>,
): Promise<Result[]> {
  const { openStore } = await import("../open-store.ts");
  const store = await openStore(project);
  const progress = openProgress(cli.terminal, "events");
  const onProgress: OnProgress = (done, total) => {
    progress.update({ done, total, failed: 0, ratePerSecond: null, etaMs: null, note: "" });
  };
  try {
    const results: Result[] = [];
    for (const workspace of await store.workspaces()) {
      results.push(await body(store, workspace, onProgress));
    }
    return results;
  } finally {
    progress.close();
    await store.close();
  }
}

/** A server keeps rows in memory, which a rebuild would leave behind. */
async function keepServersOut(project: Project): Promise<() => void> {
  if (project.config.database_url === null) {
    const { holdServerLock } = await import("../server-lock.ts");
    const lock = holdServerLock(project.dataDirectory);
    return () => lock.release();
  }
  const server = await runningServer(project.dataDirectory);
  if (server === null) return () => undefined;
  throw new PawlError(
    "STORE_LOCKED",
    `A server of this project runs at ${server.url} (pid ${server.pid}). Stop it first.`,
    { details: { ...server } },
  );
}
