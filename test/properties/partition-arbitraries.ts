import fc from "fast-check";
import { instantOf } from "../../src/kernel/instant.ts";
import type { DynamicKeys, Keyspace } from "../../src/kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../src/kernel/keyspace/keyspace-of.ts";
import {
  PartitionDefinition,
  type SingleDefinition,
} from "../../src/kernel/keyspace/definition.ts";

const ADDED = ["zeta", "a,b", "x=y", "100%", "ü ñ", "mid*dle"];

/** A few keys as if they had been added, each of them awkward in some way. */
export const dynamicKeys: DynamicKeys = {
  count: () => ADDED.length,
  keyAt: (_name, ordinal) => ADDED[ordinal] ?? "",
  indexOf: (_name, key) => (ADDED.includes(key) ? ADDED.indexOf(key) : null),
};

/** The moment at which keyspaces are looked at. */
export const NOW = instantOf(Date.UTC(2012, 5, 15, 12, 34));

/** Zones with clock changes at midnight, a skipped day, half hours and a quarter hour. */
export const zone = fc.constantFrom(
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "America/Sao_Paulo",
  "America/Havana",
  "Pacific/Apia",
  "Australia/Lord_Howe",
  "Asia/Kathmandu",
  "Africa/Casablanca",
  "Asia/Gaza",
);

/** A day within a few years before `NOW`. */
export const day = fc
  .integer({ min: Date.UTC(2009, 0, 1) / 86_400_000, max: Date.UTC(2012, 4, 1) / 86_400_000 })
  .map((number) => instantOf(number * 86_400_000).slice(0, 10));

const expression = fc.constantFrom(
  "0 0 * * *",
  "*/15 * * * *",
  "30 2 * * *",
  "0 6,18 * * mon-fri",
  "0 0 1 * *",
  "5 4 29 2 *",
  "0 12 13 * 5",
  "0 */5 31 * *",
  "@weekly",
);

/** Any definition by time. */
export const timeDefinition: fc.Arbitrary<SingleDefinition> = fc
  .record({
    type: fc.constantFrom("hourly", "daily", "weekly", "monthly", "cron"),
    start: day,
    time_zone: zone,
    expression,
    starts_on: fc.constantFrom("monday", "sunday", "thursday"),
  })
  .map(({ type, start, time_zone, expression: cron, starts_on }) =>
    parsed({
      type,
      start,
      time_zone,
      ...(type === "cron" ? { expression: cron } : {}),
      ...(type === "weekly" ? { starts_on } : {}),
    }),
  );

/** Any definition in one dimension that is not by time. */
export const listDefinition: fc.Arbitrary<SingleDefinition> = fc.oneof(
  fc
    .uniqueArray(fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" }), { minLength: 1 })
    .map((keys) =>
      keys.filter((key) => PartitionDefinition.safeParse({ type: "static", keys: [key] }).success),
    )
    .filter((keys) => keys.length > 0)
    .map((keys) => parsed({ type: "static", keys })),
  fc.constant(parsed({ type: "dynamic", name: "customers" })),
  fc
    .record({
      start: fc.integer({ min: -50, max: 50 }),
      length: fc.nat(200),
      size: fc.integer({ min: 1, max: 9 }),
    })
    .map(({ start, length, size }) =>
      parsed({ type: "integers", start, end: start + length, size }),
    ),
);

/** Any definition in one dimension. */
export const singleDefinition = fc.oneof(timeDefinition, listDefinition);

const multiDefinition: fc.Arbitrary<PartitionDefinition> = fc
  .tuple(singleDefinition, listDefinition, fc.option(listDefinition))
  .map(([first, second, third]) =>
    PartitionDefinition.parse({
      type: "multi",
      dimensions: { day: first, b: second, ...(third === null ? {} : { zz: third }) },
    }),
  );

/** Any definition at all. */
export const anyDefinition = fc.oneof(singleDefinition, multiDefinition);

/** The definition with its defaults. */
export function parsed(definition: Record<string, unknown>): SingleDefinition {
  return PartitionDefinition.parse(definition) as SingleDefinition;
}

/** The keyspace of the definition at `NOW`. */
export function keyspaceNow(definition: PartitionDefinition): Keyspace {
  return keyspaceOf(definition, dynamicKeys, NOW);
}

/** A few ordinals of the keyspace from numbers between 0 and 1. */
export function some(keyspace: Keyspace, shares: readonly number[]): number[] {
  if (keyspace.count === 0) return [];
  return shares.map((share) => Math.min(keyspace.count - 1, Math.floor(share * keyspace.count)));
}

/** Numbers between 0 and 1, to pick partitions with. */
export const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), {
  minLength: 1,
  maxLength: 20,
});
