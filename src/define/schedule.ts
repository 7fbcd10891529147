import { ScheduleSpec } from "../work/definition/spec.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import type { StaleReason } from "../kernel/keyspace/selector.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/**
 * What of its assets a tick asks for: all of them where they have no partitions, the partition that
 * the tick's time falls in or one before it, every partition, those named, or those that are stale.
 */
export type ScheduleSelectionOption =
  | "whole"
  | "current"
  | "previous"
  | "all"
  | "stale"
  | { offset: number }
  | { partitions: readonly string[] }
  | { stale: { limit?: number; reasons?: readonly StaleReason[] } };

/** Everything that can be said about a schedule. */
export type ScheduleOptions = {
  /** Five fields, six with seconds, or a word such as `@daily`. */
  cron: string;
  assets: AssetReference | readonly AssetReference[];
  /** An IANA name; UTC when left out. */
  timezone?: string;
  /** Must be given where the assets have partitions. */
  selection?: ScheduleSelectionOption;
  /** What the runs are given as configuration. */
  config?: Json;
  priority?: number;
  /** What a tick does while a run of the schedule still goes on; `skip` for what is stale. */
  overlap?: ScheduleSpec["overlap"];
  catchupWindowMinutes?: number;
  maxCatchupTicks?: number;
  catchUpOnResume?: boolean;
  jitterMs?: number;
  /** Times before this, or from `endsAt` on, are none of the schedule's. */
  startsAt?: string | Date;
  endsAt?: string | Date;
  enabled?: boolean;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

const OPTIONS = [
  "cron",
  "assets",
  "timezone",
  "selection",
  "config",
  "priority",
  "overlap",
  "catchupWindowMinutes",
  "maxCatchupTicks",
  "catchUpOnResume",
  "jitterMs",
  "startsAt",
  "endsAt",
  "enabled",
  "description",
  "labels",
];

/** Defines a schedule: when runs of which assets are asked for. */
export function schedule(name: string, options: ScheduleOptions): ScheduleSpec {
  const subject = `The schedule ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const selection = selectionOf(subject, options.selection ?? "whole");
  const given = withoutUndefined({
    kind: "schedule",
    name,
    description: options.description,
    labels: options.labels,
    enabled: options.enabled,
    cron: options.cron,
    timezone: options.timezone,
    asset_selection: assetKeysOf(options.assets ?? []),
    selection,
    config: options.config,
    priority: options.priority,
    // Two backfills of the same stale partitions at once would be refused as overlapping anyway.
    overlap: options.overlap ?? (selection["type"] === "stale" ? "skip" : undefined),
    catchup_window_minutes: options.catchupWindowMinutes,
    max_catchup_ticks: options.maxCatchupTicks,
    catch_up_on_resume: options.catchUpOnResume,
    jitter_ms: options.jitterMs,
    starts_at: instantOption(subject, "startsAt", options.startsAt),
    ends_at: instantOption(subject, "endsAt", options.endsAt),
  });
  const spec = Object.freeze(parseDefinition(subject, ScheduleSpec, given));
  const references = Array.isArray(options.assets) ? options.assets : [options.assets];
  for (const each of references) {
    if (typeof each !== "string") requireSelection(spec, each.key, each.spec.partitions !== null);
  }
  return spec;
}

/** Refuses a schedule that does not say which partitions of an asset it means. */
export function requireSelection(
  spec: ScheduleSpec,
  assetKey: string,
  hasPartitions: boolean,
): void {
  if (!hasPartitions || spec.selection.type !== "whole") return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `The schedule ${JSON.stringify(spec.name)} is for the asset ${assetKey}, which has partitions, ` +
      'so it must say which: selection "current" or "previous" for the one by the time of the ' +
      'tick, "all", "stale", or { partitions: […] }.',
    { details: { schedule: spec.name, asset_key: assetKey } },
  );
}

function selectionOf(subject: string, option: ScheduleSelectionOption): Record<string, unknown> {
  switch (option) {
    case "whole":
    case "all":
    case "stale":
      return { type: option };
    case "current":
      return { type: "tick_time", offset: 0 };
    case "previous":
      return { type: "tick_time", offset: -1 };
    default:
  }
  if (typeof option === "object" && option !== null && Object.keys(option).length === 1) {
    refuseUnknownOptions(`${subject}, in selection,`, option, ["offset", "partitions", "stale"]);
    if ("offset" in option) return { type: "tick_time", offset: option.offset };
    if ("partitions" in option) return { type: "explicit", partition_keys: [...option.partitions] };
    refuseUnknownOptions(`${subject}, in selection.stale,`, option.stale, ["limit", "reasons"]);
    return { type: "stale", ...withoutUndefined({ ...option.stale }) };
  }
  throw new PawlError(
    "DEFINITION_INVALID",
    `${subject} has the selection ${JSON.stringify(option)}; it must be "whole", "current", ` +
      '"previous", "all", "stale", { offset }, { partitions } or { stale: { limit, reasons } }.',
    { details: { selection: option } },
  );
}

/** The instant as it is kept. A text must name its offset: there is no local time to read it in. */
function instantOption(
  subject: string,
  name: string,
  value: string | Date | undefined,
): string | undefined {
  if (value === undefined) return undefined;
  const isExact = value instanceof Date || /^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:?\d\d)$/.test(value);
  const at = isExact ? new Date(value) : null;
  if (at !== null && !Number.isNaN(at.getTime())) return at.toISOString();
  throw new PawlError(
    "DEFINITION_INVALID",
    `${subject} has ${name} ${JSON.stringify(value)}; it must be a Date or a text such as ` +
      "2025-01-31T08:00:00Z.",
    { details: { option: name } },
  );
}
