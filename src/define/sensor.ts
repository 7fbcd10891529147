import { SensorSpec } from "../work/definition/automation.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { type AssetReference, assetKeysOf } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";
import type { Evaluate } from "./automation-context.ts";
import type { ListObjects, Watch } from "./watches.ts";

/**
 * The run that each item or message asks for. Texts may name fields of it in braces: `{stem}`,
 * `{payload.region}`.
 */
export type SensorTargetOptions = {
  assets: AssetReference | readonly AssetReference[];
  partition?: string;
  /** Two items with the same run key are one run. */
  runKey?: string;
  config?: Json;
};

/** Everything that can be said about a sensor. */
export type SensorOptions<Item = never> = {
  /** Decides what to ask for; or leave that to `target`. */
  evaluate?: Evaluate<Item>;
  target?: SensorTargetOptions;
  /** What to look at, where Pawl does the looking. */
  watch?: Watch<Item>;
  /** Whether messages are pushed to it instead of it being called every so often. */
  push?: boolean;
  /** How long after one evaluation the next may come; 30 s unless told. */
  minIntervalMs?: number;
  timeoutMs?: number;
  /** Most runs that one evaluation may ask for, and most items that a look finds; 100 unless told. */
  maxRunRequests?: number;
  enabled?: boolean;
  description?: string;
  labels?: Readonly<Record<string, string>>;
};

/** What only workers have of a sensor: functions, and addresses that are nobody else's business. */
export type SensorCode = {
  readonly evaluate: Evaluate<Json> | null;
  readonly list: ListObjects | null;
  readonly database: string | null;
};

/** A sensor as defined. */
export type Sensor = {
  readonly name: string;
  readonly spec: SensorSpec;
  readonly code: SensorCode;
};

const OPTIONS = [
  "evaluate",
  "target",
  "watch",
  "push",
  "minIntervalMs",
  "timeoutMs",
  "maxRunRequests",
  "enabled",
  "description",
  "labels",
];

const TARGET_OPTIONS = ["assets", "partition", "runKey", "config"];

const MAX_RUN_REQUESTS = 100;

/** Defines a sensor: something that asks for runs when the world has changed. */
export function sensor<Item = never>(name: string, options: SensorOptions<Item>): Sensor {
  const subject = `The sensor ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  const fault = faultOf(options);
  if (fault !== null) {
    throw new PawlError("DEFINITION_INVALID", `${subject} ${fault}`, { details: { sensor: name } });
  }
  const { watch } = options;
  const spec = parseDefinition(subject, SensorSpec, specOf(subject, name, options));
  return Object.freeze({
    name,
    spec: Object.freeze(spec),
    code: Object.freeze({
      // The items of a watch are what its type says they are.
      evaluate: (options.evaluate as Evaluate<Json> | undefined) ?? null,
      list: watch?.list ?? null,
      database: watch?.database ?? null,
    }),
  });
}

function faultOf<Item>({ evaluate, target, watch, push }: SensorOptions<Item>): string | null {
  if (evaluate !== undefined && typeof evaluate !== "function") {
    return `needs a function evaluate, not ${JSON.stringify(evaluate)}.`;
  }
  if (evaluate === undefined && target === undefined) {
    return "needs a function evaluate, or a target that says which run to ask for.";
  }
  if (evaluate !== undefined && target !== undefined) {
    return "has both evaluate and target; the function decides, or the target does.";
  }
  if (push === true && watch !== undefined) {
    return "is pushed to, so it cannot watch anything; leave out push or watch.";
  }
  if (target !== undefined && push !== true && watch === undefined) {
    return "has a target but nothing to look at; give it a watch such as newFiles(), or push: true.";
  }
  if (watch !== undefined && (typeof watch !== "object" || !("spec" in watch))) {
    return "has a watch that is none; make one with newFiles(), newRows() and the like.";
  }
  return null;
}

function specOf<Item>(
  subject: string,
  name: string,
  options: SensorOptions<Item>,
): Record<string, unknown> {
  const { watch, target } = options;
  if (target !== undefined) {
    refuseUnknownOptions(`${subject}, in target,`, target, TARGET_OPTIONS);
  }
  return withoutUndefined({
    kind: "sensor",
    name,
    description: options.description,
    labels: options.labels,
    enabled: options.enabled,
    mode: options.push === true ? "push" : "poll",
    watch: watch === undefined ? undefined : watchOf(watch, options.maxRunRequests),
    target:
      target === undefined
        ? undefined
        : withoutUndefined({
            asset_selection: assetKeysOf(target.assets),
            partition_key: target.partition,
            run_key: target.runKey,
            config: target.config,
          }),
    min_interval_ms: options.minIntervalMs,
    timeout_ms: options.timeoutMs,
    max_run_requests: options.maxRunRequests,
  });
}

/** As many rows as may each ask for a run, unless the watch says how many. */
function watchOf({ spec, limit }: Watch, maxRunRequests = MAX_RUN_REQUESTS): Watch["spec"] {
  return spec.type === "rows" && limit === null ? { ...spec, limit: maxRunRequests } : spec;
}
