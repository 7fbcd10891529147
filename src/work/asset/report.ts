import type { Json } from "../../kernel/canonical.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { partitionInvalid } from "../../kernel/keyspace/keyspace.ts";
import {
  GLOB_KEYS_MAX,
  keysCompared,
  resolveSelector,
} from "../../kernel/keyspace/resolve-selector.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import type { Key } from "../../kernel/table.ts";
import type { Context, Decide } from "../decision.ts";
import { eventBody } from "../envelope.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { REPORTED_MAX } from "./events.ts";
import { reporterIn } from "./fold-partitions.ts";
import { currentAsset, currentKeyspace } from "./look-up.ts";
import { needPartitions, partitionAt } from "./partition-blocks.ts";
import { keptRowsOf } from "./partition-metadata.ts";

/** Partitions that were made elsewhere, and what is known of that. */
export type ReportedItem = {
  selector: Selector;
  /** When they were made; now when it is left out. */
  materialized_at?: Instant | undefined;
  code_version?: string | undefined;
  metadata?: Json | undefined;
};

/** What somebody says was made elsewhere. */
export type ReportInput = {
  asset_key: string;
  request_id: string;
  items: readonly ReportedItem[];
};

/** Most items that say which partitions they mean by anything but their keys. */
const SELECTIONS_MAX = 100;

/** Characters of metadata that a request may leave with all its partitions together. */
const METADATA_WRITTEN_MAX = 16_000_000;

/** Records partitions as materialized that were made elsewhere, with who said so. */
export function reportPartitions(input: ReportInput): Decide<{ reported: number }> {
  return (rows, context) => {
    const { asset_key, request_id } = input;
    const keysOf = keyFinder(rows, asset_key, input.items, context);
    let reported = 0;
    let written = 0;
    const items = input.items.map((item) => {
      const { code_version = null, metadata } = item;
      const materialized_at = item.materialized_at ?? context.now;
      if (materialized_at > context.now) throw inTheFuture(materialized_at, context.now);
      const partition_keys = keysOf(item.selector);
      reported += partition_keys.length;
      refuseMany(reported);
      const said = metadata === undefined ? {} : { metadata };
      written += partition_keys.length * lengthOf(metadata);
      if (written > METADATA_WRITTEN_MAX) throw tooMuchMetadata(written);
      return { partition_keys, materialized_at, code_version, ...said };
    });
    const { principal: reported_by } = context;
    const event: NewEvent = {
      type: "PartitionsReported",
      idempotency_key: IDEMPOTENCY_KEYS.partitionsReported(asset_key, reported_by, request_id),
      data: { asset_key, request_id, reported_by, items },
    };
    // Refuses what is too long to be recorded.
    eventBody(event);
    return { events: [event], result: { reported } };
  };
}

function lengthOf(metadata: Json | undefined): number {
  return metadata === undefined ? 0 : JSON.stringify(metadata).length;
}

/** Partitions about which a report is to be taken back. */
export type ForgetInput = { asset_key: string; request_id: string; selector: Selector };

/**
 * Takes reports back: nothing is known any more of the partitions that were last materialized by one.
 * What a run made last, or nobody, is left as it is.
 */
export function forgetPartitions(input: ForgetInput): Decide<{ forgotten: number; left: number }> {
  return (rows, context) => {
    const { asset_key, request_id, selector } = input;
    const keys = keyFinder(rows, asset_key, [input], context)(selector);
    refuseMany(keys.length);
    needPartitions(
      rows,
      keys.map((key): Key => [asset_key, key]),
    );
    const partition_keys = keys.filter((key) => {
      const row = partitionAt(rows, asset_key, key);
      return reporterIn(row?.last_materialization_run_id ?? null) !== null;
    });
    refuseMuchHistory(rows, asset_key, partition_keys);
    const forgotten = partition_keys.length;
    const result = { forgotten, left: keys.length - forgotten };
    if (forgotten === 0) return { events: [], result };
    const { principal } = context;
    const event: NewEvent = {
      type: "PartitionsForgotten",
      idempotency_key: IDEMPOTENCY_KEYS.partitionsForgotten(asset_key, principal, request_id),
      data: { asset_key, request_id, partition_keys },
    };
    return { events: [event], result };
  };
}

/** Rows of metadata that one request may take away. */
const METADATA_FORGOTTEN_MAX = 50_000;

function refuseMuchHistory(rows: Rows, assetKey: string, keys: readonly string[]): void {
  const kept = keys.reduce((sum, key) => sum + keptRowsOf(rows, assetKey, key), 0);
  if (kept <= METADATA_FORGOTTEN_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `The history of these partitions has ${kept} entries, more than the ${METADATA_FORGOTTEN_MAX} that ` +
      "one request may take away. Send several, such as a part of the range each.",
    { details: { entries: kept, most: METADATA_FORGOTTEN_MAX } },
  );
}

/** A function that says which keys a selector means: all that are named are looked up at once. */
function keyFinder(
  rows: Rows,
  assetKey: string,
  items: readonly { selector: Selector }[],
  context: Pick<Context, "now">,
): (selector: Selector) => string[] {
  const { spec } = currentAsset(rows, assetKey);
  const keyspace = currentKeyspace(rows, spec, context);
  const { partitions } = spec;
  if (partitions === null || keyspace === null) return (selector) => wholeOf(assetKey, selector);
  const named = items.flatMap(({ selector }) =>
    selector.type === "explicit" ? selector.partition_keys : [],
  );
  refuseMany(named.length);
  const selections = items.filter(({ selector }) => selector.type !== "explicit").length;
  if (selections > SELECTIONS_MAX) throw tooManySelections(selections);
  // One pattern may have as many to be compared with, and all of them hold up what others wait for.
  const compared = items.reduce(
    (sum, { selector }) => sum + keysCompared(partitions, keyspace, selector),
    0,
  );
  if (items.length > 1 && compared > GLOB_KEYS_MAX) throw tooManyCompared(compared);
  const distinct = [...new Set(named)];
  const ordinals = keyspace.indexesOf(distinct).map((ordinal, at) => {
    if (ordinal === null) throw partitionInvalid(partitions, keyspace, distinct[at] ?? "");
    return ordinal;
  });
  // As the keyspace writes them, however they were written.
  const found = new Map(keyspace.keysAt(ordinals).map((key, at) => [distinct[at], key]));
  return (selector) => {
    if (selector.type === "explicit") {
      const keys = selector.partition_keys.map((key) => present(found.get(key), "it was found"));
      return [...new Set(keys)];
    }
    const selection = resolveSelector(partitions, keyspace, selector);
    refuseMany(selection.count);
    return keyspace.keysAt(selection.ordinals(0, selection.count));
  };
}

/** An asset without partitions is one thing, under the empty key. */
function wholeOf(assetKey: string, selector: Selector): string[] {
  if (selector.type === "all") return [""];
  throw new PawlError(
    "INPUT_INVALID",
    `${assetKey} has no partitions, so a selector of the type ${selector.type} selects nothing of ` +
      "it. Use the selector of the type all.",
    { details: { asset_key: assetKey, selector } },
  );
}

function tooManySelections(count: number): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `items: expected at most ${SELECTIONS_MAX} that select by a range, a filter or all, got ${count}. ` +
      "Send several requests, or name the keys.",
    { details: { selections: count, most: SELECTIONS_MAX } },
  );
}

function tooManyCompared(compared: number): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The patterns would have to be compared with ${compared} keys together, more than ` +
      `${GLOB_KEYS_MAX}. Send several requests, or give ranges or keys instead.`,
    { details: { compared, most: GLOB_KEYS_MAX } },
  );
}

function tooMuchMetadata(characters: number): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The metadata of all partitions together is longer than ${METADATA_WRITTEN_MAX} characters of JSON ` +
      `(${characters} and more). Send several requests, or say less.`,
    { details: { characters, most: METADATA_WRITTEN_MAX } },
  );
}

function refuseMany(count: number): void {
  if (count <= REPORTED_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `${count} partitions are more than the ${REPORTED_MAX} that one request may be about. Send several, such as a part of the range each.`,
    { details: { partition_count: count, most: REPORTED_MAX } },
  );
}

function inTheFuture(at: Instant, now: Instant): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `materialized_at: expected a time that has passed, got ${at}; it is ${now} now.`,
    { details: { materialized_at: at, now } },
  );
}
