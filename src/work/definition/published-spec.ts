import { z } from "zod";
import { MoveSpec } from "../move/spec.ts";
import { ShardsSpec } from "../shard/spec.ts";
import { AssetSpec, PoolSpec, ScheduleSpec, SensorSpec, WebhookSpec } from "./spec.ts";
import { SyncSpec } from "../sync/spec.ts";

/** Anything that can be published to the ledger. */
export const Spec = z.discriminatedUnion("kind", [
  AssetSpec,
  PoolSpec,
  ScheduleSpec,
  SensorSpec,
  WebhookSpec,
  SyncSpec,
  ShardsSpec,
  MoveSpec,
]);
export type Spec = z.infer<typeof Spec>;

/** What kind of thing a spec is about. */
export const SpecKind = z.enum([
  "asset",
  "pool",
  "schedule",
  "sensor",
  "webhook",
  "sync",
  "shards",
  "move",
]);

/** A spec of something that acts, so that it has an id and a state of its own. */
export type EntitySpec = ScheduleSpec | SensorSpec | WebhookSpec;

/** What a spec is called within its kind. */
export function nameOfSpec(spec: Spec): string {
  switch (spec.kind) {
    case "asset":
      return spec.asset_key;
    case "pool":
      return spec.pool;
    default:
      return spec.name;
  }
}
