import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../kernel/canonical.ts";
import { instantOf } from "../../kernel/instant.ts";
import type { TaskResultField } from "../run/events.ts";
import { WorkingSet } from "../working-set.ts";
import { BlockChanges, recordAttempts } from "./fold-partitions.ts";
import { BlockEdit, type EndedAttempt, type KeptMetadata } from "./block-edit.ts";
import {
  blockKeyOf,
  blockOf,
  keysInBlock,
  materializedIn,
  partitionAt,
  partitionIn,
  partitionsIn,
} from "./partition-blocks.ts";
import {
  keepMetadata,
  keptRowsOf,
  METADATA_KEPT_MAX,
  metadataAt,
  metadataHistory,
  needMetadata,
  saidOf,
} from "./partition-metadata.ts";
import {
  PARTITION_BLOCKS,
  PARTITION_METADATA,
  type PartitionBlockRow,
  type PartitionRow,
} from "../run/rows.ts";

describe("blockOf", () => {
  test.each([
    ["2026-01-15", "2026-01-**"],
    ["2026-01", "2026-**"],
    ["2026-W03", "2026-W**"],
    ["2026-01-15T13:00Z", "2026-01-15T**:00Z"],
    ["2026-10-25T02:00+01:00", "2026-10-25T**:00+01:00"],
    ["2026-01-15T13:45", "2026-01-15T**:45"],
    ["2026011513", "20260115**"],
    ["2026-01-15T13", "2026-01-15T**"],
    ["7", "*"],
    ["-50", "-**"],
    ["123456", "1234**"],
    ["c00042", "c000**"],
    ["customer=c7,hour=2026-01-15T13:00Z", "customer=c7,hour=2026-01-15T**:00Z"],
    ["day=2026-01-15,shop=shop-042", "day=2026-01-15,shop=shop-0**"],
  ])("%s is counted in %s", (key, block) => {
    expect(blockOf(key)).toBe(block);
  });

  test.each(["", "germany", "a*12", "9b2f0c4e-5f41-4a8e-9e5d-3f0a7c1d9e42", "~0ab", "Z"])(
    "%s is in a bucket",
    (key) => {
      expect(blockOf(key)).toMatch(/^~[0-9a-f]{4}$/);
    },
  );

  test("values of a last dimension that are no numbers are with their neighbours", () => {
    expect(blockOf("day=2026-01-15,region=eu")).toMatch(/^day=2026-01-15,region=~[0-9a-f]{2}$/);
  });

  test("spreads names evenly", () => {
    const names = Array.from({ length: 65_536 }, (_, at) => `${at}-name`);
    expect(new Set(names.map(blockOf)).size).toBeGreaterThan(38_000);
  });
});

const KEYS = [
  "2026-01-09",
  "2026-01-10",
  "2026-02-01",
  "2026-01",
  "2026-01-15T00:00Z",
  "2026-01-15T23:00Z",
  "2026-10-25T02:00+02:00",
  "2026-10-25T02:00+01:00",
  "0",
  "1",
  "9",
  "00",
  "01",
  "10",
  "99",
  "100",
  "101",
  "-1",
  "-50",
  "",
  "a",
  "a*",
  "a**",
  "a*1",
  "a**1",
  "a*12",
  "~",
  "~0ab",
  "é",
  "\u{1f642}",
  "a=1,b=x",
  "a=1,b=y",
  "a=1,b=",
  "a=1,b=7",
  "a=1,b=07",
  "a=2,b=x",
  "a=*,b=x",
  "a=**,b=x",
  "a=*,b=7",
  "a=~00,b=x",
  "a=1,b=~0ab",
  "*",
  "~ab*",
  "a*~12",
  "=,=",
];

const METADATA: (Json | undefined)[] = [
  undefined,
  null,
  { rows: 1 },
  { rows: 2 },
  { text: "x".repeat(300) },
];

const LARGE = { text: "x".repeat(300) };

type Tried = { key: string; attempt: EndedAttempt; metadata: Json | undefined };

const tried: fc.Arbitrary<Tried[]> = fc
  .array(
    fc.record({
      key: fc.constantFrom(...KEYS),
      start_pos: fc.nat(20),
      outcome: fc.constantFrom("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"),
      code_version: fc.constantFrom(null, "v1"),
      checks: fc.constantFrom(undefined, "PASSED", "WARNED", "FAILED", "BLOCKED"),
      metadata: fc.constantFrom(...METADATA),
      isNext: fc.boolean(),
    }),
    { maxLength: 60 },
  )
  .map((all) => {
    let pos = 20;
    return all.map(({ key, metadata, isNext, ...said }) => {
      if (isNext) pos++;
      const at = instantOf(pos);
      return {
        key,
        metadata,
        attempt: { run_id: `r${pos}`, at, pos, ...said },
      };
    });
  });

/** What is known of a partition, worked out row by row. */
function expectedOf(all: readonly Tried[], key: string): Known | null {
  return all
    .filter((each) => each.key === key)
    .reduce<Known | null>(
      (before, { attempt, metadata }) => knownAfter(before, key, attempt, metadata),
      null,
    );
}

/** What materializations of a partition said that count, newest first. */
function saidBy(all: readonly Tried[], key: string) {
  let started = Number.NEGATIVE_INFINITY;
  const said = [];
  for (const { attempt, metadata, ...each } of all) {
    if (each.key !== key || attempt.start_pos < started) continue;
    started = attempt.start_pos;
    const { pos, run_id, at, code_version } = attempt;
    if (attempt.outcome !== "SUCCEEDED" || (metadata ?? null) === null) continue;
    said.unshift({ pos, run_id, at, code_version, metadata });
  }
  return said;
}

type Known = { row: PartitionRow; metadata: Json };

function knownAfter(
  known: Known | null,
  key: string,
  attempt: EndedAttempt,
  metadata: Json | undefined,
): Known {
  const before = known?.row;
  if (known !== null && known.row.last_attempt_start_pos > attempt.start_pos) return known;
  const isMade = attempt.outcome === "SUCCEEDED";
  const row = {
    asset_key: "a",
    partition_key: key,
    last_materialization_run_id: before?.last_materialization_run_id ?? null,
    last_materialization_at: before?.last_materialization_at ?? null,
    last_materialization_code_version: before?.last_materialization_code_version ?? null,
    last_materialization_start_pos: before?.last_materialization_start_pos ?? null,
    last_materialization_checks: before?.last_materialization_checks ?? null,
    last_materialization_pos: before?.last_materialization_pos ?? null,
    ...(isMade
      ? {
          last_materialization_run_id: attempt.run_id,
          last_materialization_at: attempt.at,
          last_materialization_code_version: attempt.code_version,
          last_materialization_start_pos: attempt.start_pos,
          last_materialization_pos: attempt.pos,
          last_materialization_checks: attempt.checks ?? null,
        }
      : {}),
    last_attempt_run_id: attempt.run_id,
    last_attempt_at: attempt.at,
    last_attempt_outcome: attempt.outcome,
    last_attempt_start_pos: attempt.start_pos,
    row_version: attempt.pos,
  };
  return { row, metadata: isMade ? (metadata ?? null) : (known?.metadata ?? null) };
}

/** Blocks and metadata after attempts; so many of them are recorded in one go. */
function recorded(all: readonly Tried[], inOneGo: number): Map<string, AfterAttempts> {
  const stored = new Map<string, AfterAttempts>();
  for (let start = 0; start < all.length; start += inOneGo) {
    const edits = new Map<string, BlockEdit>();
    for (const { key, attempt, metadata } of all.slice(start, start + inOneGo)) {
      const block = blockOf(key);
      const known = stored.get(block) ?? { row: null, kept: new Map<string, KeptMetadata[]>() };
      stored.set(block, known);
      const edit = edits.get(block) ?? new BlockEdit("a", block, known.row);
      edits.set(block, edit);
      const kept = edit.record(key, attempt, saidOf(metadata)) ?? [];
      known.kept.set(key, [...(known.kept.get(key) ?? []), ...kept]);
    }
    for (const [block, edit] of edits) {
      const known = stored.get(block);
      const row = edit.done();
      if (known !== undefined && row !== null) known.row = JSON.parse(JSON.stringify(row));
    }
  }
  return stored;
}

type AfterAttempts = { row: PartitionBlockRow | null; kept: Map<string, KeptMetadata[]> };

/** A set with a partition's block, and what was kept of its metadata. */
function setWith(stored: Map<string, AfterAttempts>, key: string): WorkingSet {
  const set = new WorkingSet();
  const { row, kept } = stored.get(blockOf(key)) ?? { row: null, kept: new Map() };
  set.loaded(PARTITION_BLOCKS, [blockKeyOf("a", key)], row === null ? [] : [row]);
  const slots = Array.from({ length: METADATA_KEPT_MAX }, (_, slot) => ["a", key, slot]);
  set.loaded(PARTITION_METADATA, slots, []);
  for (const each of kept.get(key) ?? []) keepMetadata(set.rows, "a", key, each);
  return set;
}

describe("blocks", () => {
  test("I44: know of each partition what its attempts say", () => {
    fc.assert(
      fc.property(tried, fc.integer({ min: 1, max: 20 }), (all, inOneGo) => {
        const stored = recorded(all, inOneGo);
        for (const key of KEYS) {
          const row = stored.get(blockOf(key))?.row ?? null;
          const { rows } = setWith(stored, key);
          const expected = expectedOf(all, key);
          expect(row === null ? null : partitionIn(row, key)).toEqual(expected?.row ?? null);
          needMetadata(rows, [["a", key]]);
          expect(metadataAt(rows, "a", key)).toEqual(expected?.metadata ?? null);
        }
      }),
    );
  });

  test("I101: keep what each materialization said, newest first", () => {
    const all = { before: null, limit: 1_000, charactersMax: Number.MAX_SAFE_INTEGER };
    fc.assert(
      fc.property(tried, fc.integer({ min: 1, max: 20 }), (attempts, inOneGo) => {
        const stored = recorded(attempts, inOneGo);
        for (const key of KEYS) {
          const { items, isEnd } = metadataHistory(setWith(stored, key).rows, "a", key, all);
          expect(isEnd).toBe(true);
          expect(
            items.map(({ pos, run_id, at, code_version, metadata }) => {
              return { pos, run_id, at, code_version, metadata };
            }),
          ).toEqual(saidBy(attempts, key));
          const numbers = items.map(({ number }) => number);
          expect(numbers).toEqual(numbers.map((_, at) => numbers.length - 1 - at));
        }
      }),
    );
  });

  test("I102: keep the newest of many, page by page alike, and nothing that says nothing", () => {
    const attempts = Array.from({ length: 250 }, (_, at): Tried => {
      const pos = at + 1;
      const metadata = at % 5 === 4 ? undefined : { rows: pos, ...(at % 3 === 0 ? LARGE : {}) };
      const attempt = { run_id: `r${pos}`, at: instantOf(pos), pos, start_pos: pos };
      const outcome = "SUCCEEDED" as const;
      return { key: "7", attempt: { ...attempt, outcome, code_version: null }, metadata };
    });
    const { rows } = setWith(recorded(attempts, 7), "7");
    const expected = saidBy(attempts, "7").map(({ pos }) => pos);
    const bounds = { before: null, limit: 1_000, charactersMax: 10_000_000 };
    const whole = metadataHistory(rows, "a", "7", bounds);
    expect(whole.items.map(({ pos }) => pos)).toEqual(expected.slice(0, METADATA_KEPT_MAX));
    expect(keptRowsOf(rows, "a", "7")).toBe(METADATA_KEPT_MAX);
    const paged: number[] = [];
    let before: number | null = null;
    for (;;) {
      const page = metadataHistory(rows, "a", "7", { before, limit: 50, charactersMax: 2_000 });
      for (const { pos } of page.items) paged.push(pos);
      before = page.items.at(-1)?.number ?? null;
      if (page.isEnd) break;
    }
    expect(paged).toEqual(whole.items.map(({ pos }) => pos));
  });

  test("I11: are the same rows however many attempts are recorded in one go", () => {
    fc.assert(
      fc.property(tried, fc.integer({ min: 1, max: 20 }), (all, inOneGo) => {
        expect(recorded(all, inOneGo)).toEqual(recorded(all, 1));
      }),
    );
  });

  test("list and count the partitions in them", () => {
    fc.assert(
      fc.property(tried, (all) => {
        const blocks = [...recorded(all, 5).values()].flatMap(({ row }) => row ?? []);
        const keys = [...new Set(all.map(({ key }) => key))];
        const rows = keys.flatMap((key) => expectedOf(all, key)?.row ?? []);
        const found = blocks.flatMap(partitionsIn);
        expect(new Set(found)).toEqual(new Set(rows));
        expect(blocks.flatMap(keysInBlock).toSorted()).toEqual(keys.toSorted());
        const made = rows.filter(({ last_materialization_at: at }) => at !== null);
        expect(new Set(blocks.flatMap(materializedIn))).toEqual(
          new Set(made.map(({ partition_key }) => partition_key)),
        );
        const failing = rows.filter(
          ({ last_attempt_outcome }) => last_attempt_outcome === "FAILED",
        );
        const sum = (of: (block: PartitionBlockRow) => number): number =>
          blocks.reduce((total, block) => total + of(block), 0);
        expect(sum(({ tried: count }) => count)).toBe(rows.length);
        expect(sum(({ materialized }) => materialized)).toBe(made.length);
        expect(sum(({ failing: count }) => count)).toBe(failing.length);
        expect(sum(({ failed }) => failed)).toBe(
          failing.filter(({ last_materialization_at: at }) => at === null).length,
        );
      }),
    );
  });

  test("write once what neighbours have in common", () => {
    const edit = new BlockEdit("a", "2026-01-**", null);
    const attempt = {
      run_id: "r",
      at: instantOf(0),
      start_pos: 1,
      pos: 2,
      outcome: "SUCCEEDED",
      code_version: null,
    } as const;
    for (let day = 10; day < 32; day++) edit.record(`2026-01-${day}`, attempt, saidOf({ rows: 1 }));
    expect(edit.done()).toEqual({
      asset_key: "a",
      block: "2026-01-**",
      tried: 22,
      materialized: 22,
      failing: 0,
      failed: 0,
      attempts: [["r", instantOf(0), 1, 2, "SUCCEEDED", null]],
      places: [10, 31, 0, 0],
      keys: null,
      metadata: [[10, 31, { rows: 1 }]],
    });
  });
});

type AttemptAt = {
  run_id: string;
  started_pos: number;
  pos: number;
  outcome: TaskResultField["outcome"];
};

/** The row of a partition after attempts that ended in this order. */
function after(...attempts: readonly AttemptAt[]): PartitionRow | null {
  const set = new WorkingSet();
  set.loaded(PARTITION_BLOCKS, [blockKeyOf("a", "1")], []);
  for (const { run_id, started_pos, pos, outcome } of attempts) {
    const change = {
      rows: set.rows,
      run: { run_id },
      pos,
      at: instantOf(pos),
      made: new Map<string, string[]>(),
      blocks: new BlockChanges(set.rows),
    };
    const result = {
      task_key: 0,
      attempt: 1,
      outcome,
      asset_key: "a",
      partition_keys: ["1"],
      code_version: null,
    } as unknown as TaskResultField;
    recordAttempts(change, { started_pos }, result, new Map());
    change.blocks.write();
  }
  return partitionAt(set.rows, "a", "1");
}

describe("recordAttempts", () => {
  test("I44: keeps what was made when a later attempt fails", () => {
    const made = { run_id: "one", started_pos: 1, pos: 2, outcome: "SUCCEEDED" } as const;
    const failed = { run_id: "two", started_pos: 3, pos: 4, outcome: "FAILED" } as const;
    expect(after(made, failed)).toMatchObject({
      last_materialization_run_id: "one",
      last_materialization_at: instantOf(2),
      last_materialization_start_pos: 1,
      last_attempt_run_id: "two",
      last_attempt_outcome: "FAILED",
      row_version: 4,
    });
  });

  test("I45: is not overwritten by a run that started before and ends late", () => {
    const newer = { run_id: "two", started_pos: 3, pos: 4, outcome: "SUCCEEDED" } as const;
    const older = { run_id: "one", started_pos: 1, pos: 9 } as const;
    for (const outcome of ["SUCCEEDED", "FAILED"] as const) {
      expect(after(newer, { ...older, outcome })).toEqual(after(newer));
    }
  });
});
