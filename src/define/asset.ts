import { PawlError } from "../kernel/errors.ts";
import type { PartitionDefinition } from "../kernel/keyspace/definition.ts";
import type { PartitionMapping } from "../kernel/keyspace/mapping.ts";
import { AssetSpec, PoolSpec } from "../work/definition/spec.ts";
import type { Check } from "./check.ts";
import type { Materialize } from "./automation-context.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** An upstream asset, by key or as it was defined, perhaps with how partitions map to it. */
export type UpstreamOption = string | Asset | { asset: string | Asset; mapping?: PartitionMapping };

/** When a failed task is tried again. */
export type RetryOptions = {
  maxAttempts?: number | "unbounded";
  /** Attempts in a row that may be lost with their worker, apart from those that fail; 10 unless told. */
  maxLostAttempts?: number | "unbounded";
  delayMs?: number;
  factor?: number;
  maxDelayMs?: number;
  /** How much of the delay is left to chance, from 0 to 1. */
  jitter?: number;
};

/**
 * What all upstream partitions have to be before a partition is made: there, or there and not stale;
 * by itself, or with what happens otherwise.
 */
export type RequiresOption =
  | "materialized"
  | "fresh"
  | {
      upstream: "materialized" | "fresh";
      /** `wait` unless told. */
      otherwise?: "wait" | "skip" | "fail";
      /** How long a task waits before it fails; a week unless told. */
      waitTimeoutMs?: number;
    };

/** Everything that can be said about an asset. */
export type AssetOptions = {
  materialize: Materialize;
  partitions?: PartitionDefinition;
  upstream?: readonly UpstreamOption[];
  /** What the upstream partitions have to be before a partition is made; nothing unless told. */
  requires?: RequiresOption;
  retry?: RetryOptions;
  /** One call for a whole chunk of partitions instead of one call for each. */
  batch?: boolean;
  /** Halve a batch that fails as a whole until what fails stands alone. */
  bisect?: boolean;
  pool?: string | { pool: string };
  timeoutMs?: number;
  stallAfterMs?: number;
  freshness?: { maximumLagMinutes: number };
  /** What judges each partition after it was made. */
  checks?: readonly Check[];
  codeVersion?: string;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

/** An asset as defined: its spec, where upstream mappings may still be open, and its function. */
export type Asset = {
  readonly key: string;
  /** The spec but for its upstream assets, which only all assets together can settle. */
  readonly spec: AssetSpec;
  readonly upstream: readonly { asset_key: string; mapping: PartitionMapping | null }[];
  /** Null for an asset that is made elsewhere. */
  readonly materialize: Materialize | null;
  readonly checks: readonly Check[];
};

/** An asset, by key or as it was defined. */
export type AssetReference = string | Asset;

const OPTIONS = [
  "materialize",
  "partitions",
  "upstream",
  "requires",
  "retry",
  "batch",
  "bisect",
  "pool",
  "timeoutMs",
  "stallAfterMs",
  "freshness",
  "checks",
  "codeVersion",
  "description",
  "labels",
];

const RETRY_OPTIONS = [
  "maxAttempts",
  "maxLostAttempts",
  "delayMs",
  "factor",
  "maxDelayMs",
  "jitter",
];

/** Defines an asset: something made of partitions, and the function that makes one. */
export function asset(
  key: string,
  options: AssetOptions,
): Asset & { readonly materialize: Materialize } {
  const subject = `The asset ${JSON.stringify(key)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  if (typeof options.materialize !== "function") {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} needs a function materialize, not ` +
        `${JSON.stringify(options.materialize) ?? "nothing"}.`,
      { details: { asset_key: key } },
    );
  }
  const upstream = (options.upstream ?? []).map((each) => upstreamOf(subject, each));
  const spec = parseDefinition(subject, AssetSpec, specOf(subject, key, options));
  if (spec.bisect && !spec.batch) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has bisect without batch; only a batch can be halved.`,
      { details: { asset_key: key } },
    );
  }
  if (spec.requires !== undefined && upstream.length === 0) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has requires but no upstream, so there is nothing that could be there; name the ` +
        "assets that it is made from in upstream, or leave requires out.",
      { details: { asset_key: key } },
    );
  }
  const { materialize, checks = [] } = options;
  return Object.freeze({ key, spec, upstream, materialize, checks });
}

/** Everything that can be said about an asset that is made elsewhere. */
export type ExternalAssetOptions = Pick<
  AssetOptions,
  "partitions" | "freshness" | "codeVersion" | "description" | "labels"
>;

const EXTERNAL_OPTIONS = ["partitions", "freshness", "codeVersion", "description", "labels"];

/**
 * Defines an asset that is made elsewhere: it is never run here, but others may be made from it, and
 * what was made of it is reported with `pawl partitions report` or over the API.
 */
export function externalAsset(key: string, options: ExternalAssetOptions = {}): Asset {
  const subject = `The external asset ${JSON.stringify(key)}`;
  refuseUnknownOptions(subject, options, EXTERNAL_OPTIONS);
  const said = { ...specOf(subject, key, options), external: true };
  const spec = parseDefinition(subject, AssetSpec, said);
  return Object.freeze({ key, spec, upstream: [], materialize: null, checks: [] });
}

function specOf(
  subject: string,
  key: string,
  options: Omit<AssetOptions, "materialize">,
): Record<string, unknown> {
  const { retry, freshness, pool: within } = options;
  if (freshness !== undefined) {
    refuseUnknownOptions(`${subject}, in freshness,`, freshness, ["maximumLagMinutes"]);
  }
  return withoutUndefined({
    kind: "asset",
    asset_key: key,
    description: options.description,
    partitions: options.partitions ?? null,
    retry: retry === undefined ? undefined : retryFrom(subject, retry),
    batch: options.batch,
    bisect: options.bisect,
    pool: typeof within === "object" ? within.pool : within,
    timeout_ms: options.timeoutMs,
    stall_after_ms: options.stallAfterMs,
    freshness:
      freshness === undefined ? undefined : { maximum_lag_minutes: freshness.maximumLagMinutes },
    checks: checksOf(subject, options.checks),
    requires: requiresOf(subject, options.requires),
    code_version: options.codeVersion,
    labels: options.labels,
  });
}

function checksOf(subject: string, checks: AssetOptions["checks"] = []) {
  if (checks.length === 0) return undefined;
  return checks.map((each) => {
    if (typeof each?.judge === "function") return each.spec;
    const shown = JSON.stringify(each) ?? "nothing";
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has ${shown} among its checks; make each with check("name", function).`,
    );
  });
}

function requiresOf(subject: string, requires: AssetOptions["requires"]) {
  if (typeof requires !== "object") {
    return requires === undefined ? undefined : { upstream: requires };
  }
  refuseUnknownOptions(`${subject}, in requires,`, requires, [
    "upstream",
    "otherwise",
    "waitTimeoutMs",
  ]);
  const { upstream, otherwise, waitTimeoutMs } = requires;
  if (waitTimeoutMs !== undefined && otherwise !== undefined && otherwise !== "wait") {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has waitTimeoutMs in requires, but never waits: otherwise is ${otherwise}. Leave one of them out.`,
    );
  }
  return withoutUndefined({ upstream, otherwise, wait_timeout_ms: waitTimeoutMs });
}

/** A retry policy as it is published, but for what is not said. */
export function retryFrom(subject: string, retry: RetryOptions): Record<string, unknown> {
  refuseUnknownOptions(`${subject}, in retry,`, retry, RETRY_OPTIONS);
  return withoutUndefined({
    max_attempts: retry.maxAttempts === "unbounded" ? null : retry.maxAttempts,
    max_lost_attempts: retry.maxLostAttempts === "unbounded" ? null : retry.maxLostAttempts,
    delay_ms: retry.delayMs,
    factor: retry.factor,
    max_delay_ms: retry.maxDelayMs,
    jitter: retry.jitter,
  });
}

function upstreamOf(subject: string, option: UpstreamOption): Asset["upstream"][number] {
  if (typeof option === "string") return { asset_key: option, mapping: null };
  if ("spec" in option) return { asset_key: option.key, mapping: null };
  refuseUnknownOptions(`${subject}, in upstream,`, option, ["asset", "mapping"]);
  const key = typeof option.asset === "string" ? option.asset : option.asset.key;
  return { asset_key: key, mapping: option.mapping ?? null };
}

/** The keys of assets, however they are named. */
export function assetKeysOf(assets: AssetReference | readonly AssetReference[]): string[] {
  const references = isReference(assets) ? [assets] : assets;
  return references.map((each) => (typeof each === "string" ? each : each.key));
}

function isReference(assets: AssetReference | readonly AssetReference[]): assets is AssetReference {
  return !Array.isArray(assets);
}

/** A pool: at most `limit` tasks of the assets that name it run at once. */
export function pool(name: string, options: { limit: number }): PoolSpec {
  const subject = `The pool ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, ["limit"]);
  const spec = { kind: "pool", pool: name, limit: options.limit };
  return Object.freeze(parseDefinition(subject, PoolSpec, spec));
}
