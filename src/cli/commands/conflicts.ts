import type { Command } from "commander";
import type { ConflictDocument } from "../../core/api/run-documents.ts";
import { act, type Cli } from "../cli.ts";
import { relativeTime } from "../duration.ts";
import { given } from "../given.ts";
import { instantOption, integerOption } from "../option-values.ts";
import { morePagesText, type PageOptions } from "../page-options.ts";
import { withApi } from "../reach-api.ts";
import { shortId } from "../short-id.ts";
import { layoutTable } from "../table.ts";
import { print } from "../terminal.ts";

type ConflictsOptions = PageOptions & { since?: string; until?: string };

/** Adds the command that lists run key conflicts. */
export function addConflictsCommand(program: Command, cli: Cli): void {
  program
    .command("conflicts")
    .description("list requests that used a run key of another request")
    .addOption(instantOption("--since <time>", "only those found since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only those found before", cli.terminal.now))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ limit, cursor, since, until, ...options }: ConflictsOptions) => {
        const query = given({ limit, cursor, since, until });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listConflicts", { query });
          print(cli.terminal, page, () => listText(page, cli.terminal.now()));
        });
      }),
    );
}

function listText(
  page: { items: readonly ConflictDocument[]; next_cursor: string | null },
  now: number,
): string {
  if (page.items.length === 0) return "There are no conflicts.";
  const table = layoutTable(
    [
      { heading: "POS", align: "right" },
      { heading: "RUN KEY" },
      { heading: "RUN" },
      { heading: "DIFFERS IN" },
      { heading: "DETECTED" },
    ],
    page.items.map((conflict) => [
      String(conflict.pos),
      conflict.run_key,
      shortId(conflict.run_id),
      conflict.differences.map((field) => differenceText(conflict, field)).join("; "),
      relativeTime(conflict.detected_at, now),
    ]),
  );
  return table + morePagesText(page.next_cursor);
}

function differenceText(
  { first, conflicting }: ConflictDocument,
  field: ConflictDocument["differences"][number],
): string {
  return `${field}: ${short(first[field])} → ${short(conflicting[field])}`;
}

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
