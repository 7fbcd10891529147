import { describe, expect, test } from "vitest";
import { PawlError } from "../errors.ts";
import type { DynamicKeys } from "./keyspace.ts";
import { keyspaceOf } from "./keyspace-of.ts";
import { PartitionDefinition } from "./definition.ts";
import { resolveSelector } from "./resolve-selector.ts";
import type { Selector } from "./selector.ts";

const noKeys: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

const DAILY = { type: "daily", start: "2025-01-01" };
const GRID = {
  type: "multi",
  dimensions: { day: DAILY, region: { type: "static", keys: ["eu", "us-east", "us-west"] } },
};

function resolve(definition: Record<string, unknown>, selector: Selector) {
  const parsed = PartitionDefinition.parse(definition);
  return resolveSelector(parsed, keyspaceOf(parsed, noKeys, "2025-07-01T00:00:00.000Z"), selector);
}

function refusal(definition: Record<string, unknown>, selector: Selector): PawlError {
  try {
    resolve(definition, selector);
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("resolveSelector", () => {
  test("takes a range with both its ends", () => {
    const selection = resolve(DAILY, { type: "range", start: "2025-01-02", end: "2025-01-04" });

    expect(selection.ordinals(0, 10)).toEqual([1, 2, 3]);
    expect(selection.contains(0)).toBe(false);
  });

  test("takes a range over several dimensions as a range in each", () => {
    const selection = resolve(GRID, {
      type: "range",
      start: "day=2025-01-01,region=us-east",
      end: "day=2025-01-02,region=us-west",
    });

    expect(selection.ordinals(0, 10)).toEqual([1, 2, 4, 5]);
  });

  test("matches a pattern in one dimension and everything in the others", () => {
    const selection = resolve(GRID, { type: "filter", dimensions: { region: "us-*" } });

    expect(selection.count).toBe(181 * 2);
    expect(selection.ordinals(1, 3)).toEqual([2, 4, 5]);
  });

  test("filters the only dimension under the name partition", () => {
    const selection = resolve(DAILY, { type: "filter", dimensions: { partition: "2025-0?-01" } });

    expect(selection.ordinals(0, 3)).toEqual([0, 31, 59]);
  });

  test("says how a key that is to be added first is added", () => {
    const error = refusal(
      { type: "dynamic", name: "customers" },
      { type: "explicit", partition_keys: ["ann"] },
    );
    expect(error.message).toBe(
      'There is no partition "ann": there are none yet. Add it with ' +
        "`pawl partitions add <asset> <key>`, of an asset that has customers.",
    );
  });

  test("names the wrong key, the keys there are and what to do", () => {
    const error = refusal(DAILY, { type: "explicit", partition_keys: ["2025-02-30"] });

    expect(error.code).toBe("PARTITION_INVALID");
    expect(error.message).toBe(
      'There is no partition "2025-02-30": the 181 keys go from 2025-01-01 to 2025-06-30. ' +
        "Write the key exactly like these; a partition exists once its time is over.",
    );
  });

  test("names the dimension of a wrong value", () => {
    const error = refusal(GRID, { type: "filter", dimensions: { region: ["eu", "mars"] } });

    expect(error.code).toBe("PARTITION_INVALID");
    expect(error.message).toContain('"mars" of the dimension region');
    expect(error.details).toMatchObject({ partition_key: "mars", dimension: "region" });
  });

  test("refuses a range that runs backwards with both its ends", () => {
    const error = refusal(DAILY, { type: "range", start: "2025-03-01", end: "2025-01-01" });

    expect(error.code).toBe("INPUT_INVALID");
    expect(error.message).toContain("2025-03-01, which comes after its end 2025-01-01");
  });

  test("refuses dimensions that do not exist with those that do", () => {
    const error = refusal(GRID, { type: "filter", dimensions: { country: "eu" } });

    expect(error.code).toBe("INPUT_INVALID");
    expect(error.message).toContain("use day or region");
  });

  test("refuses a selection of nothing", () => {
    expect(refusal(GRID, { type: "filter", dimensions: { region: "mars-*" } }).code).toBe(
      "SELECTION_EMPTY",
    );
    expect(refusal({ ...DAILY, start: "2025-07-01" }, { type: "all" }).message).toContain(
      "no partitions yet",
    );
  });

  test("refuses to compare a pattern with more than a million keys", () => {
    const blocks = { type: "integers", start: 0, end: 2_000_000 };
    const error = refusal(blocks, { type: "filter", dimensions: { partition: "1*" } });

    expect(error.code).toBe("SELECTION_TOO_LARGE");
    expect(resolve(blocks, { type: "filter", dimensions: { partition: "*" } }).count).toBe(2e6);
  });

  test("refuses all of the integers without an end but takes a range of them", () => {
    const open = { type: "integers", start: 0 };

    expect(refusal(open, { type: "all" }).code).toBe("SELECTION_TOO_LARGE");
    expect(resolve(open, { type: "range", start: "5", end: "1000000004" }).count).toBe(1e9);
  });
});
