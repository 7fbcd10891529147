import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { Store, Workspace } from "../../store/store.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { option } from "../base/options.ts";
import { openProgress } from "../base/waiting.ts";
import { type ProjectFiles, requireProject } from "../base/project.ts";
import { runningServer } from "../base/server-file.ts";
import { layoutTable, note, print } from "../base/terminal.ts";

/** The project whose store is opened itself: no server is asked. Throws CONFIG_INVALID. */
function storedProject(cli: Cli, options: GlobalOptions): ProjectFiles {
  const project = projectOf(cli, options, { url: null });
  requireProject(project);
  return project;
}

/** Adds the commands that check the ledger and refold its rows, on the store itself. */
export function addLedgerCommands(program: Command, cli: Cli): void {
  program
    .command("verify")
    .description("check the hash chain, and that the rows are what the ledger says")
    .option("--accept", "take the ledger as it stands, with its faults, and go on with it")
    .action(
      act(async ({ accept = false, ...options }: GlobalOptions & { accept?: boolean }) => {
        const project = storedProject(cli, options);
        const { verifyLedger } = await import("../../engine/ledger/verify.ts");
        const items = await eachWorkspace(cli, project, async (store, workspace, onProgress) => {
          const names = namesOf(workspace);
          try {
            const verified = await verifyLedger(store, workspace, { onProgress, accept });
            const { tables: _, ...known } = verified;
            return { ...names, ok: true, ...known, error: null };
          } catch (error) {
            // One bad workspace says nothing about the others.
            if (!isAboutOne(error)) throw error;
            const { code, message, details } = error;
            return { ...names, ok: false, error: { code, message, details } };
          }
        });
        print(cli.terminal, { items }, () => verifiedText(items));
        const failed = items.flatMap(({ error }) => (error === null ? [] : [error]));
        const [first] = failed;
        if (first === undefined) return;
        throw new PawlError(
          first.code,
          `${failed.length} of ${items.length} workspaces failed. ${first.message}`,
          { details: first.details },
        );
      }),
    );
  program
    .command("rebuild")
    .description("throw the rows away and fold them anew from the ledger")
    .addOption(option.integer("--batch <n>", "events folded at once", 1, 100_000))
    .action(
      act(async ({ batch, ...options }: GlobalOptions & { batch?: number }) => {
        const project = storedProject(cli, options);
        const { rebuildRows } = await import("../../engine/ledger/refold.ts");
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

type VerifiedItem = ReturnType<typeof namesOf> & {
  ok: boolean;
  events?: number;
  state_hash?: string;
  informational?: number;
  accepted?: number;
  rows_outdated?: boolean;
  error: { message: string } | null;
};

function verifiedText(items: readonly VerifiedItem[]): string {
  const table = layoutTable(items, [
    ["WORKSPACE", ({ tenant_id, workspace_id }) => `${tenant_id}/${workspace_id}`],
    ["EVENTS", ({ events }) => (events === undefined ? "-" : String(events))],
    ["STATE", ({ state_hash }) => state_hash ?? "FAILED"],
  ]);
  const notes = items.flatMap((item) => {
    const { tenant_id, workspace_id, informational = 0, accepted = 0, error } = item;
    const name = `${tenant_id}/${workspace_id}`;
    const faults = accepted === 1 ? "fault was" : "faults were";
    const events = informational === 1 ? "event" : "events";
    return [
      ...(error === null ? [] : [error.message]),
      ...(item.rows_outdated === true
        ? [`${name}: an older version wrote its rows; they are made anew at the next start.`]
        : []),
      ...(accepted === 0 ? [] : [`${name}: ${accepted} ${faults} accepted by somebody.`]),
      ...(informational === 0
        ? []
        : [`${name}: ${informational} informational ${events} of other versions skipped.`]),
    ];
  });
  if (items.every(({ ok }) => ok)) notes.push("Everything is in order.");
  return [table, ...notes].join("\n");
}

/** Whether a failure is about the workspace that was looked at, and not about the store. */
function isAboutOne(error: unknown): error is PawlError {
  if (!(error instanceof PawlError)) return false;
  return error.code === "LEDGER_CORRUPT" || error.code === "LEDGER_NEWER";
}

function namesOf({ tenant_id, workspace_id }: Workspace) {
  return { tenant_id, workspace_id };
}

type OnProgress = (pos: number, head: number) => void;

async function eachWorkspace<Result>(
  cli: Cli,
  project: ProjectFiles,
  body: (store: Store, workspace: Workspace, onProgress: OnProgress) => Promise<Result>,
): Promise<Result[]> {
  const { openStore } = await import("../base/engine-host.ts");
  const store = await openStore(project, (sentence) => note(cli.terminal, sentence));
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
async function keepServersOut(project: ProjectFiles): Promise<() => void> {
  if (project.config.database_url === null) {
    const { holdServerLock } = await import("../base/serving.ts");
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
