import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DynamicKeys, Keyspace } from "../../src/kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../src/kernel/keyspace/keyspace-of.ts";
import { PartitionDefinition } from "../../src/kernel/keyspace/definition.ts";
import {
  DYNAMIC_DEFINITIONS,
  DYNAMIC_KEYS,
  type DynamicKeyRow,
} from "../../src/work/definition/rows.ts";
import { BlockEdit } from "../../src/work/asset/block-edit.ts";
import { blockOf } from "../../src/work/asset/partition-blocks.ts";
import { type AttemptOutcome, PARTITION_BLOCKS } from "../../src/work/run/rows.ts";
import type { AnyRow, AnyTable } from "../../src/kernel/table.ts";
import { type AskKeyspace, CELL_STATUSES } from "../../src/server/partitions/cells.ts";
import { PartitionMaps } from "../../src/server/partitions/maps.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";
import { freshDatabaseUrl, sqlOn } from "../postgres.ts";

// Goal: whatever rows there are, a map has the cell of each partition at its ordinal, on both stores
// and from any ordinal on. Method: rows for a random part of each keyspace, and some for keys that
// it does not have, against cells that are worked out one by one.

const NOW = "2025-06-30T12:00:00.000Z";

/** Not in the order of their ordinals, and beyond the basic plane, where stores order their own way. */
const NAMES = Array.from({ length: 22_000 }, (_, at) => {
  const letter = ["a", "Z", "é", "\u{1F600}", "\uFF5E"][at % 5] ?? "";
  return `${letter}${(at * 7_919) % 22_003}`;
});
const ORDINALS = new Map(NAMES.map((name, ordinal) => [name, ordinal]));

const dynamicKeys: DynamicKeys = {
  count: () => NAMES.length,
  keyAt: (_, ordinal) => NAMES[ordinal] ?? "",
  indexOf: (_, key) => ORDINALS.get(key) ?? null,
};

const DEFINITIONS: Record<string, PartitionDefinition> = {
  "days and tenants": PartitionDefinition.parse({
    type: "multi",
    dimensions: {
      day: { type: "daily", start: "2025-06-28" },
      tenant: { type: "dynamic", name: "names" },
    },
  }),
  names: PartitionDefinition.parse({ type: "dynamic", name: "names" }),
  integers: PartitionDefinition.parse({ type: "integers", start: -50, end: 400_000, size: 13 }),
  hours: PartitionDefinition.parse({
    type: "hourly",
    start: "2021-01-01",
    time_zone: "Europe/Berlin",
  }),
  "integers one by one": PartitionDefinition.parse({ type: "integers", start: -50, end: 60_000 }),
  "places, tenants and hours": PartitionDefinition.parse({
    type: "multi",
    dimensions: {
      at: { type: "static", keys: ["north", "north,east", "a*b"] },
      customer: { type: "static", keys: NAMES.slice(0, 7) },
      hour: { type: "hourly", start: "2025-03-01", end: "2025-11-01", time_zone: "Europe/Berlin" },
    },
  }),
  "stars and integers": PartitionDefinition.parse({
    type: "multi",
    dimensions: {
      a: { type: "static", keys: ["x*", "y"] },
      b: { type: "integers", start: -100, end: 20_000 },
    },
  }),
  "stars and more integers": PartitionDefinition.parse({
    type: "multi",
    dimensions: {
      a: { type: "static", keys: ["x*"] },
      b: { type: "integers", start: 0, end: 100_000 },
    },
  }),
  "tenants and days": PartitionDefinition.parse({
    type: "multi",
    dimensions: {
      a_tenant: { type: "dynamic", name: "names" },
      day: { type: "daily", start: "2025-06-25" },
    },
  }),
};

type Cell = { at: number; isMade: boolean; outcome: AttemptOutcome };

const tried: fc.Arbitrary<Cell[]> = fc.uniqueArray(
  fc.record({
    at: fc.nat(),
    isMade: fc.boolean(),
    outcome: fc.constantFrom("SKIPPED" as const, "FAILED" as const, "CANCELLED" as const),
  }),
  { minLength: 2_000, maxLength: 6_000, selector: ({ at }) => at },
);

/** Neighbours that were made alike, as chunks are; some of them have a hole. */
const stretches = fc.array(
  fc.record({ from: fc.nat(), count: fc.integer({ min: 2, max: 400 }), hole: fc.nat(800) }),
  { minLength: 200, maxLength: 400 },
);

/** The blocks of an asset after what happened to its partitions. */
function blocksOf(asset_key: string, partitions: Iterable<[key: string, Cell]>): AnyRow[] {
  const edits = new Map<string, BlockEdit>();
  for (const [key, { isMade, outcome }] of partitions) {
    const block = blockOf(key);
    const edit = edits.get(block) ?? new BlockEdit(asset_key, block, null);
    edits.set(block, edit);
    const attempt = { run_id: "run", at: NOW, start_pos: 1, pos: 1, code_version: null };
    if (isMade) edit.record(key, { ...attempt, outcome: "SUCCEEDED" });
    edit.record(key, { ...attempt, outcome });
  }
  return [...edits.values()].flatMap((edit) => edit.done() ?? []);
}

function statusOf({ isMade, outcome }: Cell): string {
  if (!isMade) return outcome === "FAILED" ? "FAILED" : "NEVER_MATERIALIZED";
  return outcome === "FAILED" ? "MATERIALIZED_LAST_ATTEMPT_FAILED" : "MATERIALIZED";
}

describe.each(["SQLite", "PostgreSQL"])("maps of partitions on %s", (kind) => {
  let store: Store;
  let ws: number;

  /** A few at a time: PostgreSQL ends a transaction that a busy machine keeps waiting. */
  const insert = async (table: AnyTable, rows: readonly AnyRow[]): Promise<void> => {
    for (let at = 0; at < rows.length; at += 1_000) {
      const inserted = rows.slice(at, at + 1_000);
      await store.transact(ws, (transaction) =>
        transaction.writeRows([{ table, inserted, updated: [], deleted: [] }]),
      );
    }
  };

  beforeAll(async () => {
    const url = kind === "SQLite" ? null : await freshDatabaseUrl();
    store =
      url === null
        ? await openSqliteStore({ path: ":memory:", clock: Date.now })
        : await openPostgresStore({ url, unsafe: true });
    ({ ws } = await store.workspace("default", "default"));
    const keys = NAMES.map((partition_key, ordinal): DynamicKeyRow => {
      return { definition: "names", ordinal, partition_key, added_at: NOW };
    });
    await insert(DYNAMIC_DEFINITIONS, [
      { definition: "names", key_count: NAMES.length, removed: null, row_version: 1 },
    ]);
    await insert(DYNAMIC_KEYS, keys);
    // As a server does within seconds with tables that PostgreSQL knows nothing of.
    if (url !== null) await sqlOn(url, "analyze pawl.dynamic_keys");
  });

  afterAll(() => store.close());

  const cellsOf = async (name: string, keyspace: Keyspace, from: number, through: number) => {
    const definition = DEFINITIONS[name];
    if (definition === undefined) throw new Error(name);
    const ask: AskKeyspace = (body) => Promise.resolve(body(keyspace));
    const asset = { assetKey: name, specHash: "", definition, keyspace, ask };
    const cells = await store.read(ws, (reader) =>
      new PartitionMaps().cells(reader, asset, from, through),
    );
    return [...cells].map((cell) => CELL_STATUSES[cell]);
  };

  test("are right where keys that are no neighbours lie beside each other", async () => {
    const name = "stars and more integers";
    const keyspace = keyspaceOf(DEFINITIONS[name] as PartitionDefinition, dynamicKeys, NOW);
    // All in one bucket, in the order of their texts, and as many as from the first to the last.
    const made = [698, 69_942, 700];
    const keys = made.map((at) => keyspace.keyAt(at));
    expect(new Set(keys.map(blockOf)).size).toBe(1);
    const cell: Cell = { at: 0, isMade: true, outcome: "SKIPPED" };
    await insert(
      PARTITION_BLOCKS,
      blocksOf(
        name,
        keys.map((key): [string, Cell] => [key, cell]),
      ),
    );
    const cells = await cellsOf(name, keyspace, 0, keyspace.count);
    const found = cells.flatMap((status, at) => (status === "MATERIALIZED" ? [at] : []));
    expect(found).toEqual([698, 700, 69_942]);
  });

  test.each(Object.entries(DEFINITIONS).filter(([name]) => name !== "stars and more integers"))(
    "are right: %s",
    async (name, definition) => {
      const keyspace = keyspaceOf(definition, dynamicKeys, NOW);
      const [some = []] = fc.sample(tried, { numRuns: 1, seed: 7 });
      const cells = new Map(some.map((cell) => [cell.at % keyspace.count, cell]));
      const [alike = []] = fc.sample(stretches, { numRuns: 1, seed: 11 });
      for (const { from, count, hole } of alike) {
        for (let at = 0; at < count; at++) {
          const ordinal = (from + at) % keyspace.count;
          if (at !== hole) cells.set(ordinal, { at: ordinal, isMade: true, outcome: "SKIPPED" });
        }
      }
      const own = [...cells].map(([at, cell]): [string, Cell] => [keyspace.keyAt(at), cell]);
      const strangers = some.slice(0, 9).map((cell, at): [string, Cell] => [`no key ${at}`, cell]);
      await insert(PARTITION_BLOCKS, blocksOf(name, [...own, ...strangers]));
      const expected = Array.from({ length: keyspace.count }, (_, at) =>
        statusOf(cells.get(at) ?? { at, isMade: false, outcome: "SKIPPED" }),
      );
      expect(await cellsOf(name, keyspace, 0, keyspace.count)).toEqual(expected);
      const last = keyspace.count - 17;
      expect(await cellsOf(name, keyspace, 11, last)).toEqual(expected.slice(11, last));
      expect(await cellsOf(name, keyspace, 11, 500)).toEqual(expected.slice(11, 500));
      const part = Math.min(last, 21_000);
      expect(await cellsOf(name, keyspace, 777, 777 + part)).toEqual(
        expected.slice(777, 777 + part),
      );
    },
  );
});
