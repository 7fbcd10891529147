import { PawlError } from "../kernel/errors.ts";
import { defaultMapping } from "../kernel/keyspace/mapping.ts";
import type { Spec } from "../work/definition/published-spec.ts";
import {
  AssetSpec,
  type PoolSpec,
  type ScheduleSpec,
  type WebhookSpec,
} from "../work/definition/spec.ts";
import { validateSpecs } from "../work/definition/validate.ts";
import type { Asset } from "./asset.ts";
import type { Check } from "./check.ts";
import { parseDefinition, refuseUnknownOptions } from "./parse-definition.ts";
import type { Move } from "./move.ts";
import { requireSelection } from "./schedule.ts";
import type { Sensor, SensorCode } from "./sensor.ts";
import type { ShardAddress, Shards } from "./shards.ts";
import type { SyncCode, Materialize } from "./automation-context.ts";
import type { Sync } from "./sync.ts";

/** Everything a project defines: specs to publish, and the functions that only workers have. */
export type Project = {
  readonly specs: readonly Spec[];
  readonly functions: ReadonlyMap<string, Materialize>;
  /** The checks of the assets that have some, by asset. */
  readonly checks: ReadonlyMap<string, readonly Check[]>;
  /** What workers have of the sensors that need more than their spec. */
  readonly sensors: ReadonlyMap<string, SensorCode>;
  /** The functions of the syncs, by name. */
  readonly syncs: ReadonlyMap<string, SyncCode>;
  /** Where the shards are, by name. */
  readonly shards: ReadonlyMap<string, ShardAddress>;
  /** Whether workers may change schemas of shards as part of a split. */
  readonly allowsDdl: boolean;
};

/** Everything that makes up a project. */
export type ProjectOptions = {
  assets?: readonly Asset[];
  syncs?: readonly Sync[];
  pools?: readonly PoolSpec[];
  schedules?: readonly ScheduleSpec[];
  sensors?: readonly Sensor[];
  webhooks?: readonly WebhookSpec[];
  shards?: Shards;
  moves?: readonly Move[];
};

const OPTIONS = ["assets", "syncs", "pools", "schedules", "sensors", "webhooks", "shards", "moves"];

/** Puts a project together and checks it as a whole. Throws DEFINITION_INVALID. */
export function definePawl(options: ProjectOptions): Project {
  refuseUnknownOptions("definePawl()", options, OPTIONS);
  const { pools = [], schedules = [], sensors = [], webhooks = [] } = options;
  const { syncs = [], shards, moves = [] } = options;
  const defined = options.assets ?? [];
  const byKey = new Map(defined.map((asset) => [asset.key, asset]));
  const assets = defined.map((asset) => completed(asset, byKey));
  requireSelections(schedules, byKey);
  const sensorSpecs = sensors.map(({ spec }) => spec);
  const syncSpecs = syncs.map(({ spec }) => spec);
  const specs = [
    ...assets,
    ...pools,
    ...schedules,
    ...sensorSpecs,
    ...webhooks,
    ...syncSpecs,
    ...(shards === undefined ? [] : [shards.spec]),
    ...moves.map(({ spec }) => spec),
  ];
  validateSpecs(specs);
  return Object.freeze({
    specs: Object.freeze(specs),
    functions: new Map(
      defined.flatMap(({ key, materialize }): [string, Materialize][] =>
        materialize === null ? [] : [[key, materialize]],
      ),
    ),
    checks: new Map(
      defined.flatMap(({ key, checks }) => (checks.length === 0 ? [] : [[key, checks] as const])),
    ),
    sensors: new Map(
      sensors.filter(({ code }) => hasCode(code)).map(({ name, code }) => [name, code]),
    ),
    syncs: new Map(syncs.map(({ name, code }) => [name, code])),
    shards: shards?.addresses ?? new Map(),
    allowsDdl: shards?.allowsDdl ?? false,
  });
}

function hasCode({ evaluate, list, database }: SensorCode): boolean {
  return evaluate !== null || list !== null || database !== null;
}

/** Said here in the words of the options; only then are the specs held against each other. */
function requireSelections(
  schedules: readonly ScheduleSpec[],
  assets: ReadonlyMap<string, Asset>,
): void {
  for (const schedule of schedules) {
    for (const key of schedule.asset_selection) {
      const partitions = assets.get(key)?.spec.partitions ?? null;
      requireSelection(schedule, key, partitions !== null);
    }
  }
}

/** The asset's spec with a mapping to every upstream asset. */
function completed(asset: Asset, byKey: ReadonlyMap<string, Asset>): AssetSpec {
  const upstream = asset.upstream.map(({ asset_key, mapping }) => {
    if (mapping !== null) return { asset_key, mapping };
    const other = byKey.get(asset_key);
    // An asset that is not defined is reported with all other references, whatever the mapping.
    if (other === undefined) return { asset_key, mapping: { type: "all" as const } };
    const meant = defaultMapping(asset.spec.partitions, other.spec.partitions);
    if (meant !== null) return { asset_key, mapping: meant };
    throw new PawlError(
      "DEFINITION_INVALID",
      `The asset ${asset.key} does not say how its partitions map to those of ${asset_key}; name ` +
        "a mapping such as dimension(), table() or allPartitions().",
      { details: { asset_key: asset.key, upstream: asset_key } },
    );
  });
  const subject = `The asset ${JSON.stringify(asset.key)}`;
  return Object.freeze(parseDefinition(subject, AssetSpec, { ...asset.spec, upstream }));
}
