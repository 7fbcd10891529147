import type { Command } from "commander";
import type {
  BackfillPreview,
  CreateBackfillBody,
  CreatedBackfill,
  BackfillTransition,
} from "../../work/backfill/api.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { pairsNote, pairsText } from "../../kernel/keyspace/pairs-text.ts";
import { STALE_LIMIT, STALE_LIMIT_MAX, StaleReason } from "../../kernel/keyspace/selector.ts";
import type { PartInput } from "../../work/operations.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import {
  formatDuration,
  failureLimitOption,
  integerOption,
  jsonOption,
  labelsOption,
  listOption,
  orderOption,
  repeatedOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { type SelectorFlags, selectorOfFlags } from "../base/selector-flags.ts";
import { withApi } from "../base/api.ts";
import { staleCount, staleReasonsText } from "../text/trigger.ts";
import { layoutFields, note, print, backfillIdOf, paintState } from "../base/terminal.ts";
import { pairsIn, waitForBackfills } from "../wait/backfills.ts";
import type { Client } from "../../client/client.ts";

type PlanOptions = SelectorFlags & {
  chunkSize?: number;
  concurrency?: number;
  order?: CreateBackfillBody["order"];
  priority?: number;
  failureLimit?: NonNullable<CreateBackfillBody["failure_limit"]>;
  allowOverlap?: boolean;
  continueOnFailure?: boolean;
  after?: string;
  planHash?: string;
  maxAttempts?: number;
  label?: Record<string, string>;
  runConfig?: { value: Json };
  codeVersion?: string;
};

type CreateOptions = PlanOptions & { backfillId?: string; requestId?: string; wait?: boolean };

/** Adds the commands that plan and create backfills. */
export function addBackfillCreateCommands(backfill: Command, cli: Cli): void {
  addPlanOptions(backfill.command("create"))
    .description("create a backfill of one or more assets")
    .option("--backfill-id <id>", "an id of your own: letters, digits, - and _")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .option("--wait", "show progress until the backfill ends, and fail when it failed")
    .action(
      act(async (options: CreateOptions & GlobalOptions, assets: string[]) => {
        await create(cli, options, assets);
      }),
    );
  addPlanOptions(backfill.command("preview"))
    .description("show what a backfill would do, without creating it")
    .action(
      act(async (options: PlanOptions & GlobalOptions, assets: string[]) => {
        const body = bodyOf(options, assets);
        await withApi(cli, options, "definitions", async ({ client }) => {
          const preview = await client.call("previewBackfill", { body });
          print(cli.terminal, preview, () => previewText(preview));
        });
      }),
    );
}

function addPlanOptions(command: Command): Command {
  return command
    .argument("<asset...>", "keys of the assets to fill")
    .option("--start <key>", "the first partition of a range")
    .option("--end <key>", "the last partition of the range")
    .option("--partitions <keys>", "partition keys separated by commas")
    .addOption(
      repeatedOption(
        "--filter <dimension=pattern>",
        "what matches, such as region=us-*, a,b or a..b",
      ),
    )
    .option("--all", "every partition there is")
    .option("--stale", "what is stale now, and that no task works on")
    .addOption(
      listOption(
        "--reason <reasons>",
        "with --stale: only what is stale for these, such as code_changed,upstream_changed",
        StaleReason.options,
      ),
    )
    .addOption(
      integerOption(
        "--limit <n>",
        `with --stale: how many at most (default: ${STALE_LIMIT})`,
        1,
        STALE_LIMIT_MAX,
      ),
    )
    .addOption(
      integerOption("--chunk-size <n>", "partition keys in a chunk (default: 10)", 1, 10_000),
    )
    .addOption(integerOption("--concurrency <n>", "chunks at once (default: 2)", 1, 1_000))
    .addOption(orderOption("--order <order>", "newest or oldest first (default: oldest)"))
    .addOption(integerOption("--priority <n>", "higher goes first (default: 0)", -100, 100))
    .addOption(
      failureLimitOption("--failure-limit <limit>", "pause after 5 failed partitions, or 10%"),
    )
    .option("--allow-overlap", "go ahead although another backfill touches the same partitions")
    .option("--continue-on-failure", "start although the backfill before this one failed")
    .option("--after <backfill>", "start when this backfill has ended")
    .option("--plan-hash <hash>", "the plan that a preview showed; refused when it has changed")
    .addOption(integerOption("--max-attempts <n>", "how often a task is tried", 1, 1_000_000))
    .addOption(labelsOption("--label <key=value>", "a label; may be repeated"))
    .addOption(jsonOption("--run-config <json>", "what the tasks see as their config"))
    .option("--code-version <text>", "the version of the code that this is for");
}

function bodyOf(
  options: CreateOptions,
  assets: readonly string[],
): PartInput<"createBackfill", "body"> {
  const retry =
    options.maxAttempts === undefined ? undefined : { max_attempts: options.maxAttempts };
  return given({
    backfill_id: options.backfillId,
    assets: [...assets],
    selector: selectorOfFlags(options),
    chunk_size: options.chunkSize,
    max_concurrent_runs: options.concurrency,
    order: options.order,
    priority: options.priority,
    failure_limit: options.failureLimit,
    allow_overlap: options.allowOverlap,
    continue_on_failure: options.continueOnFailure,
    after_backfill_id: options.after,
    plan_hash: options.planHash,
    retry,
    labels: options.label,
    config: options.runConfig?.value,
    code_version: options.codeVersion,
  });
}

async function create(
  cli: Cli,
  options: CreateOptions & GlobalOptions,
  assets: readonly string[],
): Promise<void> {
  const body = bodyOf(options, assets);
  const idempotencyKey = options.requestId;
  const need = options.wait === true ? "work" : "definitions";
  await withApi(cli, options, need, async (api) => {
    const created = await api.client.call("createBackfill", { body, idempotencyKey });
    if (options.wait !== true) {
      print(cli.terminal, created, () => createdText(created, api.isEmbedded));
      return;
    }
    note(cli.terminal, createdText(created, false));
    await waitForCreated(cli, api, created);
  });
}

/** Waits for what a request created, shows how it ended, and fails when not all of it succeeded. */
export async function waitForCreated(
  cli: Cli,
  api: Parameters<typeof waitForBackfills>[1],
  created: CreatedBackfill,
): Promise<void> {
  const ids = created.backfills.map(({ backfill_id }) => backfill_id);
  const { documents, text, failure } = await waitForBackfills(cli, api, ids);
  const { state, state_version } = documents[0] ?? created;
  print(cli.terminal, { ...created, state, state_version, results: documents }, () => text);
  if (failure !== null) {
    throw new PawlError("WORK_FAILED", failure, { details: { backfill_ids: ids } });
  }
}

/** Says in a line or two what a request created. */
export function createdText(created: CreatedBackfill, isIdle: boolean): string {
  const lines = created.backfills.flatMap(
    ({ backfill_id, asset_selection, stale_reasons, ...made }) => [
      `Created backfill ${backfill_id}: ${asset_selection.join(", ")}, ` +
        `${sizeText({ asset_selection, ...made })}.`,
      ...(stale_reasons === null ? [] : [`Stale: ${staleReasonsText(stale_reasons)}.`]),
    ],
  );
  if (isCut(created)) {
    lines.push(
      `That is as many as --limit allows; there may be more. Ask again when it has ended.`,
    );
  }
  if (isIdle) lines.push("No server is running; it begins when one is started with `pawl start`.");
  return lines.join("\n");
}

/** Whether a search for stale partitions ended because it had found enough. */
function isCut({ selector, backfills }: Pick<BackfillPreview, "selector" | "backfills">): boolean {
  if (selector.type !== "stale") return false;
  const found = backfills.reduce((sum, { stale_reasons }) => sum + staleCount(stale_reasons), 0);
  return found >= selector.limit;
}

function staleFields(preview: BackfillPreview): [string, string][] {
  const { stale_reasons } = preview;
  if (stale_reasons === null) return [];
  const more = isCut(preview) ? " (as many as --limit allows; there may be more)" : "";
  return [["stale", staleReasonsText(stale_reasons) + more]];
}

/** What a later backfill of the same request would be. */
function thenText(next: BackfillPreview["backfills"][number]): string {
  const { asset_selection, stale_reasons } = next;
  const stale = stale_reasons === null ? "" : ` (${staleReasonsText(stale_reasons)})`;
  return `${asset_selection.join(", ")}, ${sizeText(next)}${stale}`;
}

type Size = Omit<CreatedBackfill["backfills"][number], "backfill_id" | "stale_reasons">;

/** How large a backfill is, in words. */
export function sizeText(made: Size): string {
  return `${pairsText(pairsIn(made))} in ${counted(made.total_chunks, "chunk")}`;
}

function previewText(preview: BackfillPreview): string {
  const { estimated_seconds: seconds, first_chunk_partitions: first, overlaps } = preview;
  const more = first.length > 5 ? `, … (${first.length})` : "";
  return layoutFields([
    ["assets", preview.asset_selection.join(", ")],
    ["partitions", `${preview.partitions_total}${pairsNote(pairsIn(preview))}`],
    ...staleFields(preview),
    ["chunks", String(preview.total_chunks)],
    ...preview.backfills.slice(1).map((next): [string, string] => ["then", thenText(next)]),
    ["runs", String(preview.estimated_runs)],
    ["first chunk", first.slice(0, 5).join(", ") + more],
    ["estimate", seconds === null ? "no past runs to go by" : formatDuration(seconds * 1_000)],
    [
      "overlaps",
      overlaps.length === 0 ? "none" : overlaps.map(({ backfill_id }) => backfill_id).join(", "),
    ],
    ["plan hash", preview.plan_hash],
  ]);
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

type ChangeOptions = GlobalOptions & { reason?: string; expectedStateVersion?: number };

type RetuneOptions = GlobalOptions & {
  concurrency?: number;
  priority?: number;
  expectedStateVersion?: number;
};

/** Adds the commands that change backfills. */
export function addBackfillChangeCommands(backfill: Command, cli: Cli): void {
  changeCommand(backfill, "pause", "stop planning chunks; active ones finish")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ reason, expectedStateVersion, ...options }: ChangeOptions, id: string) => {
        const body = given({ reason, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("pauseBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "resume", "go on with the first chunk that is not planned")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ reason, expectedStateVersion, ...options }: ChangeOptions, id: string) => {
        const body = given({ reason, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("resumeBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "cancel", "end a backfill; active runs finish")
    .option("--reason <text>", "why, for the record")
    .option("--now", "cancel the active runs too")
    .action(
      act(async (all: ChangeOptions & { now?: boolean }, id: string) => {
        const { reason, expectedStateVersion, now, ...options } = all;
        const body = given({ reason, now, expected_state_version: expectedStateVersion });
        await change(cli, options, id, (client, target) =>
          client.call("cancelBackfill", { ...target, body }),
        );
      }),
    );
  changeCommand(backfill, "retune", "change how many chunks run at once, or the priority")
    .addOption(integerOption("--concurrency <n>", "chunks at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .action(
      act(async (all: RetuneOptions, id: string) => {
        const { concurrency, priority, expectedStateVersion, ...options } = all;
        const body = given({
          max_concurrent_runs: concurrency,
          priority,
          expected_state_version: expectedStateVersion,
        });
        await change(cli, options, id, (client, target) =>
          client.call("retuneBackfill", { ...target, body }),
        );
      }),
    );
  addRetryCommand(backfill, cli);
}

function changeCommand(backfill: Command, name: string, description: string): Command {
  return backfill
    .command(name)
    .description(description)
    .argument("<backfill>", "the backfill's id, or its short form")
    .addOption(
      integerOption("--expected-state-version <n>", "refuse when it has moved on from this", 1),
    );
}

/** Changes a backfill by `send` and says what state it is in now. */
async function change(
  cli: Cli,
  options: GlobalOptions,
  id: string,
  send: (
    client: Client,
    target: { params: { backfill_id: string } },
  ) => Promise<BackfillTransition>,
): Promise<void> {
  await withApi(cli, options, "rows", async ({ client }) => {
    const backfill_id = await backfillIdOf(client, id);
    const changed = await send(client, { params: { backfill_id } });
    print(cli.terminal, changed, () => {
      const state = paintState(cli.terminal, changed.state);
      return `Backfill ${backfill_id} is ${state} (version ${changed.state_version}).`;
    });
  });
}

const OUTCOMES = ["FAILED", "CANCELLED", "SKIPPED"] as const;

type Outcome = (typeof OUTCOMES)[number];

type RetryOptions = {
  missing?: boolean;
  outcomes?: Outcome[];
  allowOverlap?: boolean;
  requestId?: string;
  wait?: boolean;
};

function addRetryCommand(backfill: Command, cli: Cli): void {
  backfill
    .command("retry-failed")
    .description("create a backfill of exactly the partitions that failed, also while it goes on")
    .argument("<backfill>", "the backfill's id, or its short form")
    .option("--missing", "everything of the target that is not materialized instead")
    .addOption(
      listOption(
        "--outcomes <outcomes>",
        "partitions that ended so: failed, cancelled, skipped (default: failed)",
        OUTCOMES,
      ),
    )
    .option("--allow-overlap", "go ahead although another backfill touches the same partitions")
    .option("--request-id <text>", "a name for the request; the same name never creates a second")
    .option("--wait", "show progress until the new backfill ends, and fail when it failed")
    .action(
      act(async (all: RetryOptions, id: string) => {
        const { missing, outcomes, allowOverlap, requestId, wait, ...options } = all;
        await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
          const backfill_id = await backfillIdOf(api.client, id);
          const created = await api.client.call("retryBackfill", {
            params: { backfill_id },
            body: given({ missing, outcomes, allow_overlap: allowOverlap }),
            idempotencyKey: requestId,
          });
          if (wait !== true) {
            print(cli.terminal, created, () => createdText(created, api.isEmbedded));
            return;
          }
          note(cli.terminal, createdText(created, false));
          await waitForCreated(cli, api, created);
        });
      }),
    );
}
