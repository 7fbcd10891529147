import type { Command } from "commander";
import type {
  BackfillDocument,
  ChunkDocument,
  ChunkPartitionDocument,
} from "../../work/backfill/documents.ts";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { countIntervals, mergeIntervals } from "../../kernel/intervals.ts";
import { pairsNote } from "../../kernel/keyspace/pairs-text.ts";
import { act, type Cli } from "../cli.ts";
import {
  relativeTime,
  instantOption,
  integerOption,
  listOption,
  statesOption,
} from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { morePagesText, type PageOptions, withApi } from "../base/api.ts";
import {
  backfillIdOf,
  shortId,
  layoutFields,
  layoutTable,
  paintState,
  print,
  type Terminal,
} from "../base/terminal.ts";
import { staleReasonsText } from "../text/trigger.ts";
import { pairsIn, donePartitions, succeededText, waitForBackfills } from "../wait/backfills.ts";

type ListOptions = PageOptions & { status?: string; since?: string; until?: string };

/** Adds the commands that look at backfills. */
export function addBackfillShowCommands(backfill: Command, cli: Cli): void {
  backfill
    .command("list")
    .description("list backfills, newest first")
    .addOption(statesOption("--status <states>", "only these, such as running,paused"))
    .addOption(instantOption("--since <time>", "only those created since", cli.terminal.now))
    .addOption(instantOption("--until <time>", "only those created before", cli.terminal.now))
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async ({ status, since, until, limit, cursor, ...options }: ListOptions) => {
        const query = given({ status, since, until, limit, cursor });
        await withApi(cli, options, "rows", async ({ client }) => {
          const page = await client.call("listBackfills", { query });
          print(cli.terminal, page, () => listText(cli.terminal, page));
        });
      }),
    );
  backfill
    .command("show")
    .description("show a backfill and its chunks")
    .argument("<backfill>", "the backfill's id, or its short form")
    .addOption(integerOption("--as-of <pos>", "as it was at this position of the ledger", 0))
    .action(
      act(async ({ asOf, ...options }: { asOf?: number }, id: string) => {
        await withApi(cli, options, "rows", ({ client }) => show(cli, client, id, asOf));
      }),
    );
  addChunks(backfill, cli);
  backfill
    .command("watch")
    .description("show a backfill's progress until it ends, and fail when it failed")
    .argument("<backfill>", "the backfill's id, or its short form")
    .action(
      act(async (options: object, id: string) => {
        await withApi(cli, options, "work", async (api) => {
          const full = await backfillIdOf(api.client, id);
          const { documents, text, failure } = await waitForBackfills(cli, api, [full]);
          print(cli.terminal, documents[0], () => text);
          if (failure !== null) throw new PawlError("WORK_FAILED", failure);
        });
      }),
    );
}

const OUTCOMES = ["FAILED", "CANCELLED", "SKIPPED"] as const;

type ChunksOptions = PageOptions & {
  status?: string;
  from?: number;
  chunk?: number;
  outcome?: (typeof OUTCOMES)[number][];
};

function addChunks(backfill: Command, cli: Cli): void {
  backfill
    .command("chunks")
    .description("list the chunks of a backfill with their keys, or the keys of one chunk")
    .argument("<backfill>", "the backfill's id, or its short form")
    .addOption(statesOption("--status <states>", "only chunks in these, such as failed"))
    .addOption(integerOption("--from <n>", "begin with this chunk", 0))
    .addOption(integerOption("--chunk <n>", "list all keys of this chunk", 0))
    .addOption(
      listOption("--outcome <outcomes>", "with --chunk: only keys that ended so", OUTCOMES),
    )
    .addOption(integerOption("--limit <n>", "how many (default: 50)", 1, 200))
    .option("--cursor <text>", "where the page before ended")
    .action(
      act(async (all: ChunksOptions, id: string) => {
        const { status, from, chunk, outcome, limit, cursor, ...options } = all;
        refuseMixed(chunk, { outcome }, { status, from });
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { backfill_id: await backfillIdOf(client, id) };
          if (chunk === undefined) {
            const query = given({ status, from, limit, cursor });
            const page = await client.call("listChunks", { params, query });
            print(cli.terminal, page, () => {
              return chunkKeysText(cli.terminal, page.items) + morePagesText(page.next_cursor);
            });
            return;
          }
          const page = await client.call("listChunkPartitions", {
            params: { ...params, chunk_index: chunk },
            query: given({ outcome: outcome?.join(","), limit, cursor }),
          });
          print(cli.terminal, page, () => {
            return partitionsText(page.items) + morePagesText(page.next_cursor);
          });
        });
      }),
    );
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

function chunkKeysText(terminal: Terminal, chunks: readonly ChunkDocument[]): string {
  if (chunks.length === 0) return "There are no such chunks.";
  return layoutTable(
    [
      { heading: "CHUNK", align: "right" },
      { heading: "STATE" },
      { heading: "PARTITIONS" },
      { heading: "FAILED" },
      { heading: "RUN KEY" },
    ],
    chunks.map((chunk) => [
      String(chunk.chunk_index),
      paintState(terminal, chunk.state),
      someKeys(chunk.partition_keys, chunk.partition_count),
      someKeys(chunk.failed_partition_keys, failedCount(chunk)),
      chunk.run_key,
    ]),
  );
}

/** How many keys of a chunk an asset failed of. */
function failedCount({ failed }: ChunkDocument): number {
  const intervals = (failed ?? []).flatMap(({ ordinals }) => ordinals);
  return countIntervals(mergeIntervals(intervals));
}

/** Keys that a cell of a table shows. */
const KEYS_SHOWN = 5;

function someKeys(keys: readonly string[], count: number): string {
  const shown = keys.slice(0, KEYS_SHOWN).join(", ");
  return count > KEYS_SHOWN ? `${shown}, … (${count})` : shown || "-";
}

function partitionsText(partitions: readonly ChunkPartitionDocument[]): string {
  if (partitions.length === 0) return "There are no such partitions.";
  return layoutTable(
    [
      { heading: "PARTITION" },
      { heading: "FAILED" },
      { heading: "CANCELLED" },
      { heading: "SKIPPED" },
    ],
    partitions.map(({ partition_key, failed, cancelled, skipped }) => [
      partition_key,
      ...[failed, cancelled, skipped].map((assets) => assets.join(", ") || "-"),
    ]),
  );
}

async function show(cli: Cli, client: Client, id: string, asOf: number | undefined): Promise<void> {
  const backfill_id = await backfillIdOf(client, id);
  const params = { backfill_id };
  const document = await client.call("getBackfill", { params, query: given({ as_of: asOf }) });
  // Chunks are known as they are now only.
  const chunks =
    asOf === undefined
      ? (await client.call("listChunks", { params, query: { limit: 20 } })).items
      : [];
  print(cli.terminal, document, () => showText(cli.terminal, document, chunks));
}

function listText(
  terminal: Terminal,
  page: { items: readonly BackfillDocument[]; next_cursor: string | null },
): string {
  if (page.items.length === 0) return "There are no backfills.";
  const now = terminal.now();
  const rows = page.items.map((document) => [
    shortId(document.backfill_id),
    paintState(terminal, document.display_status),
    document.asset_selection.join(", "),
    `${donePartitions(document)}/${document.partitions_total}`,
    String(document.partitions_failed),
    `${doneChunks(document)}/${document.total_chunks}`,
    relativeTime(document.created_at, now),
    // When it came to its end, or will.
    relativeTime(document.finished_at ?? document.eta_at, now),
  ]);
  const table = layoutTable(
    [
      { heading: "ID" },
      { heading: "STATE" },
      { heading: "ASSETS" },
      { heading: "PARTITIONS", align: "right" },
      { heading: "FAILED", align: "right" },
      { heading: "CHUNKS", align: "right" },
      { heading: "CREATED" },
      { heading: "DONE" },
    ],
    rows,
  );
  return table + morePagesText(page.next_cursor);
}

function doneChunks(document: BackfillDocument): number {
  return document.chunks_succeeded + document.chunks_failed;
}

function showText(
  terminal: Terminal,
  document: BackfillDocument,
  chunks: readonly ChunkDocument[],
): string {
  const now = terminal.now();
  const { first_error: error, reason, stale_reasons: stale } = document;
  const fields: [string, string][] = [
    ["backfill", document.backfill_id],
    [
      "state",
      `${paintState(terminal, document.display_status)} (version ${document.state_version})`,
    ],
    ...(reason === null ? [] : [["reason", reason] as [string, string]]),
    ["assets", document.asset_selection.join(", ")],
    ["selector", JSON.stringify(document.partition_selector)],
    ...(stale === null ? [] : [["stale were", staleReasonsText(stale)] as [string, string]]),
    ["partitions", countsText(document, "partitions")],
    ["chunks", countsText(document, "chunks")],
    [
      "plan",
      `${document.chunk_size} ${document.chunk_size === 1 ? "key" : "keys"} in a chunk, ${document.max_concurrent_runs} at once, ` +
        `${document.order}, priority ${document.priority}`,
    ],
    ["created", `${relativeTime(document.created_at, now)} by ${document.created_by}`],
    ["finished", relativeTime(document.finished_at, now)],
    ...lineageFields(document),
    ...(error === null
      ? []
      : [["first error", `${error.class}: ${error.message}`] as [string, string]]),
  ];
  if (chunks.length === 0) return layoutFields(fields);
  return `${layoutFields(fields)}\n\n${chunksText(terminal, chunks, document.total_chunks)}`;
}

function lineageFields(document: BackfillDocument): [string, string][] {
  const { parent_backfill_id: parent, after_backfill_id: after, followers } = document;
  return [
    ...(parent === null ? [] : [["retries", parent] as [string, string]]),
    ...(after === null ? [] : [["after", after] as [string, string]]),
    ...(followers.length === 0 ? [] : [["then", followers.join(", ")] as [string, string]]),
  ];
}

function countsText(document: BackfillDocument, kind: "partitions" | "chunks"): string {
  const total =
    kind === "chunks"
      ? document.total_chunks
      : `${document.partitions_total}${pairsNote(pairsIn(document))}`;
  const succeeded = document[`${kind}_succeeded`];
  const succeeding = kind === "chunks" ? `${succeeded} succeeded` : succeededText(document);
  const counts: [string, number][] = [
    [`${document[`${kind}_pending`]} pending`, document[`${kind}_pending`]],
    [`${document[`${kind}_planned`]} planned`, document[`${kind}_planned`]],
    [`${document[`${kind}_running`]} running`, document[`${kind}_running`]],
    [succeeding, succeeded],
    [`${document[`${kind}_failed`]} failed`, document[`${kind}_failed`]],
    [`${document[`${kind}_cancelled`]} cancelled`, document[`${kind}_cancelled`]],
  ];
  const there = counts.filter(([, count]) => count > 0);
  return `${total}: ${there.map(([text]) => text).join(", ") || "none"}`;
}

function chunksText(terminal: Terminal, chunks: readonly ChunkDocument[], total: number): string {
  const table = layoutTable(
    [
      { heading: "CHUNK", align: "right" },
      { heading: "STATE" },
      { heading: "FIRST" },
      { heading: "LAST" },
      { heading: "PARTITIONS", align: "right" },
      { heading: "RUN" },
      { heading: "FINISHED" },
    ],
    chunks.map((chunk) => [
      String(chunk.chunk_index),
      paintState(terminal, chunk.state),
      chunk.first_partition_key ?? "-",
      chunk.last_partition_key ?? "-",
      String(chunk.partitions),
      chunk.run_id === null ? "-" : shortId(chunk.run_id),
      relativeTime(chunk.finished_at, terminal.now()),
    ]),
  );
  const rest = total - chunks.length;
  return rest > 0 ? `${table}\n… and ${rest} more` : table;
}
