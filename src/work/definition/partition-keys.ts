import { PawlError } from "../../kernel/errors.ts";
import {
  countIntervals,
  type Interval,
  intervalsContain,
  intervalsOf,
  mergeIntervals,
  subtractIntervals,
} from "../../kernel/intervals.ts";
import { dimensionsOf, PartitionKey } from "../../kernel/keyspace/definition.ts";
import type { DynamicKeys } from "../../kernel/keyspace/keyspace.ts";
import { valuesOfMultiKey } from "../../kernel/keyspace/keyspace-of.ts";
import { EXPLICIT_KEYS_MAX } from "../../kernel/keyspace/selector.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { currentAsset, dynamicKeysOf, needAssets } from "../asset/look-up.ts";
import type { Context, Decide } from "../decision.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { type KeyAddition, KEYS_ADDED_MAX } from "../run/protocol.ts";
import type { AssetSpec } from "./spec.ts";

/** Most stretches of removed keys that one definition may have: each backfill pins them. */
export const REMOVED_STRETCHES_MAX = 10_000;

/** Keys of the dynamic partitions of an asset, or of one of its dimensions. */
export type PartitionKeysInput = {
  asset_key: string;
  request_id: string;
  keys: readonly string[];
  dimension?: string | undefined;
};

/** What became of the keys. */
export type KeysAdded = { definition: string; added: number; existing: number; count: number };

/**
 * Adds keys to a dynamic partition definition; those it has already are left alone, and those that
 * were removed come back in their old place.
 */
export function addPartitionKeys(input: PartitionKeysInput): Decide<KeysAdded> {
  return (rows, context) => {
    const { spec } = currentAsset(rows, input.asset_key);
    const definition = dynamicName(spec, input.dimension);
    const additions = new KeyAdditions(rows, context);
    const distinct = new Set(input.keys).size;
    const added = additions.add(definition, input.keys, input.request_id);
    const { keys } = additions;
    const count = keys.count(definition) - countIntervals(keys.removed(definition));
    const result = { definition, added, existing: distinct - added, count };
    return { events: additions.events, result };
  };
}

/** Of the keys that are to be added: the new ones, and those that were removed, with what stays removed. */
type AbsentKeys = {
  definition: string;
  fresh: string[];
  back: ReturnType<typeof inOrder>;
  left: Interval[];
};

/** Keys that one decision adds, and the keys that there are with them: what else it decides may use them. */
export class KeyAdditions {
  readonly events: NewEvent[] = [];
  /** All keys with those added so far. */
  readonly keys: Required<DynamicKeys>;
  readonly #base: Required<DynamicKeys>;
  readonly #rows: Rows;
  readonly #principal: string;
  /** The new keys by definition, in order, each with its number. */
  readonly #fresh = new Map<string, Map<string, number>>();
  readonly #freshKeys = new Map<string, readonly string[]>();
  readonly #removed = new Map<string, readonly Interval[]>();

  constructor(rows: Rows, { principal }: Pick<Context, "principal">) {
    this.#rows = rows;
    this.#principal = principal;
    this.#base = dynamicKeysOf(rows);
    this.keys = this.#withFresh();
  }

  /** Adds what is not there to a definition, once for each request; answers how many keys that were. */
  add(definition: string, keys: readonly string[], requestId: string): number {
    return this.#record(this.#absent(definition, keys), requestId);
  }

  /** The same for several definitions that assets have: throws and adds nothing where one refuses its keys. */
  addTogether(additions: readonly KeyAddition[], requestId: string): void {
    const keysOf = Map.groupBy(additions, ({ definition }) => definition);
    const absent = [...keysOf].map(([definition, each]) => {
      this.refuseUnknown(definition);
      const keys = new Set(each.flatMap((addition) => addition.keys));
      refuseManyKeys(definition, keys.size);
      return this.#absent(definition, [...keys]);
    });
    for (const each of absent) this.#record(each, requestId);
  }

  #absent(definition: string, keys: readonly string[]): AbsentKeys {
    const distinct = [...new Set(keys)];
    const numbers = this.keys.indexesOf(definition, distinct);
    const removed = this.keys.removed(definition);
    const fresh = distinct.filter((_, at) => (numbers[at] ?? null) === null);
    const back = inOrder(
      distinct.flatMap((key, at): [number, string][] => {
        const number = numbers[at] ?? null;
        return number !== null && intervalsContain(removed, number) ? [[number, key]] : [];
      }),
    );
    const left = subtractIntervals(removed, back.numbers);
    if (back.keys.length > 0) refuseManyStretches(definition, left);
    return { definition, fresh, back, left };
  }

  #record(absent: AbsentKeys, requestId: string): number {
    const { definition, fresh, back } = absent;
    if (back.keys.length > 0) this.#restore(absent, requestId);
    if (fresh.length > 0) this.#append(definition, fresh, requestId);
    return fresh.length + back.keys.length;
  }

  /** What is added, by definition. */
  added(): KeyAddition[] {
    const keysOf = new Map<string, string[]>();
    for (const { type, data } of this.events) {
      if (type !== "PartitionKeysAdded" && type !== "PartitionKeysRestored") continue;
      keysOf.set(data.definition, [...(keysOf.get(data.definition) ?? []), ...data.keys]);
    }
    return [...keysOf].map(([definition, keys]) => ({ definition, keys }));
  }

  /** Refuses a definition that has no keys and belongs to no asset: nothing would ever use the keys. */
  refuseUnknown(definition: string): void {
    if (this.#rows.dynamicDefinitions.get(definition) !== null) return;
    const where = [{ cell: "kind", is: "=", value: "asset" }] as const;
    const rows = this.#rows.definitions.find(where, [{ cell: "name" }], ASSETS_SEARCHED_MAX);
    const assets = rows.map(({ name }) => name);
    needAssets(this.#rows, assets);
    const names = new Set(
      assets.flatMap((asset) => dynamicNames(currentAsset(this.#rows, asset).spec)),
    );
    if (names.has(definition)) return;
    const known = [...names].toSorted();
    const there = known.length === 0 ? "there is none yet" : `there are ${known.join(", ")}`;
    throw new PawlError(
      "INPUT_INVALID",
      `No asset has the dynamic partitions ${JSON.stringify(definition)}` +
        `${suggestion(definition, known)}: ${there}. Publish an asset that has them first.`,
      { details: { definition } },
    );
  }

  #append(definition: string, fresh: readonly string[], request_id: string): void {
    const first_ordinal = this.keys.count(definition);
    const known = this.#fresh.get(definition) ?? new Map<string, number>();
    this.#fresh.set(definition, known);
    for (const [at, key] of fresh.entries()) known.set(key, first_ordinal + at);
    this.#freshKeys.set(definition, [...known.keys()]);
    const principal = this.#principal;
    this.events.push({
      type: "PartitionKeysAdded",
      idempotency_key: IDEMPOTENCY_KEYS.partitionKeys(
        definition,
        principal,
        request_id,
        first_ordinal,
      ),
      data: { definition, request_id, first_ordinal, keys: [...fresh] },
    });
  }

  #restore({ definition, back, left }: AbsentKeys, request_id: string): void {
    const { numbers, keys } = back;
    this.#removed.set(definition, left);
    this.events.push({
      type: "PartitionKeysRestored",
      idempotency_key: IDEMPOTENCY_KEYS.keysRestored(definition, this.#principal, request_id),
      data: { definition, request_id, numbers: stretchPairs(numbers), keys },
    });
  }

  #withFresh(): Required<DynamicKeys> {
    const base = this.#base;
    const freshOf = (name: string) => this.#fresh.get(name);
    const indexesOf = (name: string, keys: readonly string[]): (number | null)[] => {
      const fresh = freshOf(name);
      return base.indexesOf(name, keys).map((number, at) => {
        return number ?? fresh?.get(keys[at] ?? "") ?? null;
      });
    };
    return {
      count: (name) => base.count(name) + (freshOf(name)?.size ?? 0),
      removed: (name) => this.#removed.get(name) ?? base.removed(name),
      keyAt: (name, number) => {
        const at = number - base.count(name);
        return at < 0 ? base.keyAt(name, number) : (this.#freshKeys.get(name)?.[at] ?? "");
      },
      indexesOf,
      indexOf: (name, key) => indexesOf(name, [key])[0] ?? null,
      prefetch: (name, numbers) => {
        const count = base.count(name);
        base.prefetch(
          name,
          numbers.filter((number) => number < count),
        );
      },
    };
  }
}

/** Most assets that are searched for a definition that has no keys yet. */
const ASSETS_SEARCHED_MAX = 10_000;

/** What became of keys that were to be removed. */
export type KeysRemoved = { definition: string; removed: number; absent: number; count: number };

/**
 * Removes keys from a dynamic partition definition. What is known of their partitions stays, and so does
 * what is selected already: backfills go on with the keys they pinned.
 */
export function removePartitionKeys(input: PartitionKeysInput): Decide<KeysRemoved> {
  return (rows, { principal }) => {
    const { spec } = currentAsset(rows, input.asset_key);
    const definition = dynamicName(spec, input.dimension);
    const known = dynamicKeysOf(rows);
    const distinct = [...new Set(input.keys)];
    const before = known.removed(definition);
    const numbersOf = known.indexesOf(definition, distinct);
    const gone = distinct.flatMap((key, at): [number, string][] => {
      const number = numbersOf[at] ?? null;
      return number === null || intervalsContain(before, number) ? [] : [[number, key]];
    });
    const count = known.count(definition) - countIntervals(before) - gone.length;
    const absent = distinct.length - gone.length;
    const result = { definition, removed: gone.length, absent, count };
    if (gone.length === 0) return { events: [], result };
    const { numbers, keys } = inOrder(gone);
    refuseManyStretches(definition, mergeIntervals([...before, ...numbers]));
    const { request_id } = input;
    const event: NewEvent = {
      type: "PartitionKeysRemoved",
      idempotency_key: IDEMPOTENCY_KEYS.keysRemoved(definition, principal, request_id),
      data: { definition, request_id, numbers: stretchPairs(numbers), keys },
    };
    return { events: [event], result };
  };
}

/** Keys in the order of their numbers. */
function inOrder(numbered: readonly [number, string][]): { numbers: Interval[]; keys: string[] } {
  const sorted = numbered.toSorted(([one], [other]) => one - other);
  return {
    numbers: intervalsOf(sorted.map(([number]) => number)),
    keys: sorted.map(([, key]) => key),
  };
}

/** Stretches of numbers, as an event has them. */
export function stretchPairs(numbers: readonly Interval[]): [number, number][] {
  return numbers.map(([from, to]): [number, number] => [from, to]);
}

function refuseManyStretches(definition: string, removed: readonly Interval[]): void {
  if (removed.length <= REMOVED_STRETCHES_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `${definition} would have ${removed.length} separate stretches of removed keys, more than the ` +
      `${REMOVED_STRETCHES_MAX} that one definition may have; keys that were added one after the other ` +
      "count as one. Remove fewer, or begin a new definition.",
    { details: { definition, stretches: removed.length, stretches_max: REMOVED_STRETCHES_MAX } },
  );
}

/** Refuses more keys than one request may add to a definition, and to all of them. */
export function refuseManyKeys(definition: string, count: number, all = count): void {
  if (all > KEYS_ADDED_MAX) {
    throw new PawlError(
      "INPUT_INVALID",
      `${all} keys are to be added at once; at most ${KEYS_ADDED_MAX} may be. Add the others the ` +
        "next time.",
      { details: { keys: all, keys_max: KEYS_ADDED_MAX } },
    );
  }
  if (count <= EXPLICIT_KEYS_MAX) return;
  throw new PawlError(
    "INPUT_INVALID",
    `${count} keys are to be added to ${definition} at once; at most ${EXPLICIT_KEYS_MAX} may be. ` +
      "Add the others the next time.",
    { details: { definition, keys: count, keys_max: EXPLICIT_KEYS_MAX } },
  );
}

/** What a key says of each dynamic definition that the partitions of an asset are made of. */
export function dynamicValues(
  { asset_key, partitions }: AssetSpec,
  key: string,
): { definition: string; key: string }[] {
  const dimensions = partitions === null ? [] : dimensionsOf(partitions);
  const values =
    dimensions.length > 1
      ? valuesOfMultiKey(
          key,
          dimensions.map(({ name }) => name),
        )
      : [key];
  const found = dimensions.flatMap(({ definition }, at) =>
    definition.type === "dynamic" ? [{ definition: definition.name, at }] : [],
  );
  if (found.length === 0) {
    throw new PawlError(
      "INPUT_INVALID",
      `${asset_key} has no dynamic partitions, so no key can be added to it.`,
      { details: { asset_key } },
    );
  }
  return found.flatMap(({ definition, at }) => {
    const value = values?.[at];
    // What is no key of several dimensions at all is refused as such.
    return value === undefined ? [] : [{ definition, key: checkedKey(value) }];
  });
}

function checkedKey(key: string): string {
  const parsed = PartitionKey.safeParse(key);
  if (parsed.success) return parsed.data;
  const why = parsed.error.issues.map(({ message }) => message).join("; ");
  throw new PawlError(
    "INPUT_INVALID",
    `${JSON.stringify(key.slice(0, 200))} cannot be added as a partition key: ${why}.`,
    { details: { partition_key: key.slice(0, 200) } },
  );
}

/** The names of the dynamic definitions that the partitions of an asset are made of. */
function dynamicNames({ partitions }: AssetSpec): string[] {
  if (partitions === null) return [];
  return dimensionsOf(partitions).flatMap(({ definition }) =>
    definition.type === "dynamic" ? [definition.name] : [],
  );
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
      ? `${spec.asset_key} has no dynamic partitions, so no key can be added or removed.`
      : `Say which dimension of ${spec.asset_key} the keys are for: ${names}.`,
    { details: { asset_key: spec.asset_key, dimension: dimension ?? null } },
  );
}
