import { canonicalJson } from "../../kernel/canonical.ts";
import { AssertionFailure, present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { dimensionsOf } from "../../kernel/keyspace/definition.ts";
import type { DynamicKeys } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import type { AssetDocument } from "../../work/asset/api.ts";
import { assetNotFound } from "../../work/asset/look-up.ts";
import { addPartitionKeys, removePartitionKeys } from "../../work/definition/partition-keys.ts";
import { forgetPartitions, reportPartitions } from "../../work/asset/report.ts";
import { publishDefinitions } from "../../work/definition/publish.ts";
import {
  DEFINITIONS,
  type DefinitionRow,
  DYNAMIC_DEFINITIONS,
  SPECS,
  type SpecRow,
} from "../../work/definition/rows.ts";
import type { AssetSpec } from "../../work/definition/spec.ts";
import type { EventData } from "../../work/events.ts";
import type { ConflictDocument } from "../../work/run/api.ts";
import { RUN_KEY_CONFLICTS, type RunKeyConflictRow } from "../../work/run/rows.ts";
import { type Handlers, readAt, submitted } from "../http/call.ts";
import { listRows, withinTime } from "../http/read-within.ts";
import { shownSpec } from "./webhooks.ts";

/** Rows of definitions, each with its spec. */
export async function withSpecs(
  rows: readonly DefinitionRow[],
  reader: Reader,
): Promise<{ row: DefinitionRow; spec: SpecRow["body"] }[]> {
  const keys = rows.map(({ spec_hash }) => [spec_hash]);
  const specs = await reader.load(SPECS, keys);
  const byHash = new Map(specs.map((spec) => [spec.spec_hash, spec.body]));
  return rows.map((row) => {
    return { row, spec: present(byHash.get(row.spec_hash), "a definition has its spec") };
  });
}

/** What can be done with definitions. */
export const DEFINITION_HANDLERS = {
  publishDefinitions: (call) =>
    submitted(call, publishDefinitions(call.body), (result) => ({
      message:
        result.changed.length + result.removed.length === 0
          ? "Nothing has changed."
          : `${result.changed.length} published, ${result.removed.length} removed.`,
      ...result,
    })),
  listDefinitions: (call) => {
    const { kind } = call.query;
    const where: Condition[] = kind === undefined ? [] : [{ cell: "kind", is: "=", value: kind }];
    const list = { table: DEFINITIONS, where, along: ["kind", "name"] as const };
    return listRows(call, list, async (rows, reader) =>
      (await withSpecs(rows, reader)).map(({ row, spec }) => {
        return { ...row, spec: shownSpec(spec, call.caller) };
      }),
    );
  },
} satisfies Handlers;

type Side = ConflictDocument["first"];

/** The request that stands at a position. */
async function requestAt(reader: Reader, pos: number): Promise<Side> {
  const [found] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
  const event = present(found, `the request at ${pos} is in the ledger`);
  const data = JSON.parse(event.data) as EventData<"RunRequested">;
  return {
    event_id: event.event_id,
    pos,
    occurred_at: event.occurred_at,
    actor: JSON.parse(event.actor) as Side["actor"],
    asset_selection: data.asset_selection,
    partition_selection: data.partition_selection,
    config: data.config,
    trigger_source_ref: data.trigger_source_ref,
  };
}

async function conflictDocument(row: RunKeyConflictRow, reader: Reader): Promise<ConflictDocument> {
  const first = await requestAt(reader, row.run_pos);
  const conflicting = await requestAt(reader, row.pos);
  const compared = ["asset_selection", "partition_selection", "config"] as const;
  const differences = compared.filter(
    (field) => canonicalJson(first[field]) !== canonicalJson(conflicting[field]),
  );
  const existing_fingerprint = row.request_fingerprint;
  return { ...row, existing_fingerprint, first, conflicting, differences };
}

/** What can be asked about conflicts. */
export const CONFLICT_HANDLERS = {
  listConflicts: (call) =>
    listRows(
      call,
      {
        table: RUN_KEY_CONFLICTS,
        where: withinTime("detected_at", call.query),
        along: ["pos"],
        descending: true,
      },
      async (rows, reader) => {
        const documents: ConflictDocument[] = [];
        for (const row of rows) documents.push(await conflictDocument(row, reader));
        return documents;
      },
    ),
} satisfies Handlers;

/** Definitions of assets as documents, with how many partitions each has now. */
async function assetDocuments(
  rows: readonly DefinitionRow[],
  reader: Reader,
  now: Instant,
): Promise<AssetDocument[]> {
  const assets = (await withSpecs(rows, reader)).flatMap(({ row, spec }) =>
    spec.kind === "asset" ? [{ row, spec }] : [],
  );
  const counts = await dynamicCounts(
    assets.map(({ spec }) => spec),
    reader,
  );
  return assets.map(({ row, spec }) => {
    const count = spec.partitions === null ? null : keyspaceOf(spec.partitions, counts, now).count;
    const { spec_hash, origin, definition_version, published_at } = row;
    const { code_version, code_version_at, row_version } = row;
    return {
      asset_key: row.name,
      spec_hash,
      origin,
      definition_version,
      published_at,
      code_version,
      code_version_at,
      row_version,
      spec,
      partition_count: count,
    };
  });
}

/** How many keys the dynamic definitions of some assets have: all that a count needs. */
export async function dynamicCounts(
  specs: readonly AssetSpec[],
  reader: Reader,
): Promise<DynamicKeys> {
  const names = specs.flatMap(({ partitions }) =>
    partitions === null
      ? []
      : dimensionsOf(partitions).flatMap(({ definition }) =>
          definition.type === "dynamic" ? [definition.name] : [],
        ),
  );
  const keys = [...new Set(names)].map((name) => [name]);
  const rows = await reader.load(DYNAMIC_DEFINITIONS, keys);
  const byName = new Map(rows.map((row) => [row.definition, row]));
  const keysAsked = (): never => {
    throw new AssertionFailure("counting partitions needs no keys");
  };
  return {
    count: (name) => byName.get(name)?.key_count ?? 0,
    removed: (name) => byName.get(name)?.removed ?? [],
    keyAt: keysAsked,
    indexOf: keysAsked,
  };
}

/** What can be done with assets. */
export const ASSET_HANDLERS = {
  listAssets: (call) =>
    listRows(
      call,
      {
        table: DEFINITIONS,
        where: [{ cell: "kind", is: "=", value: "asset" }],
        along: ["name"],
      },
      (rows, reader) => assetDocuments(rows, reader, call.server.now()),
    ),
  getAsset: (call) =>
    readAt(call, async (reader) => {
      const rows = await reader.load(DEFINITIONS, [["asset", call.params.asset_key]]);
      const [answer] = await assetDocuments(rows, reader, call.server.now());
      if (answer === undefined) throw assetNotFound(call.params.asset_key);
      return { answer, pos: (await reader.head()).pos };
    }),
  addPartitionKeys: (call) =>
    submitted(
      call,
      addPartitionKeys({
        ...call.body,
        asset_key: call.params.asset_key,
        request_id: call.body.request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({
        message: `${result.definition} has ${result.count} keys, ${result.added} of them new.`,
        ...result,
      }),
    ),
  removePartitionKeys: (call) =>
    submitted(
      call,
      removePartitionKeys({
        ...call.body,
        asset_key: call.params.asset_key,
        request_id: call.body.request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({
        message: `${result.definition} has ${result.count} keys, ${result.removed} were removed.`,
        ...result,
      }),
    ),
  reportPartitions: (call) =>
    submitted(
      call,
      reportPartitions({
        ...call.body,
        asset_key: call.params.asset_key,
        request_id: call.body.request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({
        message: `Recorded ${result.reported} partitions of ${call.params.asset_key} as materialized.`,
        ...result,
      }),
    ),
  forgetPartitions: (call) =>
    submitted(
      call,
      forgetPartitions({
        ...call.body,
        asset_key: call.params.asset_key,
        request_id: call.body.request_id ?? call.idempotency?.key ?? "",
      }),
      (result) => ({
        message: `Took the reports of ${result.forgotten} partitions of ${call.params.asset_key} back.`,
        ...result,
      }),
    ),
} satisfies Handlers;
