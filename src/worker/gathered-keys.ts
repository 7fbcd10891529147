import type { DynamicPartitions } from "../define/automation-context.ts";
import { parseDefinition } from "../define/parse-definition.ts";
import { PawlError } from "../kernel/errors.ts";
import { EXPLICIT_KEYS_MAX } from "../kernel/keyspace/selector.ts";
import { KEY_ADDITIONS_MAX, KeyAddition } from "../work/run/protocol.ts";

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
  if (of?.type === "dynamic") return of.name;
  throw wrong(
    "addPartitions() needs dynamic partitions, as dynamicPartitions() makes them, or their name, not " +
      `${JSON.stringify(of)?.slice(0, 200) ?? "nothing"}.`,
  );
}

function wrong(message: string): PawlError {
  return new PawlError("INPUT_INVALID", message);
}
