import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { STALE_LIMIT, STALE_LIMIT_MAX, StaleReason } from "../../kernel/keyspace/selector.ts";
import type { BackfillTransition, CreatedBackfill } from "../../work/backfill/api.ts";
import type { BackfillDocument } from "../../work/backfill/documents.ts";
import type { PartInput } from "../../work/operations.ts";
import type { Cli } from "../cli.ts";
import { type Api, fullId, nextSteps, type OwnApi, shortId } from "../base/api.ts";
import {
  type FlagValues,
  omitUndefined,
  ONLY_FLAGS,
  option,
  PAGE,
  REASON,
  selectorOfFlags,
  VERSION,
} from "../base/options.ts";
import {
  addSubcommands,
  operation,
  type Outcome,
  outcomeOf,
  subcommand,
} from "../base/subcommands.ts";
import { note, paintState, type Terminal } from "../base/terminal.ts";
import { waitWithProgress } from "../base/waiting.ts";
import {
  backfillsText,
  backfillText,
  chunkKeysText,
  createdText,
  endText,
  failureText,
  partitionsText,
  previewText,
  totalsOf,
} from "../text/backfill.ts";

/** A backfill as commands name it. */
export const BACKFILL_ARGUMENT = {
  noun: "backfill",
  description: "the backfill's id, or its short form",
  param: "backfill_id",
  async find(client: Client, text: string): Promise<string> {
    // An id of somebody's own may be as short as a part of another.
    if (text.length < 26 && (await isBackfill(client, text))) return text;
    const newest = client.each("listBackfills", { query: { limit: 200 } });
    return fullId(text, newest, ({ backfill_id }) => backfill_id);
  },
};

async function isBackfill(client: Client, text: string): Promise<boolean> {
  try {
    await client.call("getBackfill", { params: { backfill_id: text } });
    return true;
  } catch (error) {
    if (error instanceof PawlError && error.code === "BACKFILL_NOT_FOUND") return false;
    throw error;
  }
}

const ALLOW_OVERLAP = option.switch(
  "--allow-overlap",
  "go ahead although another backfill touches the same partitions",
);

const REQUEST_ID = option.requestId("never creates a second");

const PLAN = {
  start: option.text("--start <key>", "the first partition of a range, or a day, month or year"),
  end: option.text(
    "--end <key>",
    "the last of the range, or a day, month or year (default: the last there is)",
  ),
  partitions: option.text("--partitions <keys>", "partition keys separated by commas"),
  filter: option.repeated(
    "--filter <dimension=pattern>",
    "what matches, such as region=us-*, a,b or a..b",
  ),
  all: option.switch("--all", "every partition there is"),
  only: option.choice(
    "--only <what>",
    "of these, only what is missing, failed last time, or stale",
    Object.keys(ONLY_FLAGS) as (keyof typeof ONLY_FLAGS)[],
  ),
  stale: option.switch("--stale", "what is stale now, and that no task works on"),
  reason: option.list(
    "--reason <reasons>",
    "with --stale: only what is stale for these, such as code_changed,upstream_changed",
    StaleReason.options,
  ),
  limit: option.integer(
    "--limit <n>",
    `with --stale: how many at most (default: ${STALE_LIMIT})`,
    1,
    STALE_LIMIT_MAX,
  ),
  chunkSize: option.integer(
    "--chunk-size <n>",
    "partition keys in a chunk (default: 10)",
    1,
    10_000,
  ),
  concurrency: option.integer("--concurrency <n>", "chunks at once (default: 2)", 1, 1_000),
  order: option.order("--order <order>", "newest or oldest first (default: oldest)"),
  priority: option.integer("--priority <n>", "higher goes first (default: 0)", -100, 100),
  failureLimit: option.failureLimit(
    "--failure-limit <limit>",
    "pause after 5 failed partitions, or 10%",
  ),
  allowOverlap: ALLOW_OVERLAP,
  continueOnFailure: option.switch(
    "--continue-on-failure",
    "start although the backfill before this one failed",
  ),
  after: option.text("--after <backfill>", "start when this backfill has ended"),
  planHash: option.text(
    "--plan-hash <hash>",
    "the plan that a preview showed; refused when it has changed",
  ),
  maxAttempts: option.integer("--max-attempts <n>", "how often a task is tried", 1, 1_000_000),
  label: option.labels("--label <key=value>", "a label; may be repeated"),
  runConfig: option.json("--run-config <json>", "what the tasks see as their config"),
  codeVersion: option.text("--code-version <text>", "the version of the code that this is for"),
  startAt: option.later("--start-at <time>", "plan no chunk before this time, or so long from now"),
  window: option.text(
    "--window <times>",
    'plan chunks only in this time of the day, such as "22:00-06:00 Europe/Berlin"',
  ),
};

const ASSETS = ["<asset...>", "assets to fill: keys, +key, key+, label:name=value"] as const;

function bodyOf(
  flags: FlagValues<typeof PLAN> & { backfillId?: string },
  assets: readonly string[],
): PartInput<"createBackfill", "body"> {
  return omitUndefined({
    backfill_id: flags.backfillId,
    assets: [...assets],
    selector: selectorOfFlags(flags),
    chunk_size: flags.chunkSize,
    max_concurrent_runs: flags.concurrency,
    order: flags.order,
    priority: flags.priority,
    failure_limit: flags.failureLimit,
    allow_overlap: flags.allowOverlap,
    continue_on_failure: flags.continueOnFailure,
    after_backfill_id: flags.after,
    plan_hash: flags.planHash,
    retry: flags.maxAttempts === undefined ? undefined : { max_attempts: flags.maxAttempts },
    labels: flags.label,
    config: flags.runConfig?.value,
    code_version: flags.codeVersion,
    start_at: flags.startAt,
    window: flags.window,
  });
}

const OUTCOMES = ["FAILED", "CANCELLED", "SKIPPED"] as const;

const CHANGE = { expected_state_version: VERSION, reason: REASON };

/** The state that a change has left a backfill in. */
function stateText(terminal: Terminal, changed: BackfillTransition, backfill_id: string): string {
  const state = paintState(terminal, changed.state);
  return `Backfill ${backfill_id} is ${state} (version ${changed.state_version}).`;
}

/** What most changes have in common. */
const CHANGED = { about: BACKFILL_ARGUMENT, flags: CHANGE, text: stateText };

const BACKFILLS = {
  create: subcommand({
    description: "create a backfill of one or more assets",
    argument: ASSETS,
    flags: {
      ...PLAN,
      backfillId: option.text("--backfill-id <id>", "an id of your own: letters, digits, - and _"),
      requestId: REQUEST_ID,
      wait: option.wait("show progress until the backfill ends, and fail when it failed"),
    },
    need: "definitions",
    prepare: ({ flags, argument }) => bodyOf(flags, argument),
    async run({ cli, api, client, prepared: body, flags: { requestId, wait } }) {
      const created = await client.call("createBackfill", { body, idempotencyKey: requestId });
      return createdOutcome(cli, api, created, wait === true);
    },
  }),
  preview: operation("previewBackfill", {
    description: "show what a backfill would do, without creating it",
    argument: ASSETS,
    flags: PLAN,
    need: "definitions",
    fields: ({ flags, argument }) => bodyOf(flags, argument),
    text: (_terminal, preview) => previewText(preview),
  }),
  list: operation("listBackfills", {
    description: "list backfills, newest first",
    flags: {
      status: option.states("--status <states>", "only these, such as running,paused"),
      since: option.instant("--since <time>", "only those created since"),
      until: option.instant("--until <time>", "only those created before"),
      ...PAGE,
    },
    text: backfillsText,
  }),
  show: subcommand({
    description: "show a backfill and its chunks",
    about: BACKFILL_ARGUMENT,
    flags: {
      as_of: option.integer("--as-of <pos>", "as it was at this position of the ledger", 0),
    },
    async run({ terminal, client, ref: backfill_id, flags: query }) {
      const params = { backfill_id };
      const document = await client.call("getBackfill", { params, query });
      // Chunks are known as they are now only.
      const chunks =
        query.as_of === undefined
          ? (await client.call("listChunks", { params, query: { limit: 20 } })).items
          : [];
      return outcomeOf(document, () => backfillText(terminal, document, chunks));
    },
  }),
  chunks: subcommand({
    description: "list the chunks of a backfill with their keys, or the keys of one chunk",
    about: BACKFILL_ARGUMENT,
    flags: {
      status: option.states("--status <states>", "only chunks in these, such as failed"),
      from: option.integer("--from <n>", "begin with this chunk", 0),
      chunk: option.integer("--chunk <n>", "list all keys of this chunk", 0),
      outcome: option.list(
        "--outcome <outcomes>",
        "with --chunk: only keys that ended so",
        OUTCOMES,
      ),
      ...PAGE,
    },
    prepare: ({ flags: { chunk, outcome, status, from } }) =>
      refuseMixed(chunk, { outcome }, { status, from }),
    async run({ terminal, client, ref: backfill_id, flags: { chunk, outcome, ...query } }) {
      if (chunk === undefined) {
        const page = await client.call("listChunks", { params: { backfill_id }, query });
        return outcomeOf(page, () => chunkKeysText(terminal, page));
      }
      const { limit, cursor } = query;
      const page = await client.call("listChunkPartitions", {
        params: { backfill_id, chunk_index: chunk },
        query: omitUndefined({ outcome: outcome?.join(","), limit, cursor }),
      });
      return outcomeOf(page, () => partitionsText(page));
    },
  }),
  watch: subcommand({
    description: "show a backfill's progress until it ends, and fail when it failed",
    about: BACKFILL_ARGUMENT,
    need: "work",
    async run({ cli, api, ref }) {
      const { documents, text, failure } = await waitForBackfills(cli, api, [ref]);
      return outcomeOf(documents[0], () => text, failure);
    },
  }),
  pause: operation("pauseBackfill", {
    ...CHANGED,
    description: "stop planning chunks; active ones finish",
  }),
  resume: operation("resumeBackfill", {
    ...CHANGED,
    description: "go on with the first chunk that is not planned",
  }),
  cancel: operation("cancelBackfill", {
    description: "end a backfill; active runs finish",
    about: BACKFILL_ARGUMENT,
    flags: { ...CHANGE, now: option.switch("--now", "cancel the active runs too") },
    text: stateText,
  }),
  retune: operation("retuneBackfill", {
    description: "change how many chunks run at once, or the priority",
    about: BACKFILL_ARGUMENT,
    flags: {
      expected_state_version: VERSION,
      max_concurrent_runs: option.integer("--concurrency <n>", "chunks at once", 1, 1_000),
      priority: option.integer("--priority <n>", "higher goes first", -100, 100),
    },
    text: stateText,
  }),
  "retry-failed": subcommand({
    description: "create a backfill of exactly the partitions that failed, also while it goes on",
    about: BACKFILL_ARGUMENT,
    flags: {
      missing: option.switch(
        "--missing",
        "everything of the target that is not materialized instead",
      ),
      outcomes: option.list(
        "--outcomes <outcomes>",
        "partitions that ended so: failed, cancelled, skipped (default: failed)",
        OUTCOMES,
      ),
      allow_overlap: ALLOW_OVERLAP,
      requestId: REQUEST_ID,
      wait: option.wait("show progress until the new backfill ends, and fail when it failed"),
    },
    async run({ cli, api, client, ref: backfill_id, flags: { requestId, wait }, fields: body }) {
      const created = await client.call("retryBackfill", {
        params: { backfill_id },
        body,
        idempotencyKey: requestId,
      });
      return createdOutcome(cli, api, created, wait === true);
    },
  }),
};

/** Adds the commands about backfills. */
export function addBackfillCommands(backfill: Command, cli: Cli): void {
  addSubcommands(backfill, cli, BACKFILLS);
}

/** Says what a request created, or waits for it and shows how it ended. */
async function createdOutcome(
  cli: Cli,
  api: OwnApi,
  created: CreatedBackfill,
  isAwaited: boolean,
): Promise<Outcome> {
  const [first] = created.backfills;
  if (!isAwaited) {
    const outcome = outcomeOf(created, () => createdText(created, api.isEmbedded));
    if (first === undefined) return outcome;
    const { backfill_id } = first;
    const next = nextSteps(cli.terminal, api, {
      watch: `pawl backfill watch ${shortId(backfill_id)}`,
      show: `pawl backfill show ${shortId(backfill_id)}`,
      logs: `pawl logs ${shortId(backfill_id)} --follow`,
      page: `backfills/${backfill_id}`,
    });
    return { ...outcome, ...next };
  }
  note(cli.terminal, createdText(created, false));
  const ids = created.backfills.map(({ backfill_id }) => backfill_id);
  const { documents, text, failure } = await waitForBackfills(cli, api, ids, {
    backfill_ids: ids,
  });
  const { state, state_version } = documents[0] ?? created;
  return outcomeOf({ ...created, state, state_version, results: documents }, () => text, failure);
}

/** Refuses options that are about one chunk without one, and those about all of them with one. */
function refuseMixed(chunk: number | undefined, ofOne: object, ofAll: object): void {
  const wrong = Object.entries(chunk === undefined ? ofOne : ofAll).find(
    ([, value]) => value !== undefined,
  )?.[0];
  if (wrong === undefined) return;
  throw new PawlError(
    "INPUT_INVALID",
    chunk === undefined
      ? `--${wrong} is about the keys of one chunk. Name it with --chunk, or leave --${wrong} out.`
      : `--${wrong} is about all chunks, and --chunk ${chunk} is one. Leave one of them out.`,
    { details: { option: `--${wrong}` } },
  );
}

/** How backfills ended that were waited for. */
type WaitedBackfills = {
  documents: BackfillDocument[];
  /** A line for each of them, for people. */
  text: string;
  /** Why the work counts as failed; null when all of it succeeded. */
  failure: PawlError | null;
};

/** Shows the progress of backfills until all have ended, or cannot go on without a person. */
export async function waitForBackfills(
  cli: Cli,
  api: Api,
  ids: readonly string[],
  details: Record<string, unknown> = {},
): Promise<WaitedBackfills> {
  const documents = await waitWithProgress(cli, api, {
    noun: "partitions",
    look: (client) =>
      Promise.all(
        ids.map((backfill_id) => client.call("getBackfill", { params: { backfill_id } })),
      ),
    progressOf: (seen) => totalsOf(seen, cli.terminal.now()),
    isSettled: (seen) => seen.every((document) => isSettled(document, seen)),
    again: {
      kept: "What is finished is kept",
      command: `pawl backfill watch ${shortId(ids[0] ?? "")}`,
    },
  });
  const failed = documents.filter(({ state }) => state !== "SUCCEEDED");
  return {
    documents,
    text: documents.map((document) => endText(cli.terminal, document)).join("\n"),
    failure:
      failed.length === 0
        ? null
        : new PawlError("WORK_FAILED", failed.map(failureText).join(" "), { details }),
  };
}

const TERMINAL_STATES = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

/** Whether a backfill has ended, or waits for somebody to decide. */
function isSettled(document: BackfillDocument, all: readonly BackfillDocument[]): boolean {
  if (TERMINAL_STATES.has(document.state)) return true;
  if (document.display_status === "PAUSED_WITH_FAILURES") return true;
  const before = all.find(({ backfill_id }) => backfill_id === document.after_backfill_id);
  return (
    before !== undefined &&
    document.state === "PENDING" &&
    !document.continue_on_failure &&
    before.state !== "SUCCEEDED" &&
    isSettled(before, all)
  );
}
