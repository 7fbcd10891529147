import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { StaleReason } from "../../kernel/keyspace/selector.ts";
import { STALE_TICK_LIMIT_MAX } from "../../work/definition/spec.ts";
import type { PartInput } from "../../work/operations.ts";
import { type ScheduleTransition, UpdateScheduleBody } from "../../work/schedule/api.ts";
import type { Cli } from "../cli.ts";
import { idleText } from "../base/api.ts";
import {
  type FlagValues,
  keysOf,
  omitUndefined,
  option,
  PAGE,
  REASON,
  relativeTime,
  VERSION,
} from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import {
  addSubcommands,
  changedDefinition,
  changedText,
  enabledOf,
  messageText,
  namedSubject,
  operation,
  optional,
  orNull,
  outcomeOf,
  partsOf,
  subcommand,
} from "../base/subcommands.ts";
import { note, paintState, type Terminal } from "../base/terminal.ts";
import { schedulesText, scheduleText, ticksText, timesText } from "../text/schedule.ts";
import { waitForBackfills } from "./backfill.ts";
import { watchRun } from "./run.ts";

const SCHEDULE = namedSubject("schedule", "schedule_id", (client) =>
  client.each("listSchedules", { query: { limit: 200, status: "ACTIVE,PAUSED,DELETED" } }),
);

const DEFINITION = {
  cron: option.text(
    "--cron <expression>",
    'when, such as "0 3 * * *" or @hourly; with six fields to the second',
  ),
  timezone: option.text("--timezone <zone>", "the time zone of the cron expression (default: UTC)"),
  asset: option.repeated("--asset <key>", "an asset to run; may be repeated"),
  partition: option.text(
    "--partition <which>",
    "by the tick's time: current, previous, or so many before, such as -7",
  ),
  partitions: option.text(
    "--partitions <keys>",
    "always these partition keys, separated by commas",
  ),
  selection: option.choice(
    "--selection <what>",
    "everything of them, or what is stale at the time",
    ["whole", "all", "stale"],
  ),
  reason: option.list("--reason <reasons>", "only what is stale for these", StaleReason.options),
  limit: option.integer(
    "--limit <n>",
    "of what is stale, how many at once",
    1,
    STALE_TICK_LIMIT_MAX,
  ),
  overlap: option.choice("--overlap <policy>", "while the last run is going (default: allow)", [
    "allow",
    "skip",
    "buffer_one",
  ]),
  catchupWindowMinutes: option.integer(
    "--catchup-window-minutes <n>",
    "how old a missed time may be (default: 1440)",
    0,
    5_256_000,
  ),
  maxCatchupTicks: option.integer(
    "--max-catchup-ticks <n>",
    "how many missed times are caught up (default: 3)",
    0,
    100,
  ),
  catchUpOnResume: option.switch("--catch-up-on-resume", "catch up what a pause missed, too"),
  noCatchUpOnResume: option.switch("--no-catch-up-on-resume", "skip what a pause missed"),
  jitter: option.duration("--jitter <duration>", "put all its times off by a part of this"),
  startsAt: option.text("--starts-at <time>", "no times before this; none for no bound"),
  endsAt: option.text("--ends-at <time>", "no times from this on; none for no bound"),
  disabled: option.switch("--disabled", "do not let it act"),
  runConfig: option.json("--run-config <json>", "what the tasks see as their config"),
  label: option.labels("--label <key=value>", "a label; may be repeated, and replaces all"),
  priority: option.integer("--priority <n>", "higher goes first (default: 0)", -100, 100),
  description: option.text("--description <text>", "what it is for"),
};

/** The flags that define a schedule. */
export type ScheduleFlags = FlagValues<typeof DEFINITION> & { enabled?: boolean };

type Definition = Omit<PartInput<"updateSchedule", "body">, "name" | "expected_state_version">;

/** What the flags say of a schedule's definition; what no flag names is left out. */
export function definitionOfFlags(flags: ScheduleFlags): Partial<Definition> {
  return omitUndefined({
    cron: flags.cron,
    timezone: flags.timezone,
    asset_selection: flags.asset === undefined ? undefined : partsOf(flags.asset),
    selection: selectionOf(flags),
    overlap: flags.overlap,
    catchup_window_minutes: flags.catchupWindowMinutes,
    max_catchup_ticks: flags.maxCatchupTicks,
    catch_up_on_resume: flags.catchUpOnResume,
    jitter_ms: flags.jitter,
    starts_at: orNull(flags.startsAt),
    ends_at: orNull(flags.endsAt),
    enabled: enabledOf(flags),
    config: flags.runConfig?.value,
    labels: flags.label,
    priority: flags.priority,
    description: flags.description,
  });
}

function selectionOf(flags: ScheduleFlags): Definition["selection"] {
  const { partition, partitions, selection, reason: reasons, limit } = flags;
  const ways = [
    ...(partition === undefined ? [] : ["--partition"]),
    ...(partitions === undefined ? [] : ["--partitions"]),
    ...(selection === undefined ? [] : ["--selection"]),
  ];
  if (ways.length > 1) {
    throw new PawlError(
      "INPUT_INVALID",
      `Which partitions: expected one of --partition, --partitions and --selection, got ` +
        `${ways.join(" together with ")}.`,
    );
  }
  if (selection === "stale") return { type: "stale", ...omitUndefined({ limit, reasons }) };
  if (reasons !== undefined || limit !== undefined) {
    throw new PawlError(
      "INPUT_INVALID",
      `${reasons === undefined ? "--limit" : "--reason"}: expected only together with ` +
        "--selection stale.",
    );
  }
  if (selection !== undefined) return { type: selection };
  if (partitions !== undefined) return { type: "explicit", partition_keys: keysOf(partitions) };
  return partition === undefined ? undefined : { type: "tick_time", offset: offsetOf(partition) };
}

function offsetOf(partition: string): number {
  if (partition === "current") return 0;
  if (partition === "previous") return -1;
  const offset = /^-\d{1,5}$/.test(partition) ? Number(partition) : Number.NaN;
  if (offset >= -10_000) return offset;
  throw new PawlError(
    "INPUT_INVALID",
    "--partition: expected current, previous, or how many before the current one such as -7, got " +
      `${JSON.stringify(partition)}.`,
  );
}

/** When a schedule ticks next, as a sentence. */
async function nextText(terminal: Terminal, client: Client, schedule_id: string): Promise<string> {
  const params = { schedule_id };
  const { state } = await client.call("getSchedule", { params });
  if (state !== "ACTIVE") return `It is ${state}: \`pawl schedule resume\` lets it act.`;
  const { items, timezone } = await client.call("listNextTimes", { params, query: { count: 1 } });
  const [next] = items;
  if (next === undefined) return "It has no time to come.";
  const at = next.local_time.replace("T", " ");
  return `Next: ${at} ${timezone} (${relativeTime(next.due_at, terminal.now())}).`;
}

const CHANGE = { reason: REASON, expected_state_version: VERSION };

/** The state that a change has left a schedule in. */
function stateText(terminal: Terminal, changed: ScheduleTransition): string {
  const state = paintState(terminal, changed.state);
  return `Schedule ${changed.name} is ${state} (version ${changed.state_version}).`;
}

/** What most changes have in common. */
const CHANGED = { about: SCHEDULE, flags: CHANGE, text: stateText };

const SCHEDULES = {
  create: subcommand({
    description: "create a schedule",
    argument: ["<name>", "what to call it"],
    flags: {
      ...DEFINITION,
      requestId: option.requestId("never creates a second"),
    },
    need: "definitions",
    prepare({ argument: name, flags }) {
      const { cron, asset_selection, ...rest } = definitionOfFlags(flags);
      if (cron === undefined) throw optionMissing("--cron", 'when it ticks, such as "0 3 * * *"');
      if (asset_selection === undefined) {
        throw optionMissing("--asset", "at least one asset to run");
      }
      return { name, cron, asset_selection, ...rest };
    },
    async run({ terminal, api, client, argument: name, prepared: body, flags: { requestId } }) {
      const created = await client.call("createSchedule", { body, idempotencyKey: requestId });
      const { schedule_id } = created;
      const next = await nextText(terminal, client, schedule_id);
      const idle = idleText(api, "it ticks");
      return outcomeOf(created, () => `Created schedule ${name} (${schedule_id}). ${next}${idle}`);
    },
  }),
  update: subcommand({
    description: "change a schedule; what no option names stays as it is",
    about: SCHEDULE,
    flags: {
      ...DEFINITION,
      enabled: option.switch("--enabled", "let it act again"),
      expected_state_version: VERSION,
    },
    need: "definitions",
    async run({ terminal, client, ref: schedule_id, flags }) {
      const params = { schedule_id };
      const current = await client.call("getSchedule", { params });
      const body = changedDefinition<Definition>({
        current,
        body: UpdateScheduleBody,
        changes: definitionOfFlags(flags),
        example: "--cron",
        expectedStateVersion: flags.expected_state_version,
      });
      const changed = await client.call("updateSchedule", { params, body });
      const next = await nextText(terminal, client, changed.schedule_id);
      return outcomeOf(changed, () => `${changedText("Schedule", changed)} ${next}`);
    },
  }),
  delete: operation("deleteSchedule", {
    description: "delete a schedule; what it did stays on record",
    about: SCHEDULE,
    flags: { expected_state_version: VERSION },
    text: messageText,
  }),
  list: operation("listSchedules", {
    description: "list schedules by name",
    flags: {
      status: option.states("--status <states>", "only these, such as paused or deleted"),
      asset: option.text("--asset <key>", "only those that run this asset"),
      ...PAGE,
    },
    text: schedulesText,
  }),
  show: subcommand({
    description: "show a schedule, its last ticks and its next",
    about: SCHEDULE,
    async run({ terminal, client, ref: schedule_id }) {
      const params = { schedule_id };
      const document = await client.call("getSchedule", { params });
      const count = { count: 3 };
      const { items: next } = await client.call("listNextTimes", { params, query: count });
      const { items: ticks } = await client.call("listTicks", { params, query: { limit: 10 } });
      return outcomeOf({ ...document, next, ticks }, () =>
        scheduleText(terminal, document, next, ticks),
      );
    },
  }),
  ticks: operation("listTicks", {
    description: "list what became of a schedule's times, newest first",
    about: SCHEDULE,
    flags: {
      status: option.smallStates("--status <states>", "only triggered, skipped, failed"),
      reason: option.smallStates(
        "--reason <reasons>",
        "only those skipped for these, such as overlap",
      ),
      since: option.instant("--since <time>", "only times since"),
      until: option.instant("--until <time>", "only times before"),
      manual: option.query("--manual", "only those triggered by hand"),
      ...PAGE,
    },
    text: ticksText,
  }),
  next: subcommand({
    description: "list the times to come of a schedule, or of any cron expression",
    about: optional(SCHEDULE),
    flags: {
      cron: option.text("--cron <expression>", "instead of a schedule"),
      timezone: option.text("--timezone <zone>", "the time zone of that (default: UTC)"),
      count: option.integer("--count <n>", "how many (default: 10)", 1, 1_000),
      after: option.text("--after <time>", "only times after this (default: now)"),
    },
    prepare({ subject, flags: { cron } }) {
      if ((subject === undefined) !== (cron === undefined)) return;
      throw new PawlError("INPUT_INVALID", "Expected a schedule, or --cron; one of them.");
    },
    async run({ terminal, client, ref: schedule_id = "", flags: { cron, timezone, ...query } }) {
      const next =
        cron === undefined
          ? await client.call("listNextTimes", { params: { schedule_id }, query })
          : await client.call("previewTimes", {
              body: omitUndefined({ cron, timezone, ...query }),
            });
      return outcomeOf(next, () =>
        next.items.length === 0
          ? "There are no times to come."
          : timesText(next.items, next.timezone, terminal.now()),
      );
    },
  }),
  pause: operation("pauseSchedule", {
    ...CHANGED,
    description: "stop a schedule; what it triggered goes on",
  }),
  resume: operation("resumeSchedule", {
    ...CHANGED,
    description: "let a schedule act again",
  }),
  trigger: subcommand({
    description: "tick a schedule now, also while it is paused",
    about: SCHEDULE,
    flags: {
      requestId: option.requestId("never ticks twice"),
      wait: option.wait("show progress until what it triggered ends, and fail when it failed"),
    },
    need: "definitions",
    async run({ cli, api, client, subject: name, ref: schedule_id, flags: { requestId, wait } }) {
      const params = { schedule_id };
      const triggered = await client.call("triggerSchedule", { params, idempotencyKey: requestId });
      const { run_id, backfill_id } = triggered;
      const asked = run_id === null ? `backfill ${backfill_id}` : `run ${run_id}`;
      const said = `Schedule ${name} triggered ${asked}.`;
      if (wait !== true) return outcomeOf(triggered, () => said);
      note(cli.terminal, said);
      if (run_id === null) {
        const ids = await withFollowers(client, backfill_id ?? "");
        const { documents, text, failure } = await waitForBackfills(cli, api, ids);
        return outcomeOf({ ...triggered, results: documents }, () => text, failure);
      }
      return watchRun(cli, api, run_id, triggered);
    },
  }),
};

/** Adds the commands about schedules. */
export function addScheduleCommands(schedule: Command, cli: Cli): void {
  addSubcommands(schedule, cli, SCHEDULES);
}

/** A backfill and those that follow it: what crosses definitions is several of them. */
async function withFollowers(client: Client, backfillId: string): Promise<string[]> {
  const ids = [backfillId];
  for (const backfill_id of ids) {
    const { followers } = await client.call("getBackfill", { params: { backfill_id } });
    ids.push(...followers);
  }
  return ids;
}
