import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import type { SplitDocument, SplitTransition } from "../../work/split/api.ts";
import { SplitPhaseField } from "../../work/split/events.ts";
import type { Cli } from "../cli.ts";
import { fullId, idleText, shortId } from "../base/api.ts";
import { option, PAGE, REASON, VERSION } from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import {
  addSubcommands,
  operation,
  optional,
  send,
  outcomeOf,
  subcommand,
  type CommandSubject,
} from "../base/subcommands.ts";
import { note } from "../base/terminal.ts";
import { changeLive, liveChange, type LiveKind, type Wait, waitLive } from "../base/waiting.ts";
import {
  checksText,
  splitLine,
  splitLines,
  splitsText,
  splitText,
  tenantsText,
} from "../text/split.ts";

const SPLIT: CommandSubject = {
  noun: "split",
  description: "the split's id, or its short form",
  param: "split",
  find: (client, text) => {
    const newest = client.each("listSplits", { query: { limit: 200 } });
    return fullId(text, newest, ({ split_id }) => split_id);
  },
};

type SplitChange =
  | "startDualWrite"
  | "runSplitBackfill"
  | "completeSplit"
  | "rollBackSplit"
  | "resumeSplit"
  | "cutOverSplit"
  | "changeSplitSchema";

const LIVE: LiveKind<SplitDocument, SplitChange, SplitTransition> = {
  subject: SPLIT,
  idOf: ({ id }) => id,
  kept: "What was done is kept",
  look: (client, split) => client.call("getSplit", { params: { split } }),
  lines: splitLines,
  line: splitLine,
  mark: ({ phase, step }) => `${phase} ${step?.step ?? ""} ${step?.state ?? ""}`,
  isStuck,
  failureOf,
  change: (client, name, split, body) => send(client, name, { params: { split }, body }),
};

/** Whether nothing more will happen to a split, but for the removal of what is left. */
function isEnded({ phase }: SplitDocument): boolean {
  return phase === "completed" || phase === "rolled_back";
}

/** Whether a split has ended, or waits for somebody to see what went wrong. */
function isStuck(split: SplitDocument): boolean {
  const { step, phase, checks } = split;
  if (isEnded(split) || step?.state === "FAILED") return true;
  const isCompared = phase === "planning" && step?.state === "SUCCEEDED";
  return isCompared && checks !== null && checks.some(({ ok }) => !ok);
}

function failureOf(split: SplitDocument): PawlError {
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

const PHASES = SplitPhaseField.options;
const PHASE_NAMES = PHASES.map((phase) => phase.toUpperCase());

/** The phases of a split whose copy was caught up and verified. */
const CAUGHT_UP: ReadonlySet<string> = new Set(["cutover_pending", "reversible", "completed"]);

const CHANGE = { reason: REASON, expected_state_version: VERSION };

/** Whether a wish is not wanted any more: one that could not be had leaves the split as before. */
function isDropped(wish: SplitDocument["wanted"]): (split: SplitDocument) => boolean {
  return (split) => split.wanted !== wish || isStuck(split);
}

const SPLITS = {
  plan: subcommand({
    description: "plan to move tenants from one shard to another while they are used",
    argument: ["<tenants...>", "whose rows go"],
    flags: {
      from: option.text("--from <shard>", "the shard that they are on now"),
      to: option.text("--to <shard>", "the shard that they go to"),
      description: option.text("--description <text>", "what it is for"),
      auto_cutover: option.switch(
        "--auto-cutover",
        "cut over by itself once it is caught up and verified",
      ),
      lag_limit_ms: option.duration(
        "--lag-limit <duration>",
        "what counts as caught up (default: 1s)",
      ),
      fence_wait_ms: option.duration(
        "--fence-wait <duration>",
        "how long a cutover waits for writes (default: 1s)",
      ),
      fence_hold_ms: option.duration(
        "--fence-hold <duration>",
        "how long it holds writes at most (default: 5s)",
      ),
      grace_ms: option.duration(
        "--grace <duration>",
        "how long rows stay on the source (default: 1d)",
      ),
      requestId: option.requestId("never plans a second"),
      wait: option.wait("wait until both shards are compared, and fail when they do not fit"),
    },
    need: "definitions",
    prepare({ argument: tenants, fields: { from, to, ...rest } }) {
      if (from === undefined) throw optionMissing("--from", "the shard that the tenants are on");
      if (to === undefined) throw optionMissing("--to", "the shard that they go to");
      return { source: from, target: to, tenants, ...rest };
    },
    async run({ cli, api, client, prepared: body, flags: { requestId, wait } }) {
      const planned = await client.call("planSplit", { body, idempotencyKey: requestId });
      const { split_id } = planned;
      const { tenants, source, target } = body;
      const said =
        `Planned split ${split_id}: ${tenantsText(tenants)} from ${source} to ${target}. Nothing ` +
        "is changed yet; both shards are compared first.";
      if (wait !== true) {
        const idle = idleText(api, "they are compared");
        const next = `\nThen: pawl split start-dual-write ${shortId(split_id)}`;
        return outcomeOf(planned, () => said + idle + next);
      }
      note(cli.terminal, said);
      return waitLive(cli, api, LIVE, split_id, {
        isDone: ({ checks }) => checks?.every(({ ok }) => ok) === true,
      });
    },
  }),
  list: operation("listSplits", {
    description: "list splits, newest first",
    flags: {
      phase: option.list("--phase <phases>", "only these, such as tailing,reversible", PHASE_NAMES),
      source: option.text("--source <shard>", "only those away from this one"),
      target: option.text("--target <shard>", "only those to this one"),
      ...PAGE,
    },
    fields: ({ flags: { phase, ...query } }) =>
      phase === undefined ? query : { ...query, phase: phase.join(",").toLowerCase() },
    text: splitsText,
  }),
  show: subcommand({
    description: "show a split with everything that is known of it, and its last steps",
    about: SPLIT,
    async run({ terminal, client, ref: split }) {
      const params = { split };
      const document = await client.call("getSplit", { params });
      const query = { limit: 20 };
      const { items: steps } = await client.call("listSplitSteps", { params, query });
      return outcomeOf({ ...document, steps }, () => splitText(terminal, document, steps));
    },
  }),
  status: subcommand({
    description: "show how far a split is and what can be done next; without one, all under way",
    about: optional(SPLIT),
    async run({ terminal, client, ref: split }) {
      if (split === undefined) {
        const query = { phase: PHASES.slice(0, -2).join(","), limit: 200 };
        const page = await client.call("listSplits", { query });
        return outcomeOf(page, () => splitsText(terminal, page));
      }
      const document = await client.call("getSplit", { params: { split } });
      return outcomeOf(document, () => splitLines(terminal, document).join("\n"));
    },
  }),
  watch: subcommand({
    description: "show a split as it goes on, until it ends or cannot go on by itself",
    about: SPLIT,
    flags: {
      until: option.list(
        "--until <phases>",
        "until it is in one of these, such as reversible",
        PHASE_NAMES,
      ),
    },
    need: "work",
    run: ({ cli, api, ref, flags: { until } }) =>
      waitLive(cli, api, LIVE, ref, {
        isDone: (split) =>
          until === undefined ? isEnded(split) : until.includes(split.phase.toUpperCase()),
      }),
  }),
  "start-dual-write": liveChange(LIVE, "startDualWrite", {
    description: "arm the capture of changes and the fences inside the source",
    wait: "wait until they are armed and proven",
    waitFor: { isDone: ({ armed, phase }) => armed || phase === "completed" },
  }),
  "run-backfill": liveChange(LIVE, "runSplitBackfill", {
    description: "copy the rows of the tenants, and follow what is written from then on",
    wait: "wait until the copy is caught up and verified",
    waitFor: { isDone: ({ phase }) => CAUGHT_UP.has(phase) },
  }),
  complete: liveChange(LIVE, "completeSplit", {
    description: "end the way back; rows on the source are removed after the grace time",
    wait: "wait until it is complete",
    waitFor: { isDone: ({ phase }) => phase === "completed", isStuck: isDropped("complete") },
  }),
  rollback: liveChange(LIVE, "rollBackSplit", {
    description: "discard the copy, or after a cutover hand the tenants back to the source",
    wait: "wait until it is rolled back",
    waitFor: { isDone: ({ phase }) => phase === "rolled_back", isStuck: isDropped("rollback") },
  }),
  resume: liveChange(LIVE, "resumeSplit", {
    description: "try a step that failed, or found something wrong, once more",
  }),
  cutover: subcommand({
    description: "hand the tenants over to the target, with a short write pause",
    about: SPLIT,
    flags: {
      ...CHANGE,
      dryRun: option.switch(
        "--dry-run",
        "only say what stands in the way, and fail when something does",
      ),
      wait: option.wait("wait until the target serves, and fail when it falls back"),
    },
    need: ({ dryRun, wait }) => (wait === true && dryRun !== true ? "work" : "rows"),
    async run(call) {
      const { dryRun, reason: _reason, ...expected } = call.fields;
      if (dryRun !== true) {
        return changeLive(call, LIVE, "cutOverSplit", call.fields, () => CUT_OVER);
      }
      const { terminal, client, ref: split } = call;
      const body = { dry_run: true, ...expected };
      const answer = await client.call("cutOverSplit", { params: { split }, body });
      const { ready, checks, message } = answer;
      return {
        document: answer,
        text: () => `${checksText(terminal, checks ?? [])}\n\n${message}`,
        failure:
          ready === true
            ? null
            : new PawlError("STATE_ILLEGAL", message, { details: { split_id: split, checks } }),
      };
    },
  }),
  ddl: subcommand({
    description: "change the schema of both shards at the same place in the stream",
    about: SPLIT,
    argument: ["<statement>", "the statement, or @file to read it from a file"],
    flags: { ...CHANGE, wait: option.wait("wait until both shards have it") },
    prepare: ({ argument }) => statementOf(argument),
    run: (call) =>
      changeLive(
        call,
        LIVE,
        "changeSplitSchema",
        { ...call.fields, ddl: call.prepared },
        (sent) => ({
          isDone: (split) => isDdlRun(split) && !hasFailedSince(split, sent),
          isStuck: isDropped("ddl"),
        }),
      ),
  }),
};

/** Adds the commands about splits. */
export function addSplitCommands(split: Command, cli: Cli): void {
  addSubcommands(split, cli, SPLITS);
}

/** Until the target serves and everything about it was carried out on both shards. */
const CUT_OVER: Wait<SplitDocument> = {
  isDone: ({ phase, wanted }) => phase === "reversible" && wanted !== "cutover",
  isStuck: isDropped("cutover"),
};

function statementOf(text: string): string {
  if (!text.startsWith("@")) return text;
  try {
    return readFileSync(text.slice(1), "utf8").trim();
  } catch (error) {
    throw new PawlError("INPUT_INVALID", `The file ${text.slice(1)} cannot be read.`, {
      details: { file: text.slice(1) },
      cause: error,
    });
  }
}

/** Whether nobody waits for a statement any more; one that gave way to a rollback was perhaps never run. */
function isDdlRun(split: SplitDocument): boolean {
  const { wanted } = split;
  return wanted !== "ddl" && wanted !== "rollback" && !isEnded(split);
}

/** Whether an error was recorded after the change was. */
function hasFailedSince({ error_at }: SplitDocument, { accepted_at }: SplitTransition): boolean {
  return error_at !== null && error_at >= accepted_at;
}
