import { describe, expect, test } from "vitest";
import { PawlError } from "../errors.ts";
import type { DynamicKeys } from "./keyspace.ts";
import { keyspaceOf } from "./keyspace-of.ts";
import { PartitionDefinition } from "./definition.ts";
import { resolveSelector, withExactKeys } from "./resolve-selector.ts";
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

describe("withExactKeys", () => {
  function exact(definition: Record<string, unknown>, selector: Selector): Selector {
    const parsed = PartitionDefinition.parse(definition);
    return withExactKeys(parsed, keyspaceOf(parsed, noKeys, "2025-07-01T00:00:00.000Z"), selector);
  }
  const regions = { type: "static", keys: ["e,u", "us"] };
  const hours = { type: "hourly", start: "2025-01-01" };

  test("names the keys that a stretch of time stands for, also in one of several dimensions", () => {
    const day: Selector = { type: "range", start: "2025-01-02", end: "2025-01-02", only: "failed" };
    const [start, end] = ["2025-01-02T00:00Z", "2025-01-02T23:00Z"];
    expect(exact(hours, day)).toEqual({ type: "range", start, end, only: "failed" });

    const multi = { type: "multi", dimensions: { hour: hours, region: regions } };
    expect(
      exact(multi, {
        type: "range",
        start: "hour=2025-01-02,region=e%2Cu",
        end: "hour=2025-01-02,region=us",
      }),
    ).toEqual({
      type: "range",
      start: `hour=${start},region=e%2Cu`,
      end: `hour=${end},region=us`,
    });
    expect(
      exact(multi, {
        type: "filter",
        dimensions: { hour: { start: "2025-01-02", end: "2025-01-02" }, region: "us" },
      }),
    ).toEqual({ type: "filter", dimensions: { hour: { start, end }, region: "us" } });
  });

  test("names the last partition there is where a range has no end", () => {
    const open: Selector = { type: "range", start: "2025-06-29" };
    expect(exact(DAILY, open)).toEqual({ ...open, end: "2025-06-30" });
    expect(exact(hours, { type: "range", start: "2025-06-30" })).toEqual({
      type: "range",
      start: "2025-06-30T00:00Z",
      end: "2025-06-30T23:00Z",
    });
    expect(exact(regions, { type: "range", start: "e,u" })).toEqual({
      type: "range",
      start: "e,u",
      end: "us",
    });
    expect(exact(GRID, { type: "range", start: "day=2025-06-30,region=us-east" })).toEqual({
      type: "range",
      start: "day=2025-06-30,region=us-east",
      end: "day=2025-06-30,region=us-west",
    });
  });

  test("leaves every other selector as it is", () => {
    const selectors: Selector[] = [
      { type: "all" },
      { type: "explicit", partition_keys: ["2025-01-02T00:00Z"] },
      { type: "range", start: "2025-01-02T00:00Z", end: "2025-01-02T05:00Z" },
      { type: "filter", dimensions: { partition: "2025-01-02T*" } },
    ];
    for (const selector of selectors) expect(exact(hours, selector)).toEqual(selector);
  });
});

describe("resolveSelector", () => {
  test("takes a range without an end to the last partition, where there is one", () => {
    const open: Selector = { type: "range", start: "2025-06-29" };
    expect(resolve(DAILY, open).ordinals(0, 10)).toEqual([179, 180]);
    const endless = { type: "integers", start: 0, size: 10 };
    expect(refusal(endless, { type: "range", start: "20-29" }).code).toBe("SELECTION_TOO_LARGE");
    const bounded = { ...endless, end: 40 };
    expect(resolve(bounded, { type: "range", start: "20-29" }).count).toBe(2);
  });

  test("takes a range with both its ends", () => {
    const selection = resolve(DAILY, { type: "range", start: "2025-01-02", end: "2025-01-04" });

    expect(selection.ordinals(0, 10)).toEqual([1, 2, 3]);
    expect(selection.contains(0)).toBe(false);
  });

  test("takes days of hourly partitions as their hours, in their time zone", () => {
    const utc = { type: "hourly", start: "2025-01-01T05:00" };
    const days: Selector = { type: "range", start: "2025-01-01", end: "2025-01-02" };
    expect(resolve(utc, days).intervals).toEqual([[0, 42]]);

    const berlin = { type: "hourly", start: "2025-03-29", time_zone: "Europe/Berlin" };
    const changed: Selector = { type: "range", start: "2025-03-30", end: "2025-03-30" };
    expect(resolve(berlin, changed).intervals).toEqual([[24, 46]]);
  });

  test("takes nothing for a day that the calendar of the time zone leaves out", () => {
    const range = (start: string, end: string): Selector => ({ type: "range", start, end });
    const time_zone = "Pacific/Apia";
    const hours = { type: "hourly", start: "2011-12-28", end: "2012-01-03", time_zone };
    // 2011-12-29 was followed by 2011-12-31.
    expect(resolve(hours, range("2011-12-29", "2011-12-30")).intervals).toEqual([[24, 47]]);
    expect(resolve(hours, range("2011-12-30", "2011-12-31")).intervals).toEqual([[48, 71]]);
    expect(refusal(hours, range("2011-12-30", "2011-12-30")).code).toBe("PARTITION_INVALID");
    // It lies in its month all the same.
    const months = { type: "monthly", start: "2011-11", end: "2012-02", time_zone };
    expect(resolve(months, range("2011-12-30", "2012-01")).intervals).toEqual([[1, 2]]);
  });

  test("takes what starts in a stretch of time, or else what the stretch lies in", () => {
    const range = (start: string, end: string): Selector => ({ type: "range", start, end });
    expect(resolve(DAILY, range("2025-02", "2025-02")).intervals).toEqual([[31, 58]]);
    expect(
      resolve({ type: "monthly", start: "2025-01" }, range("2025-02-10", "2025-03-01")).intervals,
    ).toEqual([[1, 2]]);
    // Wednesday lies in the week of Monday 2024-12-30.
    const weekly = { type: "weekly", start: "2024-12-30" };
    expect(resolve(weekly, range("2025-01-01", "2025-01-06")).intervals).toEqual([[0, 1]]);
    const mornings = { type: "cron", expression: "0 6 * * *", start: "2025-01-01" };
    expect(resolve(mornings, range("2025-01-02", "2025-01-03")).intervals).toEqual([[1, 2]]);
    const own = { ...DAILY, format: "YYYY/MM/DD" };
    expect(resolve(own, range("2025-01-02", "2025/01/04")).intervals).toEqual([[1, 3]]);
  });

  test("takes of a stretch of time what is there of it, and refuses one without partitions", () => {
    const range = (start: string, end: string): Selector => ({ type: "range", start, end });
    expect(resolve(DAILY, range("2025", "2025")).intervals).toEqual([[0, 180]]);
    for (const nowhere of ["2024", "2026-01", "2025-13", "2025-02-30", "25-01"]) {
      const error = refusal(DAILY, range("2025-01-01", nowhere));
      expect(error.code, nowhere).toBe("PARTITION_INVALID");
      expect(error.message).toContain(JSON.stringify(nowhere));
    }
    expect(
      refusal({ type: "hourly", start: "2025-01-01" }, range("2025-02", "2025-01")).message,
    ).toBe(
      "The range starts at 2025-02, which comes after its end 2025-01; give the earlier one first.",
    );
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
