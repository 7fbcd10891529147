import { z } from "zod";
import { Spec, SpecKind } from "./published-spec.ts";
import { Count, InstantText, IntervalPair, Sha256 } from "../envelope.ts";

/** The next time of a schedule: the time in its name, and when it is acted on. */
export const NextTickField = z.object({ scheduled_for: InstantText, due_at: InstantText });

/**
 * What is defined has changed. Carries the specs that are new or different, under their hash, and
 * the names that are gone; everything else stays as it was. Schedules, sensors and webhooks have ids,
 * which their names keep for as long as they are defined.
 */
export const DefinitionsPublished = {
  definition_version: z.int().positive(),
  origin: z.enum(["code", "api"]),
  specs: z.array(
    z.object({
      spec_hash: Sha256,
      name: z.string(),
      body: Spec,
      entity: z.object({ id: z.string(), next: NextTickField.nullable() }).optional(),
    }),
  ),
  removed: z.array(z.object({ kind: SpecKind, name: z.string(), id: z.string().optional() })),
};

/** Keys were added to a dynamic partition definition; they get ordinals in order from `first_ordinal`. */
export const PartitionKeysAdded = {
  definition: z.string(),
  request_id: z.string(),
  first_ordinal: Count,
  keys: z.array(z.string().min(1)).min(1).max(10_000),
};

/** Keys of a dynamic definition, ascending by number, and their numbers from and to. */
const numberedKeys = {
  definition: z.string(),
  request_id: z.string(),
  numbers: z.array(IntervalPair).min(1),
  keys: z.array(z.string().min(1)).min(1).max(10_000),
};

/** Keys were removed from a dynamic partition definition; they keep their numbers. */
export const PartitionKeysRemoved = numberedKeys;

/** Keys that had been removed were added again, each under the number it always had. */
export const PartitionKeysRestored = numberedKeys;
