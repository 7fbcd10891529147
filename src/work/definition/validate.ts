import { canonicalJson } from "../../kernel/canonical.ts";
import { cronTimes } from "../../kernel/cron/times.ts";
import { PawlError } from "../../kernel/errors.ts";
import { isTimeZone } from "../../kernel/keyspace/civil-time.ts";
import {
  isSameDefinition,
  isTimeDefinition,
  type PartitionDefinition,
} from "../../kernel/keyspace/definition.ts";
import { isEarlier, mappingFault } from "../../kernel/keyspace/mapping.ts";
import { nearMiss, suggestion } from "../../kernel/message-text.ts";
import { upstreamCycle } from "../asset/lineage.ts";
import type { MoveSpec } from "../move/spec.ts";
import { targetFault } from "../sensor/target.ts";
import { type ShardsSpec, validateMove, validateShards } from "../shard/spec.ts";
import { type SyncSpec, validateSync } from "../sync/spec.ts";
import { templateFault } from "../webhook/template.ts";
import type { EntitySpec, Spec } from "./published-spec.ts";
import {
  type AssetSpec,
  CONFIG_LENGTH_MAX,
  CONFIG_LENGTH_SHARED_MAX,
  lengthFault,
  type ScheduleSpec,
  type SensorSpec,
  isEmailAddress,
  type WebhookSpec,
} from "./spec.ts";

/**
 * Checks what only all specs together can show: no name twice, every upstream asset and pool known,
 * every mapping possible, no cycle, and whatever acts by itself able to. Throws DEFINITION_INVALID.
 */
export function validateSpecs(specs: readonly Spec[]): void {
  const assets = new Map<string, AssetSpec>();
  const pools = new Set<string>();
  const entities = new Map<string, EntitySpec>();
  const syncs = new Map<string, SyncSpec>();
  const moves = new Map<string, MoveSpec>();
  let shards: ShardsSpec | null = null;
  for (const spec of specs) {
    if (spec.kind === "asset") {
      if (assets.has(spec.asset_key)) throw twice("asset", spec.asset_key);
      assets.set(spec.asset_key, spec);
    } else if (spec.kind === "pool") {
      if (pools.has(spec.pool)) throw twice("pool", spec.pool);
      pools.add(spec.pool);
    } else if (spec.kind === "sync") {
      if (syncs.has(spec.name)) throw twice("sync", spec.name);
      syncs.set(spec.name, spec);
    } else if (spec.kind === "shards") {
      if (shards !== null) throw twice("set of", spec.kind);
      shards = spec;
    } else if (spec.kind === "move") {
      if (moves.has(spec.name)) throw twice("move", spec.name);
      moves.set(spec.name, spec);
    } else {
      const name = `${spec.kind} ${spec.name}`;
      if (entities.has(name)) throw twice(spec.kind, spec.name);
      entities.set(name, spec);
    }
  }
  for (const asset of assets.values()) checkReferences(asset, assets, pools);
  const catalogue = {
    get: (key: string) => assets.get(key) ?? null,
    names: () => [...assets.keys()],
  };
  for (const entity of entities.values()) validateEntity(entity, catalogue);
  for (const sync of syncs.values()) validateSync(sync, pools);
  if (shards !== null) validateShards(shards);
  for (const move of moves.values()) validateMove(move, shards);

  const cycle = upstreamCycle([...assets.values()]);
  if (cycle === null) return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `Assets depend on each other in a circle: ${cycle.join(" is made from ")}.`,
    { details: { cycle } },
  );
}

function checkReferences(
  asset: AssetSpec,
  assets: ReadonlyMap<string, AssetSpec>,
  pools: ReadonlySet<string>,
): void {
  if (asset.requires !== undefined && asset.upstream.length === 0) {
    throw invalid(asset, "has requires but no upstream assets; leave requires out.", {});
  }
  const seen = new Set<string>();
  for (const { asset_key, mapping } of asset.upstream) {
    const upstream = assets.get(asset_key);
    if (upstream === undefined) {
      throw invalid(
        asset,
        `names the upstream asset ${JSON.stringify(asset_key)}, which is not ` +
          `defined${suggestion(asset_key, [...assets.keys()])}.`,
        { upstream: asset_key },
      );
    }
    if (seen.has(asset_key)) {
      throw invalid(asset, `names the upstream asset ${asset_key} twice.`, { upstream: asset_key });
    }
    seen.add(asset_key);
    if (upstream === asset && !isEarlier(mapping)) {
      throw invalid(
        asset,
        `names itself as upstream by the mapping ${mapping.type}. It can be made from its own earlier ` +
          "partitions only: use offset(-1), or timeWindow() with an endOffset below 0.",
        { upstream: asset_key, mapping },
      );
    }
    const fault = mappingFault(mapping, asset.partitions, upstream.partitions);
    if (fault === null) continue;
    throw invalid(asset, `cannot be mapped to its upstream asset ${asset_key}: ${fault}`, {
      upstream: asset_key,
      mapping,
    });
  }
  if (asset.pool === null || pools.has(asset.pool)) return;
  throw invalid(
    asset,
    `uses the pool ${JSON.stringify(asset.pool)}, which is not ` +
      `defined${suggestion(asset.pool, [...pools])}.`,
    { pool: asset.pool },
  );
}

function invalid(asset: AssetSpec, fault: string, details: Record<string, unknown>): PawlError {
  return new PawlError("DEFINITION_INVALID", `The asset ${asset.asset_key} ${fault}`, {
    details: { asset_key: asset.asset_key, ...details },
  });
}

function twice(kind: string, name: string): PawlError {
  return new PawlError("DEFINITION_INVALID", `The ${kind} ${name} is defined twice.`, {
    details: { [kind]: name },
  });
}

/** Where a spec's references are looked up. */
export type AssetCatalogue = {
  get(assetKey: string): AssetSpec | null;
  /** Names to suggest for one that is not there. */
  names(): readonly string[];
};

/**
 * Checks what acts by itself against the assets there are, so that nothing is published whose every
 * tick or evaluation would fail. Throws DEFINITION_INVALID.
 */
export function validateEntity(spec: EntitySpec, assets: AssetCatalogue): void {
  switch (spec.kind) {
    case "schedule":
      return validateSchedule(spec, assets);
    case "sensor":
      return validateSensor(spec, assets);
    case "webhook":
      return validateWebhook(spec, assets);
  }
}

/** The assets that something that acts by itself names. */
export function namedAssets(spec: EntitySpec): readonly string[] {
  switch (spec.kind) {
    case "schedule":
      return spec.asset_selection;
    case "sensor":
      return [...watchedAssets(spec), ...(spec.target?.asset_selection ?? [])];
    case "webhook":
      return spec.assets;
  }
}

function watchedAssets({ watch }: SensorSpec): readonly string[] {
  if (watch?.type === "materializations") return [watch.asset_key];
  return watch?.type === "run_failures" ? watch.assets : [];
}

function validateSchedule(spec: ScheduleSpec, assets: AssetCatalogue): void {
  if (!isTimeZone(spec.timezone)) {
    throw invalidEntity(
      spec,
      `names the time zone ${JSON.stringify(spec.timezone)}, which is none; use an IANA name such ` +
        "as Europe/Berlin.",
    );
  }
  const times = cronTimes(spec.cron, spec.timezone);
  if (typeof times === "string")
    throw invalidEntity(spec, `has a cron expression that is wrong: ${times}.`);
  for (const bound of [spec.starts_at, spec.ends_at]) {
    if (bound === null || isRealInstant(bound)) continue;
    throw invalidEntity(spec, `is bounded by ${bound}, which is no instant before the year 9999.`);
  }
  if (spec.starts_at !== null && spec.ends_at !== null && spec.starts_at >= spec.ends_at) {
    throw invalidEntity(
      spec,
      `starts at ${spec.starts_at}, which is not before its end ${spec.ends_at}.`,
    );
  }
  if (spec.selection.type === "stale") {
    // A backfill may cross definitions, which one run may not.
    for (const assetKey of spec.asset_selection) assetToMake(spec, assetKey, assets);
  }
  const fault =
    spec.selection.type === "stale"
      ? staleFault(spec)
      : selectionFault(spec, sharedPartitions(spec, spec.asset_selection, assets));
  if (fault !== null) throw invalidEntity(spec, fault);
}

function staleFault({ overlap }: ScheduleSpec): string | null {
  return overlap === "buffer_one"
    ? "looks for what is stale, and then one more tick is no use: set overlap to skip or allow."
    : null;
}

/** Later ones could not be written with the jitter that comes on top. */
function isRealInstant(text: string): boolean {
  const epochMs = Date.parse(text);
  return !Number.isNaN(epochMs) && new Date(epochMs).toISOString() === text && text < "9999";
}

function selectionFault(
  { selection }: ScheduleSpec,
  partitions: PartitionDefinition | null,
): string | null {
  if (partitions === null) {
    return selection.type === "whole"
      ? null
      : "selects partitions of assets that have none; set selection to whole.";
  }
  if (selection.type === "whole") {
    return (
      "is for assets with partitions, so it must say which: tick_time for the partition that the " +
      "tick's time falls in, all, explicit keys, or stale."
    );
  }
  if (selection.type !== "tick_time") return null;
  const dimensions =
    partitions.type === "multi" ? Object.values(partitions.dimensions) : [partitions];
  return dimensions.filter((dimension) => isTimeDefinition(dimension)).length === 1
    ? null
    : "selects by the tick's time, but the assets' partitions have no time dimension, or several.";
}

/** The partition definition that all the assets share; null when they have none. */
function sharedPartitions(
  spec: EntitySpec,
  assetKeys: readonly string[],
  assets: AssetCatalogue,
): PartitionDefinition | null {
  const [first, ...others] = assetKeys.map((assetKey) => assetToMake(spec, assetKey, assets));
  const partitions = first?.partitions ?? null;
  for (const other of others) {
    const isSame =
      partitions === null || other.partitions === null
        ? partitions === other.partitions
        : isSameDefinition(partitions, other.partitions);
    if (isSame) continue;
    throw invalidEntity(
      spec,
      `asks for ${first?.asset_key} and ${other.asset_key}, whose partitions differ, so one run ` +
        "cannot hold both; make one for each.",
    );
  }
  return partitions;
}

/** What a schedule or a sensor gives its runs, and how long the configuration may be. */
function givenToRuns(spec: EntitySpec) {
  const { kind, labels } = spec;
  if (kind === "schedule") return { labels, config: spec.config, most: CONFIG_LENGTH_SHARED_MAX };
  if (kind === "webhook") return null;
  return { labels, config: spec.target?.config ?? null, most: CONFIG_LENGTH_MAX };
}

/** What is too long of what a spec gives its runs, as the end of a sentence; null when nothing is. */
export function longPart(spec: EntitySpec): string | null {
  const given = givenToRuns(spec);
  return given === null ? null : lengthFault(given, given.most);
}

/**
 * Refuses what is too long for runs, unless the spec before gave them the same: one that was published
 * before there was a limit goes on, and can be changed otherwise. Throws DEFINITION_INVALID.
 */
export function validateLengths(spec: EntitySpec, before: EntitySpec | null): void {
  const fault = longPart(spec);
  if (fault === null) return;
  const isAsBefore =
    before !== null && canonicalJson(givenToRuns(before)) === canonicalJson(givenToRuns(spec));
  if (!isAsBefore) throw invalidEntity(spec, `has ${fault}.`);
}

function validateSensor(spec: SensorSpec, assets: AssetCatalogue): void {
  const { watch, target, mode } = spec;
  if (mode === "push" && watch !== null) {
    throw invalidEntity(
      spec,
      "is pushed to, so it cannot watch anything; set mode to poll or watch to null.",
    );
  }
  for (const assetKey of watchedAssets(spec)) knownAsset(spec, assetKey, assets);
  if (target === null) return;
  const fault = targetFault(target);
  if (fault !== null) throw invalidEntity(spec, `cannot ask for a run. ${fault}`);
  const partitions = sharedPartitions(spec, target.asset_selection, assets);
  if (partitions !== null && target.partition_key === null) {
    throw invalidEntity(
      spec,
      "asks for assets with partitions, so its target must say which, such as {partition_key}.",
    );
  }
  if (partitions === null && target.partition_key !== null) {
    throw invalidEntity(
      spec,
      "names a partition of assets that have none; leave partition_key out.",
    );
  }
}

function validateWebhook(spec: WebhookSpec, assets: AssetCatalogue): void {
  const wrong = receiverFaultOf(spec);
  if (wrong !== null) throw invalidEntity(spec, wrong);
  for (const assetKey of spec.assets) knownAsset(spec, assetKey, assets);
  const { template, notifications, email } = spec;
  for (const text of [template, email?.subject]) {
    const fault = text === undefined ? null : templateFault(text, notifications);
    if (fault !== null) throw invalidEntity(spec, fault);
  }
  const missing = spec.digest === undefined ? null : missingInDigest(notifications);
  if (missing === null) return;
  throw invalidEntity(
    spec,
    `has digest set to backfill, so it is not notified of a backfill's runs; add ${missing} to its ` +
      "notifications, or it would not be notified how a backfill went.",
  );
}

/** What is wrong with whom a webhook tells, as the end of a sentence; null for nothing. */
function receiverFaultOf({ url, email, format }: WebhookSpec): string | null {
  if (url !== undefined && email !== undefined) {
    return "has both a url and email; give one, and define another webhook for the other.";
  }
  if (email !== undefined) return emailFault(email, format);
  if (url === undefined) return "has neither a url nor email; give the one that it is to notify.";
  if (/^https?:\/\/[^/?#@\s]+(?:[/?#]\S*)?$/.test(url)) return null;
  return (
    `has the address ${JSON.stringify(url)}; it must be a whole http or https URL without a ` +
    "user name in it. For e-mail use email instead."
  );
}

function emailFault(
  { to, subject }: NonNullable<WebhookSpec["email"]>,
  format: WebhookSpec["format"],
): string | null {
  const wrong = to.find((address) => !isEmailAddress(address));
  if (wrong !== undefined) {
    return (
      `sends e-mail to ${JSON.stringify(wrong)}, which is not an address; write one such as ` +
      "ops@example.com, without a name, quotes or spaces, and a domain with other letters as xn--…."
    );
  }
  const names = to.map((address) => address.toLowerCase());
  const repeated = to.find((_, index) => names.indexOf(names[index] ?? "") !== index);
  if (repeated !== undefined) return `sends e-mail to ${repeated} twice; name each address once.`;
  if (subject !== undefined && /\p{Cc}|[\u2028\u2029]/u.test(subject)) {
    return `has the subject ${JSON.stringify(subject)}; it must be one line without control characters.`;
  }
  if (format !== undefined) {
    return `sends e-mail, which has its own form; leave the format ${format} out.`;
  }
  return null;
}

/** What a digest needs to be told of, so that nothing is left out without a word. */
function missingInDigest(notifications: WebhookSpec["notifications"]): string | null {
  if (notifications.includes("run.failed")) {
    return notifications.includes("backfill.failed") ? null : "backfill.failed";
  }
  const isTold = notifications.some((type) => type.startsWith("backfill."));
  return isTold ? null : "backfill.failed";
}

function knownAsset(spec: EntitySpec, assetKey: string, assets: AssetCatalogue): AssetSpec {
  const found = assets.get(assetKey);
  if (found !== null) return found;
  const meant = nearMiss(assetKey, assets.names());
  const hint = meant === null ? "" : ` (perhaps ${meant} is meant)`;
  throw invalidEntity(
    spec,
    `names the asset ${JSON.stringify(assetKey)}, which is not defined${hint}.`,
  );
}

/** An asset that is asked for, and therefore not made elsewhere. */
function assetToMake(spec: EntitySpec, assetKey: string, assets: AssetCatalogue): AssetSpec {
  const found = knownAsset(spec, assetKey, assets);
  if (found.external !== true) return found;
  throw invalidEntity(
    spec,
    `asks for ${assetKey}, which is external: it is made elsewhere and never run here.`,
  );
}

function invalidEntity(spec: EntitySpec, fault: string): PawlError {
  return new PawlError("DEFINITION_INVALID", `The ${spec.kind} ${spec.name} ${fault}`, {
    details: { kind: spec.kind, name: spec.name },
  });
}
