import type { Command } from "commander";
import type { ConflictDocument } from "../../work/run/api.ts";
import { act, type Cli } from "../cli.ts";
import { relativeTime, instantOption, integerOption } from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import { layoutFields, print } from "../base/terminal.ts";
import { type Names, namesBehind, triggerDetail } from "../text/trigger.ts";

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
          const sources = page.items.flatMap(({ first, conflicting }) => [
            first.trigger_source_ref,
            conflicting.trigger_source_ref,
          ]);
          const names = cli.terminal.json ? new Map() : await namesBehind(client, sources);
          print(cli.terminal, page, () => listText(page, names, cli.terminal.now()));
        });
      }),
    );
}

function listText(
  page: { items: readonly ConflictDocument[]; next_cursor: string | null },
  names: Names,
  now: number,
): string {
  if (page.items.length === 0) return "There are no conflicts.";
  const texts = page.items.map((conflict) => conflictText(conflict, names, now));
  return texts.join("\n\n") + morePagesText(page.next_cursor);
}

function conflictText(conflict: ConflictDocument, names: Names, now: number): string {
  const side = ({ trigger_source_ref, occurred_at, pos }: ConflictDocument["first"]): string =>
    `${triggerDetail(trigger_source_ref, names)} (${relativeTime(occurred_at, now)}, pos ${pos})`;
  return layoutFields([
    ["run key", conflict.run_key],
    ["run", conflict.run_id],
    ["made by", side(conflict.first)],
    ["refused to", side(conflict.conflicting)],
    ...conflict.differences.map((field): [string, string] => [
      LABELS[field],
      field === "config"
        ? `${short(conflict.first.config)} → ${short(conflict.conflicting.config)}`
        : keysDifference(conflict.first[field], conflict.conflicting[field]),
    ]),
  ]);
}

const LABELS = {
  asset_selection: "assets",
  partition_selection: "partitions",
  config: "config",
} as const;

/** What only one of two requests names. */
function keysDifference(first: readonly string[] | null, later: readonly string[] | null): string {
  const [one, other] = [new Set(first ?? []), new Set(later ?? [])];
  const onlyFirst = [...one].filter((key) => !other.has(key));
  const onlyLater = [...other].filter((key) => !one.has(key));
  const sides = [
    ...(onlyFirst.length === 0 ? [] : [`only the first: ${listed(onlyFirst)}`]),
    ...(onlyLater.length === 0 ? [] : [`only the later: ${listed(onlyLater)}`]),
  ];
  return sides.join("; ") || "the same, in another order";
}

const KEYS_LISTED_MAX = 5;

function listed(keys: readonly string[]): string {
  const more = keys.length > KEYS_LISTED_MAX ? `, … (${keys.length})` : "";
  return keys.slice(0, KEYS_LISTED_MAX).join(", ") + more;
}

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
