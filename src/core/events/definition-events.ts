import { z } from "zod";
import { Spec } from "../spec.ts";
import { Count, Sha256 } from "./fields.ts";

/**
 * What is defined has changed. Carries the specs that are new or different, under their hash, and
 * the names that are gone; everything else stays as it was.
 */
export const DefinitionsPublished = {
  definition_version: z.int().positive(),
  origin: z.enum(["code", "api"]),
  specs: z.array(z.object({ spec_hash: Sha256, name: z.string(), body: Spec })),
  removed: z.array(z.object({ kind: z.enum(["asset", "pool"]), name: z.string() })),
};

/** Keys were added to a dynamic partition definition; they get ordinals in order from `first_ordinal`. */
export const PartitionKeysAdded = {
  definition: z.string(),
  request_id: z.string(),
  first_ordinal: Count,
  keys: z.array(z.string().min(1)).min(1).max(10_000),
};
