import { shardsOf, type Scope, type ScopeTest, type Topology } from "../shard/spec.ts";

/** Rows that go from one shard to another. */
export type ShardPair = { readonly from: string; readonly to: string };

/** A part of a scope. */
type ScopePart = Scope[number];

/** Every value there is, but no NULL. */
const ANY_VALUE: ScopePart = {
  any: [{ is: "between", from: null, below: null }],
  negate: false,
};

/** The rows that belong on a shard. A NULL belongs to the default shard of a topology by tenant. */
export function scopeOf(topology: Topology, shard: string): Scope {
  switch (topology.by) {
    case "tenant": {
      const tenants = Object.entries(topology.tenants);
      if (shard !== topology.default) {
        return [
          isIn(
            tenants.flatMap(([tenant, at]) => (at === shard ? [tenant] : [])),
            false,
          ),
        ];
      }
      const others = tenants.flatMap(([tenant, at]) => (at === shard ? [] : [tenant]));
      return others.length === 0 ? [] : [isIn(others, true)];
    }
    case "hash": {
      const { buckets } = topology;
      const own = [...buckets.keys()].filter((bucket) => buckets[bucket] === shard);
      return [hashed(buckets.length, own)];
    }
    case "range":
      return [{ any: testsOfRanges(topology.ranges, shard), negate: false }];
  }
}

/**
 * The rows on a shard that do not belong there by any of these topologies. A NULL that has no place
 * in a topology is where it should be wherever it is.
 */
export function misplacedScope(topologies: readonly Topology[], shard: string): Scope | null {
  const parts: ScopePart[] = [];
  for (const topology of topologies) {
    const own = scopeOf(topology, shard);
    // Everything belongs there.
    if (own.length === 0) return null;
    for (const { any, negate } of own) parts.push({ any, negate: !negate });
    if (topology.by !== "tenant") parts.push(ANY_VALUE);
  }
  return parts;
}

/** The pairs of shards between which rows may have to go, in order. */
export function movingPairs(from: Topology, to: Topology): ShardPair[] {
  const pairs: ShardPair[] = [];
  const mayMove = pairsThatMeet(from, to);
  for (const source of shardsOf(from).toSorted()) {
    for (const target of shardsOf(to).toSorted()) {
      if (source !== target && mayMove(source, target)) pairs.push({ from: source, to: target });
    }
  }
  return pairs;
}

/** The rows that are on one shard by the first topology and on the other by the second. */
export function pairScope(from: Topology, to: Topology, pair: ShardPair): Scope {
  if (from.by === "tenant" && to.by === "tenant") return tenantPairScope(from, to, pair);
  if (from.by === "hash" && to.by === "hash" && from.buckets.length === to.buckets.length) {
    const both = [...from.buckets.keys()].filter(
      (bucket) => from.buckets[bucket] === pair.from && to.buckets[bucket] === pair.to,
    );
    return [hashed(from.buckets.length, both)];
  }
  return [...scopeOf(from, pair.from), ...scopeOf(to, pair.to)];
}

type By<Kind extends Topology["by"]> = Extract<Topology, { by: Kind }>;

/** Whether some value can belong to the one shard by the first and to the other by the second. */
function pairsThatMeet(from: Topology, to: Topology): (source: string, target: string) => boolean {
  if (from.by === "tenant" && to.by === "tenant") {
    return among(
      tenantsOfBoth(from, to).map((tenant) => [placeOf(from, tenant), placeOf(to, tenant)]),
      {
        also: [from.default, to.default],
      },
    );
  }
  if (from.by === "hash" && to.by === "hash") return among(hashPairs(from, to));
  if (from.by === "range" && to.by === "range") return among(rangePairs(from, to));
  // Which of the tenants or ranges a bucket has, only the database can tell.
  return () => true;
}

function among(
  pairs: readonly (readonly [string, string])[],
  { also }: { also?: readonly [string, string] } = {},
): (source: string, target: string) => boolean {
  const known = new Set([...pairs, ...(also === undefined ? [] : [also])].map(pairText));
  return (source, target) => known.has(pairText([source, target]));
}

function pairText(pair: readonly [string, string]): string {
  return pair.join("\n");
}

function tenantsOfBoth(from: By<"tenant">, to: By<"tenant">): string[] {
  return [...new Set([...Object.keys(from.tenants), ...Object.keys(to.tenants)])];
}

function placeOf(topology: By<"tenant">, tenant: string): string {
  return Object.hasOwn(topology.tenants, tenant)
    ? (topology.tenants[tenant] ?? topology.default)
    : topology.default;
}

/** Tenants that are named, or everybody but those that are named elsewhere. */
function tenantPairScope(from: By<"tenant">, to: By<"tenant">, pair: ShardPair): Scope {
  const isOfPair = (tenant: string): boolean =>
    placeOf(from, tenant) === pair.from && placeOf(to, tenant) === pair.to;
  const tenants = tenantsOfBoth(from, to);
  if (from.default !== pair.from || to.default !== pair.to) {
    return [isIn(tenants.filter(isOfPair), false)];
  }
  const others = tenants.filter((tenant) => !isOfPair(tenant));
  return others.length === 0 ? [] : [isIn(others, true)];
}

/** A value has a bucket of each iff both leave the same rest by what the numbers of buckets share. */
function hashPairs(from: By<"hash">, to: By<"hash">): [string, string][] {
  const shared = greatestCommonDivisor(from.buckets.length, to.buckets.length);
  const byRest = ({ buckets }: By<"hash">): Set<string>[] => {
    const rests = Array.from({ length: shared }, () => new Set<string>());
    for (const [bucket, shard] of buckets.entries()) rests[bucket % shared]?.add(shard);
    return rests;
  };
  const targets = byRest(to);
  return byRest(from).flatMap((sources, rest) => pairsOf(sources, targets[rest] ?? []));
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

type Range = By<"range">["ranges"][number];

/**
 * Bounds are compared by the database alone; only a bound that both have tells which ranges cannot
 * meet: those below it and those above.
 */
function rangePairs(from: By<"range">, to: By<"range">): [string, string][] {
  const theirs = new Set(to.ranges.map(({ below }) => below));
  const sections = sectionsAt(from.ranges, theirs);
  const ours = new Set(from.ranges.map(({ below }) => below));
  const others = sectionsAt(to.ranges, ours);
  const isAligned =
    sections.length === others.length &&
    sections.every(({ end }, index) => end === others[index]?.end);
  // Bounds in another order are no bounds that one could go by.
  if (!isAligned) {
    return pairsOf(new Set(shardsOf(from)), new Set(shardsOf(to)));
  }
  return sections.flatMap(({ shards }, index) => pairsOf(shards, others[index]?.shards ?? []));
}

type Section = { readonly end: string | null; readonly shards: Set<string> };

function sectionsAt(ranges: readonly Range[], bounds: ReadonlySet<string | null>): Section[] {
  const sections: Section[] = [];
  let shards = new Set<string>();
  for (const { below, shard } of ranges) {
    shards.add(shard);
    if (!bounds.has(below)) continue;
    sections.push({ end: below, shards });
    shards = new Set();
  }
  return sections;
}

function pairsOf(sources: Iterable<string>, targets: Iterable<string>): [string, string][] {
  const all = [...targets];
  return [...sources].flatMap((source) => all.map((target): [string, string] => [source, target]));
}

function isIn(values: string[], negate: boolean): ScopePart {
  return { any: [{ is: "in", values: values.toSorted() }], negate };
}

function hashed(modulus: number, buckets: number[]): ScopePart {
  if (buckets.length === modulus) return ANY_VALUE;
  return { any: [{ is: "hash", modulus, buckets }], negate: false };
}

/** The ranges of a shard, those that follow each other as one. */
function testsOfRanges(ranges: readonly Range[], shard: string): ScopeTest[] {
  const tests: Extract<ScopeTest, { is: "between" }>[] = [];
  let from: string | null = null;
  let wasOwn = false;
  for (const { below, shard: at } of ranges) {
    const last = tests.at(-1);
    if (at === shard && wasOwn && last !== undefined) last.below = below;
    else if (at === shard) tests.push({ is: "between", from, below });
    wasOwn = at === shard;
    from = below;
  }
  return tests;
}
