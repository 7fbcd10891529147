import type { Command } from "commander";
import type { NextTimeDocument, ScheduleDocument, TickDocument } from "../../work/schedule/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import {
  formatDuration,
  relativeTime,
  instantOption,
  integerOption,
  statesOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import { askedFor, catchUpText, selectionText, tickNote, utcText } from "../text/schedule.ts";
import {
  scheduleRefOf,
  shortId,
  layoutFields,
  layoutTable,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";

/** Adds the commands that look at schedules. */
export function addScheduleShowCommands(schedule: Command, cli: Cli): void {
  addList(schedule, cli);
  schedule
    .command("show")
    .description("show a schedule, its last ticks and its next")
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .action(
      act(async (options: object, name: string) => {
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { schedule_id: await scheduleRefOf(client, name) };
          const document = await client.call("getSchedule", { params });
          const { items: next } = await client.call("listNextTimes", {
            params,
            query: { count: 3 },
          });
          const { items: ticks } = await client.call("listTicks", { params, query: { limit: 10 } });
          print(cli.terminal, { ...document, next, ticks }, () =>
            showText(cli.terminal, document, next, ticks),
          );
        });
      }),
    );
  addTicks(schedule, cli);
  addNext(schedule, cli);
}

type ListOptions = PageOptions & { status?: string; asset?: string };

function addList(schedule: Command, cli: Cli): void {
  schedule
    .command("list")
    .description("list schedules by name")
    .addOption(statesOption("--status <states>", "only these, such as paused or deleted"))
    .option("--asset <key>", "only those that run this asset")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ status, asset, limit, cursor, ...options }: ListOptions) => {
        const query = given({ status, asset, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listSchedules", { query });
          print(cli.terminal, page, () => listText(cli.terminal, page));
        });
      }),
    );
}

type TicksOptions = PageOptions & {
  status?: string;
  reason?: string;
  since?: string;
  until?: string;
  manual?: boolean;
};

function addTicks(schedule: Command, cli: Cli): void {
  schedule
    .command("ticks")
    .description("list what became of a schedule's times, newest first")
    .argument("<schedule>", "the schedule's name, its id, or the short form of that")
    .addOption(statesOption("--status <states>", "only triggered, skipped, failed"))
    .addOption(statesOption("--reason <reasons>", "only those skipped for these, such as overlap"))
    .addOption(instantOption("--since <time>", "only times since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only times before", cli.terminal.now))
    .option("--manual", "only those asked for by hand")
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: TicksOptions & GlobalOptions, name: string) => {
        const { status, reason, since, until, manual, limit, cursor, ...options } = all;
        const query = given({
          status: status?.toLowerCase(),
          reason: reason?.toLowerCase(),
          since,
          until,
          manual: manual === true ? ("true" as const) : undefined,
          limit,
          cursor,
        });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { schedule_id: await scheduleRefOf(client, name) };
          const page = await client.call("listTicks", { params, query });
          print(cli.terminal, page, () => {
            if (page.items.length === 0) return "There are no such ticks.";
            return ticksText(cli.terminal, page.items) + morePagesText(page.next_cursor);
          });
        });
      }),
    );
}

type NextOptions = { count?: number; after?: string; cron?: string; timezone?: string };

function addNext(schedule: Command, cli: Cli): void {
  schedule
    .command("next")
    .description("list the times to come of a schedule, or of any cron expression")
    .argument("[schedule]", "the schedule's name, its id, or the short form of that")
    .option("--cron <expression>", "instead of a schedule")
    .option("--timezone <zone>", "the time zone of that (default: UTC)")
    .addOption(integerOption("--count <n>", "how many (default: 10)", 1, 1_000))
    .option("--after <time>", "only times after this (default: now)")
    .action(
      act(async (all: NextOptions & GlobalOptions, name?: string) => {
        const { count, after, cron, timezone, ...options } = all;
        if ((name === undefined) === (cron === undefined)) {
          throw new PawlError("INPUT_INVALID", "Expected a schedule, or --cron; one of them.");
        }
        await withApi(cli, options, "rows", async ({ client }) => {
          const next =
            cron === undefined
              ? await client.call("listNextTimes", {
                  params: { schedule_id: await scheduleRefOf(client, name ?? "") },
                  query: given({ count, after }),
                })
              : await client.call("previewTimes", {
                  body: given({ cron, timezone, count, after }),
                });
          print(cli.terminal, next, () => {
            if (next.items.length === 0) return "There are no times to come.";
            return nextText(next.items, next.timezone, cli.terminal.now());
          });
        });
      }),
    );
}

function listText(
  terminal: Terminal,
  page: { items: readonly ScheduleDocument[]; next_cursor: string | null },
): string {
  const more = morePagesText(page.next_cursor);
  if (page.items.length === 0)
    return `There are no such schedules; \`pawl schedule create\` makes one.${more}`;
  const now = terminal.now();
  const table = layoutTable(
    [
      { heading: "NAME" },
      { heading: "STATE" },
      { heading: "CRON" },
      { heading: "TIMEZONE" },
      { heading: "ASSETS" },
      { heading: "NEXT" },
      { heading: "LAST" },
      { heading: "LAST RUN" },
      { heading: "ID" },
    ],
    page.items.map((schedule) => [
      schedule.name,
      paintState(terminal, schedule.state),
      schedule.cron,
      schedule.timezone,
      assetsText(schedule.asset_selection),
      relativeTime(schedule.next_due_at, now),
      relativeTime(schedule.last_scheduled_for, now),
      lastState(terminal, schedule),
      shortId(schedule.schedule_id),
    ]),
  );
  return table + more;
}

function assetsText(keys: readonly string[]): string {
  return keys.length <= 2 ? keys.join(", ") : `${keys[0]}, … (${keys.length})`;
}

function lastState(terminal: Terminal, schedule: ScheduleDocument): string {
  const state = schedule.last_run_state ?? schedule.last_backfill_state;
  return state === null ? "-" : paintState(terminal, state);
}

function showText(
  terminal: Terminal,
  schedule: ScheduleDocument,
  next: readonly NextTimeDocument[],
  ticks: readonly TickDocument[],
): string {
  const now = terminal.now();
  const { reason, description, waiting_for: waiting, jitter_ms: jitter } = schedule;
  const { starts_at, ends_at, labels } = schedule;
  const fields: [string, string | null][] = [
    ["schedule", schedule.name],
    ["id", schedule.schedule_id],
    ["state", `${paintState(terminal, schedule.state)} (version ${schedule.state_version})`],
    ["reason", reason],
    ["description", description ?? null],
    ["cron", `${schedule.cron} (${schedule.timezone})`],
    ["from", starts_at === null ? null : utcText(starts_at)],
    ["until", ends_at === null ? null : utcText(ends_at)],
    ["assets", `${schedule.asset_selection.join(", ")}: ${selectionText(schedule)}`],
    ["overlap", schedule.overlap],
    ["catches up", catchUpText(schedule)],
    ["jitter", jitter === 0 ? null : `up to ${formatDuration(jitter)}`],
    [
      "labels",
      Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(", ") || null,
    ],
    ["defined by", schedule.origin === "code" ? "code" : "the API"],
    ["created", relativeTime(schedule.created_at, now)],
    ["ticks", countsText(schedule)],
    ["going", schedule.active_runs === 0 ? null : `${schedule.active_runs} of its runs`],
    ["waits", waiting === null ? null : `${utcText(waiting)} until its run ends`],
  ];
  const told = fields.flatMap(([name, text]): [string, string][] =>
    text === null ? [] : [[name, text]],
  );
  const isActive = schedule.state === "ACTIVE" && next.length > 0;
  return [
    layoutFields(told),
    ...(isActive ? [nextText(next, schedule.timezone, now)] : []),
    ...(ticks.length === 0 ? [] : [ticksText(terminal, ticks)]),
  ].join("\n\n");
}

function countsText(schedule: ScheduleDocument): string {
  const { ticks_triggered, ticks_skipped, ticks_failed } = schedule;
  return `${ticks_triggered} triggered, ${ticks_skipped} skipped, ${ticks_failed} failed`;
}

function ticksText(terminal: Terminal, ticks: readonly TickDocument[]): string {
  return layoutTable(
    [
      { heading: "SCHEDULED FOR" },
      { heading: "STATUS" },
      { heading: "ASKED FOR" },
      { heading: "ITS STATE" },
      { heading: "DECIDED" },
      { heading: "NOTE" },
    ],
    ticks.map((tick) => {
      const { id, state } = askedFor(tick);
      const many = tick.count === 1 ? "" : ` … ${utcText(tick.through)} (${tick.count} times)`;
      return [
        utcText(tick.scheduled_for) + many,
        paintState(terminal, tick.status),
        id,
        state === "" ? "-" : paintState(terminal, state),
        relativeTime(tick.decided_at, terminal.now()),
        tickNote(tick),
      ];
    }),
  );
}

const CHANGES = {
  gap: "the clock jumps over it; comes right after",
  overlap: "the clock shows this time twice",
} as const;

function nextText(times: readonly NextTimeDocument[], timezone: string, now: number): string {
  const isUtc = timezone === "UTC";
  const local = [{ heading: timezone }, { heading: "OFFSET" }];
  return layoutTable(
    [{ heading: "NEXT" }, ...(isUtc ? [] : local), { heading: "UTC" }, { heading: "NOTE" }],
    times.map((time) => [
      relativeTime(time.due_at, now),
      ...(isUtc ? [] : [time.local_time.replace("T", " "), time.utc_offset]),
      utcText(time.scheduled_for),
      nextNote(time),
    ]),
  );
}

function nextNote({ change, due_at, scheduled_for }: NextTimeDocument): string {
  const jitter = due_at === scheduled_for ? [] : [`with jitter at ${due_at.slice(11, 19)}Z`];
  return [...(change === null ? [] : [CHANGES[change]]), ...jitter].join("; ");
}
