import { canonicalJson } from "../../src/kernel/canonical.ts";
import { pinnedKeyspace } from "../../src/kernel/keyspace/keyspace-of.ts";
import type { DynamicKeys } from "../../src/kernel/keyspace/keyspace.ts";
import type { EventData } from "../../src/work/events.ts";
import type { Pattern, Selector } from "../../src/kernel/keyspace/selector.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import type { AssetSpec, RetryPolicy } from "../../src/work/definition/spec.ts";
import { nodeHash } from "../../src/engine/config.ts";
import type { Violations } from "./violations.ts";

/** What is defined, as the auditor reads it from the ledger. */
export class AuditedProject {
  readonly specs = new Map<string, Spec>();
  /** Assets as they are defined now. */
  readonly assets = new Map<string, AssetSpec>();
  readonly poolLimits = new Map<string, number>();
  readonly #dynamicKeys = new Map<string, string[]>();
  readonly #removed = new Map<string, Set<string>>();
  #version = 0;

  published(data: EventData<"DefinitionsPublished">, violations: Violations): void {
    violations.check(
      data.definition_version === this.#version + 1,
      "I5",
      `definition version ${data.definition_version} follows ${this.#version}`,
    );
    this.#version = data.definition_version;
    for (const { spec_hash, body } of data.specs) {
      const hash = nodeHash.sha256(canonicalJson(body));
      violations.check(hash === spec_hash, "I19", `spec ${spec_hash} has the hash ${hash}`);
      this.specs.set(spec_hash, body);
      if (body.kind === "asset") this.assets.set(body.asset_key, body);
      if (body.kind === "pool") this.poolLimits.set(body.pool, body.limit);
    }
    for (const { kind, name } of data.removed) {
      if (kind === "pool") this.poolLimits.delete(name);
      if (kind === "asset") this.assets.delete(name);
    }
  }

  keysAdded(data: EventData<"PartitionKeysAdded">, violations: Violations): void {
    const keys = this.#dynamicKeys.get(data.definition) ?? [];
    violations.check(
      data.first_ordinal === keys.length && !data.keys.some((key) => keys.includes(key)),
      "I28",
      `dynamic keys ${data.keys.join()} follow ${keys.join()}`,
    );
    this.#dynamicKeys.set(data.definition, [...keys, ...data.keys]);
  }

  /** Keys that were there are gone, or keys that were gone are back, under the numbers they had. */
  keysRemoved(
    { definition, keys, numbers }: EventData<"PartitionKeysRemoved">,
    isBack: boolean,
    violations: Violations,
  ): void {
    const all = this.#dynamicKeys.get(definition) ?? [];
    const removed = this.#removed.get(definition) ?? new Set();
    const named = numbers.flatMap(([from, to]) => all.slice(from, to + 1));
    violations.check(
      named.join("\n") === keys.join("\n") && keys.every((key) => removed.has(key) === isBack),
      "I90",
      `dynamic keys ${keys.join()} are ${isBack ? "added again" : "removed"} of ${all.join()}`,
    );
    for (const key of keys) {
      if (isBack) removed.delete(key);
      else removed.add(key);
    }
    this.#removed.set(definition, removed);
  }

  /** Whether a key of a dynamic definition is there: added, and not removed since. */
  hasKey(definition: string, key: string): boolean {
    return this.#left(definition).includes(key);
  }

  #left(definition: string): string[] {
    const removed = this.#removed.get(definition);
    return (this.#dynamicKeys.get(definition) ?? []).filter((key) => removed?.has(key) !== true);
  }

  asset(specHash: string): AssetSpec {
    const spec = this.specs.get(specHash);
    if (spec?.kind !== "asset") throw new Error(`There is no asset spec ${specHash}.`);
    return spec;
  }

  /** The retry policy of an asset or a sync. */
  retryOf(specHash: string): RetryPolicy {
    const spec = this.specs.get(specHash);
    return spec?.kind === "sync" ? spec.retry : this.asset(specHash).retry;
  }

  /** All keys that a definition has now, up to a bound, one by one. */
  keysOf(spec: AssetSpec, bound: readonly number[]): string[] {
    if (spec.partitions === null) return [""];
    const keyspace = pinnedKeyspace(spec.partitions, this.#dynamic(), bound, null);
    return Array.from({ length: keyspace.count }, (_, ordinal) => keyspace.keyAt(ordinal));
  }

  #dynamic(): DynamicKeys {
    const keysOf = (name: string): string[] => this.#left(name);
    return {
      count: (name) => keysOf(name).length,
      keyAt: (name, ordinal) => keysOf(name)[ordinal] ?? "",
      indexOf: (name, key) => {
        const at = keysOf(name).indexOf(key);
        return at < 0 ? null : at;
      },
    };
  }
}

/** The keys that a selector means, found by looking at every one. */
export function selectedKeys(keys: readonly string[], selector: Selector): string[] {
  switch (selector.type) {
    case "all":
      return [...keys];
    case "explicit":
      return keys.filter((key) => selector.partition_keys.includes(key));
    case "range":
      if (keys[0]?.includes("=") === true && keys[0].includes(",")) {
        const start = valuesOf(selector.start);
        const end = selector.end === undefined ? {} : valuesOf(selector.end);
        const inside = (name: string, value: string): boolean =>
          between(dimension(keys, name), value, start[name] ?? "", end[name]);
        return keys.filter((key) =>
          Object.entries(valuesOf(key)).every(([name, value]) => inside(name, value)),
        );
      }
      return keys.filter((key) => between(keys, key, selector.start, selector.end));
    case "filter":
      return keys.filter((key) =>
        Object.entries(selector.dimensions).every(([name, pattern]) => {
          const value = name === "partition" ? key : (valuesOf(key)[name] ?? "");
          return matches(name === "partition" ? keys : dimension(keys, name), value, pattern);
        }),
      );
    default:
      throw new Error(`A ${selector.type} selector is not arithmetic.`);
  }
}

function valuesOf(key: string): Record<string, string> {
  return Object.fromEntries(
    key.split(",").map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
}

function dimension(keys: readonly string[], name: string): string[] {
  return [...new Set(keys.map((key) => valuesOf(key)[name] ?? ""))];
}

function between(keys: readonly string[], key: string, start: string, end?: string): boolean {
  const at = keys.indexOf(key);
  return at >= keys.indexOf(start) && (end === undefined || at <= keys.indexOf(end));
}

function matches(keys: readonly string[], value: string, pattern: Pattern): boolean {
  if (Array.isArray(pattern)) return pattern.includes(value);
  if (typeof pattern === "object") return between(keys, value, pattern.start, pattern.end);
  const escaped = pattern.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`).test(value);
}
