import type { Asset } from "../define/asset.ts";
import type { DynamicPartitions } from "../define/automation-context.ts";
import { parseDefinition } from "../define/parse-definition.ts";
import { PawlError } from "../kernel/errors.ts";
import { dimensionsOf } from "../kernel/keyspace/definition.ts";
import { EXPLICIT_KEYS_MAX } from "../kernel/keyspace/selector.ts";
import { KEY_ADDITIONS_MAX, KeyAddition, KEYS_ADDED_MAX } from "../work/run/protocol.ts";

/** Keys that a function of the project adds to dynamic partitions, gathered until it has ended well. */
export class GatheredKeys {
  readonly #keysOf = new Map<string, Set<string>>();

  /** Takes keys for a definition; refuses, with INPUT_INVALID, what no server would take. */
  add(of: DynamicPartitions, keys: readonly string[]): void {
    const definition = nameOf(of);
    const list: readonly unknown[] = Array.isArray(keys) ? keys : [keys];
    if (list.length === 0) return;
    const parsed = parseDefinition("addPartitions()", KeyAddition, { definition, keys: [...list] });
    const known = this.#keysOf.get(definition) ?? new Set();
    for (const key of parsed.keys) known.add(key);
    if (known.size > EXPLICIT_KEYS_MAX) {
      throw wrong(
        `addPartitions() was given ${known.size} keys of ${definition}; at most ` +
          `${EXPLICIT_KEYS_MAX} can be added at once. Add the others the next time.`,
      );
    }
    this.#keysOf.set(definition, known);
    const all = [...this.#keysOf.values()].reduce((sum, { size }) => sum + size, 0);
    if (all > KEYS_ADDED_MAX) {
      throw wrong(
        `addPartitions() was given ${all} keys in all; at most ${KEYS_ADDED_MAX} can be added at ` +
          "once. Add the others the next time.",
      );
    }
    if (this.#keysOf.size <= KEY_ADDITIONS_MAX) return;
    throw wrong(
      `addPartitions() was called for ${this.#keysOf.size} definitions; at most ` +
        `${KEY_ADDITIONS_MAX} can be added to at once.`,
    );
  }

  /** All that was taken, by definition. */
  all(): KeyAddition[] {
    return [...this.#keysOf].map(([definition, keys]) => ({ definition, keys: [...keys] }));
  }
}

function nameOf(of: DynamicPartitions): string {
  if (typeof of === "string") return of;
  if (isAsset(of)) return nameIn(of);
  if (of?.type === "dynamic") return of.name;
  throw wrong(
    "addPartitions() needs dynamic partitions, as dynamicPartitions() makes them, their name, or an asset " +
      `that has them, not ${JSON.stringify(of)?.slice(0, 200) ?? "nothing"}.`,
  );
}

function isAsset(of: DynamicPartitions): of is Asset {
  return typeof of === "object" && of !== null && "spec" in of;
}

/** The name of the one dynamic definition that an asset is made of. */
function nameIn({ key, spec: { partitions } }: Asset): string {
  const dimensions = partitions === null ? [] : dimensionsOf(partitions);
  const names = dimensions.flatMap(({ definition }) =>
    definition.type === "dynamic" ? [definition.name] : [],
  );
  const [name] = names;
  if (name !== undefined && names.length === 1) return name;
  throw wrong(
    name === undefined
      ? `addPartitions() was given the asset ${key}, which has no dynamic partitions.`
      : `addPartitions() was given the asset ${key}, which has several dynamic partitions: ` +
          `name one of ${names.join(", ")}.`,
  );
}

function wrong(message: string): PawlError {
  return new PawlError("INPUT_INVALID", message);
}
