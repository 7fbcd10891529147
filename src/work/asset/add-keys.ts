import { PawlError } from "../../kernel/errors.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { dimensionsOf } from "../../kernel/keyspace/definition.ts";
import type { AssetSpec } from "../definition/spec.ts";
import { currentAsset, dynamicKeysOf } from "./look-up.ts";
import type { Decide } from "../decision.ts";

/** Keys for the dynamic partitions of an asset, or of one of its dimensions. */
export type AddKeysInput = {
  asset_key: string;
  request_id: string;
  keys: readonly string[];
  dimension?: string | undefined;
};

/** What became of the keys. */
export type KeysAdded = { definition: string; added: number; existing: number; count: number };

/** Adds keys to a dynamic partition definition; those it has already are left alone. */
export function addPartitionKeys(input: AddKeysInput): Decide<KeysAdded> {
  return (rows, { principal }) => {
    const { spec } = currentAsset(rows, input.asset_key);
    const definition = dynamicName(spec, input.dimension);
    const known = dynamicKeysOf(rows);
    const distinct = [...new Set(input.keys)];
    const ordinals = known.indexesOf(definition, distinct);
    const fresh = distinct.filter((_, at) => ordinals[at] === null);
    const count = known.count(definition);
    const existing = distinct.length - fresh.length;
    if (fresh.length === 0)
      return { events: [], result: { definition, added: 0, existing, count } };
    return {
      events: [
        {
          type: "PartitionKeysAdded",
          idempotency_key: IDEMPOTENCY_KEYS.partitionKeys(definition, principal, input.request_id),
          data: { definition, request_id: input.request_id, first_ordinal: count, keys: fresh },
        },
      ],
      result: { definition, added: fresh.length, existing, count: count + fresh.length },
    };
  };
}

function dynamicName(spec: AssetSpec, dimension: string | undefined): string {
  const dynamic =
    spec.partitions === null
      ? []
      : dimensionsOf(spec.partitions).filter((each) => each.definition.type === "dynamic");
  const picked =
    dimension === undefined && dynamic.length === 1
      ? dynamic[0]
      : dynamic.find(({ name }) => name === dimension);
  if (picked?.definition.type === "dynamic") return picked.definition.name;
  const names = dynamic.map(({ name }) => name).join(", ");
  throw new PawlError(
    "INPUT_INVALID",
    dynamic.length === 0
      ? `${spec.asset_key} has no dynamic partitions, so no key can be added to it.`
      : `Say which dimension of ${spec.asset_key} the keys are for: ${names}.`,
    { details: { asset_key: spec.asset_key, dimension: dimension ?? null } },
  );
}
