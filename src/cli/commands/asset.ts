import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { CheckSpec } from "../../work/asset/checks.ts";
import type { AssetDocument, PartitionDocument, PartitionSummary } from "../../work/asset/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Requirement } from "../../work/definition/spec.ts";
import type { StaleReason } from "../../kernel/keyspace/selector.ts";
import { isDocument } from "../../kernel/metadata-value.ts";
import type { AnswerOf } from "../../work/operations.ts";
import { shortId } from "../base/api.ts";
import { keysOf, omitUndefined, option, PAGE, relativeTime } from "../base/options.ts";
import {
  addSubcommands,
  type CommandSubject,
  type Outcome,
  operation,
  optional,
  outcomeOf,
  subcommand,
} from "../base/subcommands.ts";
import {
  type Column,
  counted,
  countText,
  errorText,
  type Field,
  layoutFields,
  layoutPage,
  layoutTable,
  type Page,
  paintState,
  type Terminal,
} from "../base/terminal.ts";
import type { Cli } from "../cli.ts";
import { staleCount, staleReasonsText } from "../text/backfill.ts";
import { checkText, metadataFields } from "../text/run.ts";
import { metadataCommand } from "./metadata.ts";
import { keysInFile, reportCommand } from "./report.ts";

/** An asset as commands name it. */
export const ASSET: CommandSubject = {
  noun: "asset",
  description: "the asset's key",
  param: "asset_key",
  find: (_client, key) => Promise.resolve(key),
};

const NO_ASSETS =
  "No assets are published. `pawl deploy` and `pawl start` publish those of the project.";

const ASSETS = {
  list: operation("listAssets", {
    description: "list assets by key",
    flags: PAGE,
    text: (terminal, page) =>
      layoutPage(page, NO_ASSETS, [
        ["ASSET", ({ asset_key }) => asset_key],
        ["PARTITIONS", ({ spec }) => spec.partitions?.type ?? "none"],
        ["COUNT", countOf, "right"],
        ["UPSTREAM", (asset) => upstreamOf(asset) || "-"],
        ["PUBLISHED", ({ published_at }) => relativeTime(published_at, terminal.now())],
      ]),
  }),
  show: operation("getAsset", {
    description: "show an asset",
    about: ASSET,
    text: assetText,
  }),
};

/** Adds the commands about assets. */
export function addAssetCommands(program: Command, cli: Cli): void {
  const asset = program.command("asset").description("look at published assets");
  addSubcommands(asset, cli, ASSETS);
}

function countOf({ partition_count }: AssetDocument): string {
  return partition_count === null ? "-" : String(partition_count);
}

function upstreamOf({ spec }: AssetDocument): string {
  return spec.upstream.map(({ asset_key }) => asset_key).join(", ");
}

function assetText(terminal: Terminal, asset: AssetDocument): string {
  const { spec, definition_version } = asset;
  const published = relativeTime(asset.published_at, terminal.now());
  const attempts = spec.retry.max_attempts === null ? "without end" : `${spec.retry.max_attempts}`;
  return layoutFields([
    ["asset", asset.asset_key],
    ["description", spec.description ?? null],
    ["partitions", spec.partitions === null ? "none" : JSON.stringify(spec.partitions)],
    ["count", countOf(asset)],
    ["upstream", upstreamOf(asset) || "none"],
    ["requires", spec.requires === undefined ? null : requirementText(spec.requires)],
    ["checks", spec.checks?.map(checkSpecText).join(", ") ?? null],
    ["made", spec.external === true ? "elsewhere, and reported" : null],
    ["attempts", attempts],
    ["batch", spec.batch ? "yes" : "no"],
    ["pool", spec.pool ?? "none"],
    ["code version", asset.code_version ?? "none"],
    ["published", `${published} (version ${definition_version})`],
  ]);
}

function requirementText({ upstream, otherwise, wait_timeout_ms }: Requirement): string {
  const hours = Math.ceil(wait_timeout_ms / 360_000) / 10;
  const until = otherwise === "wait" ? `, for ${hours} h at most` : "";
  return `all upstream partitions ${upstream}, otherwise ${otherwise}${until}`;
}

function checkSpecText({ name, severity, blocking }: CheckSpec): string {
  const said = [
    ...(severity === "warn" ? ["warns"] : []),
    ...(blocking === true ? ["blocks"] : []),
  ];
  return said.length === 0 ? name : `${name} (${said.join(", ")})`;
}

const PARTITIONS = {
  list: subcommand({
    description: "list the partitions of an asset, or those of all assets that were tried",
    about: optional(ASSET),
    flags: {
      status: option.states("--status <states>", "only these, such as materialized,stale"),
      checks: option.states("--checks <states>", "only with these, such as failed,warned"),
      since: option.instant("--since <time>", "only those tried since"),
      until: option.instant("--until <time>", "only those tried before"),
      ...PAGE,
    },
    async run({ terminal, client, ref: asset_key, flags: query }) {
      const page =
        asset_key === undefined
          ? await client.call("listPartitions", { query })
          : await client.call("listAssetPartitions", { params: { asset_key }, query });
      return outcomeOf(page, () => partitionsText(terminal, page));
    },
  }),
  show: subcommand({
    description:
      "show a partition: what made it, the last attempt, why it is stale, what is upstream",
    about: ASSET,
    argument: ["[key]", "the partition's key, for an asset with partitions"],
    async run({ terminal, client, ref: asset_key, argument: partition }) {
      const params = { asset_key };
      const query = omitUndefined({ partition, limit: UPSTREAM_SHOWN });
      const upstream = await client.call("listUpstreamPartitions", { params, query });
      const from = partition === undefined ? 0 : await ordinalOf(client, asset_key, partition);
      const page = await client.call("listAssetPartitions", { params, query: { from, limit: 1 } });
      const [document] = page.items;
      if (document === undefined) throw gone(asset_key, partition);
      return outcomeOf(
        { ...document, upstream: upstream.items, upstream_total: upstream.total },
        () => partitionText(terminal, document, upstream),
      );
    },
  }),
  stale: subcommand({
    description: "list stale partitions and why they are, of an asset or of all",
    about: optional(ASSET),
    flags: {
      reason: option.states("--reason <reasons>", "only these, such as code-changed"),
      ...PAGE,
    },
    async run({ terminal, client, ref: asset, flags }) {
      const query = asset === undefined ? flags : { ...flags, asset };
      const page = await stalePage(client, query);
      return outcomeOf(page, () => staleText(terminal, page));
    },
  }),
  summary: operation("summarizePartitions", {
    description: "count the partitions of an asset by condition",
    about: ASSET,
    text: (_terminal, summary) => summaryText(summary),
  }),
  add: operation("addPartitionKeys", {
    description: "add keys to an asset with dynamic partitions",
    about: ASSET,
    argument: ["<key...>", "the new keys"],
    flags: {
      dimension: option.text("--dimension <name>", "which dimension, where the asset has several"),
      requestId: option.requestId("never adds twice"),
    },
    need: "definitions",
    fields: ({ argument, fields }) => ({ keys: argument.flatMap(keysOf), ...fields }),
    text: (_terminal, { added, definition, count }) =>
      `Added ${counted(added, "key")}; ${definition} has ${count} now.`,
  }),
  remove: subcommand({
    description: "remove keys from an asset with dynamic partitions; what is known of them stays",
    about: ASSET,
    argument: ["[key...]", "the keys to remove"],
    flags: {
      file: option.text("--file <path>", "a file with a key on each line"),
      dimension: option.text("--dimension <name>", "which dimension, where the asset has several"),
      requestId: option.requestId("never removes twice"),
    },
    need: "definitions",
    prepare: ({ argument, flags: { file } }) => keysToRemove(argument.flatMap(keysOf), file),
    async run({ client, ref, flags: { dimension, requestId }, prepared: keys }) {
      return removeKeys(client, {
        asset_key: ref,
        keys,
        ...omitUndefined({ dimension, requestId }),
      });
    },
  }),
  report: reportCommand(ASSET),
  metadata: metadataCommand(ASSET),
};

/** Keys that one request may name, and their bytes: the server takes twice as many, all else included. */
const KEYS_SENT = 10_000;
const KEY_BYTES_SENT = 500_000;

function keysToRemove(named: readonly string[], file: string | undefined): readonly string[] {
  if (named.length > 0 !== (file !== undefined))
    return file === undefined ? named : keysInFile(file);
  const got = file === undefined ? "neither" : "both";
  throw new PawlError(
    "INPUT_INVALID",
    `Which keys: expected them as arguments, or a file of them with --file, got ${got}.`,
  );
}

type KeysToRemove = {
  asset_key: string;
  keys: readonly string[];
  dimension?: string;
  requestId?: string;
};

/** Removes keys in as few requests as they fit into, each with a name of its own. */
async function removeKeys(client: Client, of: KeysToRemove): Promise<Outcome> {
  const { asset_key, keys, dimension, requestId } = of;
  const total = { removed: 0, absent: 0 };
  for (let at = 0; at < keys.length; ) {
    const page = keysFitting(keys, at);
    const name = requestId === undefined || at === 0 ? requestId : `${requestId}/${at}`;
    const body = { keys: page, ...omitUndefined({ dimension }) };
    const answer = await client.call("removePartitionKeys", {
      params: { asset_key },
      body,
      ...omitUndefined({ idempotencyKey: name }),
    });
    total.removed += answer.removed;
    total.absent += answer.absent;
    at += page.length;
    if (at < keys.length) continue;
    const { definition, count } = answer;
    return outcomeOf({ definition, ...total, count }, () => {
      const rest =
        total.absent === 0
          ? ""
          : ` ${countText(total.absent)} ${total.absent === 1 ? "was" : "were"} not there.`;
      return `Removed ${counted(total.removed, "key")}; ${definition} has ${count} now.${rest}`;
    });
  }
  throw new PawlError("INPUT_INVALID", "--file: expected a key on each line, got an empty file.");
}

/** The keys from a place on that fit into one request, one at least. */
function keysFitting(keys: readonly string[], from: number): string[] {
  let bytes = 0;
  let end = from;
  while (end < keys.length && end - from < KEYS_SENT) {
    bytes += Buffer.byteLength(JSON.stringify(keys[end])) + 1;
    if (bytes > KEY_BYTES_SENT && end > from) break;
    end++;
  }
  return keys.slice(from, end);
}

/** Adds the commands about partitions. */
export function addPartitionsCommands(program: Command, cli: Cli): void {
  const partitions = program.command("partitions").description("look at partitions of assets");
  addSubcommands(partitions, cli, PARTITIONS);
}

/** Pages of the API that one list of the command may need. */
const PAGES_MAX = 50;

/** Upstream partitions that are shown with one. */
const UPSTREAM_SHOWN = 20;

async function ordinalOf(client: Client, asset_key: string, around: string): Promise<number> {
  const query = { around, limit: 1 };
  const { items } = await client.call("listPartitionValues", { params: { asset_key }, query });
  return items[0]?.ordinal ?? 0;
}

/** The refusal of a partition that was there a moment ago. */
function gone(asset_key: string, partition_key = ""): PawlError {
  return new PawlError(
    "PARTITION_INVALID",
    `${asset_key} no longer has the partition ${JSON.stringify(partition_key)}.`,
    { details: { asset_key, partition_key } },
  );
}

function partitionText(
  terminal: Terminal,
  partition: PartitionDocument,
  upstream: AnswerOf<"listUpstreamPartitions">,
): string {
  const { asset_key, partition_key, metadata, last_attempt_error: error } = partition;
  const now = terminal.now();
  const facts = layoutFields([
    ["asset", asset_key],
    ["partition", partition_key || null],
    ["status", paintState(terminal, partition.status)],
    ["stale", whyStale(partition, now)],
    ["materialized", whenMade(partition, now)],
    ["code version", partition.last_materialization_code_version],
    ["last attempt", lastAttemptText(partition, now)],
    ["error", error === null ? null : errorText(error)],
    ["checks", checksText(terminal, partition)],
    ["log", partition.last_attempt_run_id === null ? null : logCommand(partition)],
  ]);
  const made = metadata === null ? [] : [`metadata\n${metadataText(metadata)}`];
  return [facts, ...made, upstreamText(terminal, upstream)].join("\n\n");
}

function whyStale({ stale_reason: reason, stale_since }: PartitionDocument, now: number) {
  if (reason === null) return "no";
  const since = stale_since === null ? "" : `, since ${relativeTime(stale_since, now)}`;
  return `${STALE_TEXTS[reason]}${since}`;
}

/** Why a partition is stale, with what is to be compared. */
const STALE_TEXTS: Readonly<Record<StaleReason, string>> = {
  NEVER_MATERIALIZED: "never materialized",
  CODE_CHANGED: "the code version has changed",
  UPSTREAM_CHANGED: "something upstream was materialized after it",
  FRESHNESS_POLICY: "older than its freshness policy allows",
};

function whenMade(partition: PartitionDocument, now: number): string {
  const { last_materialization_at: at, last_materialization_run_id: run } = partition;
  const { last_materialization_reported_by: reporter } = partition;
  if (at === null) return "never";
  const by = reporter === null ? `by run ${shortId(run ?? "-")}` : `reported by ${reporter}`;
  return `${relativeTime(at, now)} ${by}`;
}

/** What the checks came to, and what those say that did not pass; null where there were none. */
function checksText(
  terminal: Terminal,
  { check_status, failed_checks }: PartitionDocument,
): string | null {
  if (check_status === null) return null;
  return [paintState(terminal, check_status), ...failed_checks.map(checkText)].join("\n");
}

function lastAttemptText(partition: PartitionDocument, now: number): string {
  const { last_attempt_outcome: outcome, last_attempt_at: at } = partition;
  if (outcome === null) return "none";
  const { last_attempt_run_id: run } = partition;
  return `${outcome} ${relativeTime(at, now)}${run === null ? "" : ` in run ${shortId(run)}`}`;
}

function logCommand({ asset_key, partition_key }: PartitionDocument): string {
  return `pawl logs ${asset_key} ${partition_key}`.trimEnd();
}

function metadataText(metadata: NonNullable<PartitionDocument["metadata"]>): string {
  return isDocument(metadata) ? layoutFields(metadataFields(metadata)) : JSON.stringify(metadata);
}

function upstreamText(
  terminal: Terminal,
  { items, total }: AnswerOf<"listUpstreamPartitions">,
): string {
  if (total === 0) return "Nothing is upstream of it.";
  const table = layoutTable(items, [
    ["UPSTREAM", ({ asset_key }) => asset_key],
    ["PARTITION", ({ partition_key }) => partition_key || "-"],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["MATERIALIZED", (each) => relativeTime(each.last_materialization_at, terminal.now())],
    ...errorColumn(items),
  ]);
  const more = total - items.length;
  return more > 0 ? `${table}\n… and ${counted(more, "more partition")}` : table;
}

type StaleQuery = { limit?: number; cursor?: string; reason?: string; asset?: string };
type StalePage = Awaited<ReturnType<typeof oneStalePage>>;

function oneStalePage(client: Client, query: StaleQuery) {
  return client.call("listStalePartitions", { query });
}

/** A page of the API may be short, or empty, and have a next: this goes on until it is full. */
async function stalePage(client: Client, query: StaleQuery): Promise<StalePage> {
  const limit = query.limit ?? 50;
  let page = await oneStalePage(client, query);
  const { items } = page;
  for (let pages = 1; pages < PAGES_MAX; pages++) {
    const { next_cursor: cursor } = page;
    if (cursor === null || items.length >= limit) break;
    page = await oneStalePage(client, { ...query, cursor, limit: limit - items.length });
    items.push(...page.items);
  }
  return { ...page, items };
}

/** The columns with what went wrong, and with checks that did not pass, where there is such a thing. */
function errorColumn(items: readonly PartitionDocument[]): Column<PartitionDocument>[] {
  const checks: Column<PartitionDocument> = [
    "CHECKS",
    ({ failed_checks }) => failed_checks.map(checkText).join("; "),
  ];
  const errors: Column<PartitionDocument> = [
    "ERROR",
    ({ last_attempt_error: error }) => error?.message ?? "",
  ];
  return [
    ...(items.some(({ failed_checks }) => failed_checks.length > 0) ? [checks] : []),
    ...(items.some(({ last_attempt_error }) => last_attempt_error !== null) ? [errors] : []),
  ];
}

function staleText(terminal: Terminal, page: StalePage): string {
  const none = page.next_cursor === null ? "Nothing is stale." : "Nothing so far is stale.";
  return layoutPage(page, none, [
    ["ASSET", ({ asset_key }) => asset_key],
    ["PARTITION", ({ partition_key }) => partition_key || "-"],
    ["REASON", ({ stale_reason }) => stale_reason ?? "-"],
    ["STALE SINCE", ({ stale_since }) => relativeTime(stale_since, terminal.now())],
    ["MATERIALIZED", (each) => relativeTime(each.last_materialization_at, terminal.now())],
    ...errorColumn(page.items),
  ]);
}

/** The run of the last attempt, or that somebody said it was made. */
function runText(partition: PartitionDocument): string {
  const { last_attempt_run_id: run, last_materialization_reported_by: reporter } = partition;
  if (run !== null) return shortId(run);
  return reporter === null ? "-" : "reported";
}

function partitionsText(terminal: Terminal, page: Page<PartitionDocument>): string {
  const now = terminal.now();
  return layoutPage(page, "There are no such partitions.", [
    ["ASSET", ({ asset_key }) => asset_key],
    ["PARTITION", ({ partition_key }) => partition_key],
    ["STATUS", ({ status }) => paintState(terminal, status)],
    ["MATERIALIZED", (each) => relativeTime(each.last_materialization_at, now)],
    [
      "LAST ATTEMPT",
      ({ last_attempt_outcome: outcome, last_attempt_at }) =>
        outcome === null ? "-" : `${outcome} ${relativeTime(last_attempt_at, now)}`,
    ],
    ["RUN", runText],
    ...errorColumn(page.items),
  ]);
}

function summaryText(summary: PartitionSummary): string {
  const fields: [string, number][] = [
    ["total", summary.total],
    ["materialized", summary.materialized],
    ["of which being remade", summary.being_remade],
    ["last attempt failed", summary.materialized_last_attempt_failed],
    ["in progress", summary.in_progress - summary.being_remade],
    ["failed", summary.failed],
    ["never materialized", summary.never_materialized],
  ];
  const width = Math.max(...fields.map(([, count]) => String(count).length));
  return layoutFields([
    ["asset", summary.asset_key],
    ...fields.map(([name, count]): Field => [name, String(count).padStart(width)]),
    ["stale", summaryOfStale(summary)],
  ]);
}

function summaryOfStale(summary: PartitionSummary): string {
  const { stale_reasons: reasons, stale_complete, failed } = summary;
  const count = staleCount(reasons);
  const text = staleReasonsText(reasons, failed);
  if (stale_complete) return count === 0 ? "none" : `${count}: ${text}`;
  const found = count === 0 ? "" : ` at least ${count}: ${text};`;
  return `${found} too many partitions to look at all; \`pawl partitions stale\` does`.trim();
}
