import { AssertionFailure } from "../../kernel/errors.ts";
import {
  dimensionsOf,
  type PartitionDefinition,
  type SingleDefinition,
} from "../../kernel/keyspace/definition.ts";
import { boundOf, type Keyspace, removedIn } from "../../kernel/keyspace/keyspace.ts";
import { pinnedKeyspace } from "../../kernel/keyspace/keyspace-of.ts";
import { compareText, type Table } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { DYNAMIC_KEYS, type DynamicKeyRow } from "../../work/definition/rows.ts";

/** What an ordinal is found by, and nothing else of the row. */
const KEY_ORDINALS: Table<KeyOrdinal> = {
  name: DYNAMIC_KEYS.name,
  key: ["definition", "ordinal"],
  cells: { definition: "text", partition_key: "text", ordinal: "int" },
};

type KeyOrdinal = Pick<DynamicKeyRow, "definition" | "partition_key" | "ordinal">;

/** Values of a dynamic definition that are not in memory yet. */
class ValuesMissing extends Error {
  readonly definition: string;
  readonly values: readonly string[];

  constructor(definition: string, values: readonly string[]) {
    super(`${values.length} values of ${definition} are to be looked up`);
    this.definition = definition;
    this.values = values;
  }
}

/** How many values are remembered from one page of keys to the next. */
const VALUES_KEPT = 50_000;

/** Values that were just looked up, and what was found; ordinals are in the order of the values. */
type LookedUp = { values: readonly string[]; ordinals: readonly (number | null)[] };

/**
 * Finds the ordinals of many keys page by page, on one snapshot. Values of dynamic dimensions are
 * looked up as they come; where few of them come round in many keys, they are looked up once.
 */
export class OrdinalFinder {
  readonly #reader: Reader;
  readonly #keyspace: Keyspace;
  readonly #known = new Map<string, Map<string, number | null>>();
  /**
   * Whether the last dimension has all keys that its first and last digits count: then keys of a
   * block that are as many as the ordinals between their ends have just these.
   */
  readonly countsPlaces: boolean;
  #lookedUp: LookedUp | null = null;

  constructor(reader: Reader, definition: PartitionDefinition, now: Keyspace) {
    this.#reader = reader;
    this.countsPlaces = dimensionsOf(definition).slice(-1).every(hasAllPlaces);
    const notAsked = (): never => {
      throw new AssertionFailure("the bound says how many keys there are");
    };
    const indexesOf = (name: string, keys: readonly string[]): (number | null)[] =>
      this.#ordinals(name, keys);
    const indexOf = (name: string, key: string) => this.#ordinals(name, [key])[0] ?? null;
    const keys = { count: notAsked, keyAt: notAsked, indexOf, indexesOf };
    this.#keyspace = pinnedKeyspace(definition, keys, boundOf(now), removedIn(now));
  }

  /** The ordinals of keys, null for those that the keyspace does not have. */
  async find(keys: readonly string[]): Promise<(number | null)[]> {
    if (keys.length === 0) return [];
    for (const known of this.#known.values()) if (known.size > VALUES_KEPT) known.clear();
    for (;;) {
      try {
        return this.#keyspace.indexesOf(keys);
      } catch (error) {
        if (!(error instanceof ValuesMissing)) throw error;
        await this.#lookUp(error.definition, error.values);
      }
    }
  }

  #ordinals(definition: string, values: readonly string[]): (number | null)[] {
    if (this.#lookedUp?.values === values) return [...this.#lookedUp.ordinals];
    const known = this.#known.get(definition);
    // With one dimension the values are keys, which do not come again: they are not remembered.
    if (this.#isOneDimension) throw new ValuesMissing(definition, values);
    const missing = values.filter((value) => known?.has(value) !== true);
    if (missing.length > 0) throw new ValuesMissing(definition, missing);
    return values.map((value) => known?.get(value) ?? null);
  }

  get #isOneDimension(): boolean {
    return this.#keyspace.dimensions.length === 1;
  }

  async #lookUp(definition: string, values: readonly string[]): Promise<void> {
    const ordinals =
      (await this.#walk(definition, values)) ?? (await this.#ask(definition, values));
    if (this.#isOneDimension) {
      this.#lookedUp = { values, ordinals };
      return;
    }
    const known = this.#known.get(definition) ?? new Map<string, number | null>();
    this.#known.set(definition, known);
    for (const [at, value] of values.entries()) known.set(value, ordinals[at] ?? null);
  }

  /** Keys that were read in order are mostly neighbours: then one walk finds them all. */
  async #walk(definition: string, values: readonly string[]): Promise<(number | null)[] | null> {
    if (values.length < 2 || !isAscending(values)) return null;
    const limit = values.length * 2;
    const rows = await this.#reader.find({
      table: KEY_ORDINALS,
      where: [
        { cell: "definition", is: "=", value: definition },
        { cell: "partition_key", is: ">=", value: values[0] ?? "" },
        { cell: "partition_key", is: "<=", value: values.at(-1) ?? "" },
      ],
      order: [{ cell: "partition_key" }],
      limit,
    });
    if (rows.length === limit) return null;
    let next = 0;
    return values.map((value) => {
      while (compareText(rows[next]?.partition_key ?? value, value) < 0) next++;
      return rows[next]?.partition_key === value ? (rows[next]?.ordinal ?? null) : null;
    });
  }

  async #ask(definition: string, values: readonly string[]): Promise<(number | null)[]> {
    const rows = await this.#reader.find({
      table: KEY_ORDINALS,
      where: [
        { cell: "definition", is: "=", value: definition },
        { cell: "partition_key", is: "in", values },
      ],
      order: [],
      limit: values.length + 1,
    });
    const ordinals = new Map(rows.map(({ partition_key, ordinal }) => [partition_key, ordinal]));
    return values.map((value) => ordinals.get(value) ?? null);
  }
}

function hasAllPlaces({ definition }: { definition: SingleDefinition }): boolean {
  switch (definition.type) {
    case "hourly":
    case "daily":
    case "monthly":
      return definition.format === undefined;
    case "integers":
      return definition.size === 1;
    default:
      return false;
  }
}

function isAscending(values: readonly string[]): boolean {
  return values.every((value, at) => at === 0 || compareText(values[at - 1] ?? "", value) < 0);
}
