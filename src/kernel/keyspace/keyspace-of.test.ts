import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DynamicKeys, boundOf } from "./keyspace.ts";
import { keyspaceOf, pinnedKeyspace } from "./keyspace-of.ts";
import { PartitionDefinition } from "./definition.ts";

const NOW = "2025-07-01T00:30:00.000Z";

const noKeys: DynamicKeys = { count: () => 0, keyAt: () => "", indexOf: () => null };

function keyspace(definition: Record<string, unknown>, now = NOW) {
  return keyspaceOf(PartitionDefinition.parse(definition), noKeys, now);
}

describe("keyspaceOf", () => {
  test("ends before the day that is not over in its own time zone", () => {
    const utc = keyspace({ type: "daily", start: "2025-06-01" });
    const newYork = keyspace({ type: "daily", start: "2025-06-01", time_zone: "America/New_York" });

    expect(utc.keyAt(utc.count - 1)).toBe("2025-06-30");
    expect(newYork.keyAt(newYork.count - 1)).toBe("2025-06-29");
  });

  test("has the days up to an end in the future, which it leaves out", () => {
    const days = keyspace({ type: "daily", start: "2025-12-30", end: "2026-01-02" });

    expect(days.slice(0, 10)).toEqual(["2025-12-30", "2025-12-31", "2026-01-01"]);
  });

  test("is empty while the first partition is not over", () => {
    const days = keyspace({ type: "daily", start: "2025-07-01" });

    expect(days.count).toBe(0);
    expect(days.slice(0, 10)).toEqual([]);
    expect(days.indexOf("2025-07-01")).toBeNull();
  });

  test("gives the hour that a clock change repeats two keys and the skipped hour none", () => {
    const autumn = { type: "hourly", time_zone: "Europe/Berlin", start: "2024-10-27T01:00" };
    const spring = { ...autumn, start: "2024-03-31T01:00" };

    expect(keyspace(autumn).slice(0, 4)).toEqual([
      "2024-10-27T01:00+02:00",
      "2024-10-27T02:00+02:00",
      "2024-10-27T02:00+01:00",
      "2024-10-27T03:00+01:00",
    ]);
    expect(keyspace(spring).slice(0, 2)).toEqual([
      "2024-03-31T01:00+01:00",
      "2024-03-31T03:00+02:00",
    ]);
  });

  test("makes the day of a clock change 23 or 25 hours long", () => {
    const days = keyspace({ type: "daily", start: "2025-03-30", time_zone: "Europe/Berlin" });

    expect(days.windowAt(0)).toEqual({
      start: "2025-03-29T23:00:00.000Z",
      end: "2025-03-30T22:00:00.000Z",
    });
  });

  test("starts a cron window in the skipped hour when the clock jumps over it", () => {
    const cron = keyspace({
      type: "cron",
      expression: "30 2,3 * * *",
      start: "2025-03-30",
      time_zone: "Europe/Berlin",
    });

    expect(cron.slice(0, 2)).toEqual(["2025-03-30T02:30", "2025-03-30T03:30"]);
    expect(cron.windowAt(0)).toEqual({
      start: "2025-03-30T01:00:00.000Z",
      end: "2025-03-30T01:30:00.000Z",
    });
  });

  test("begins with the first whole week and the first whole month", () => {
    expect(keyspace({ type: "weekly", start: "2025-01-01" }).keyAt(0)).toBe("2025-01-06");
    expect(keyspace({ type: "weekly", start: "2025-01-01", starts_on: "sunday" }).keyAt(0)).toBe(
      "2025-01-05",
    );
    expect(keyspace({ type: "monthly", start: "2025-01-15" }).keyAt(0)).toBe("2025-02");
    expect(keyspace({ type: "monthly", start: "2025-01" }).keyAt(0)).toBe("2025-01");
  });

  test("writes and reads keys in a format of one's own", () => {
    const days = keyspace({ type: "daily", start: "2025-01-01", format: "year=YYYY/MM/DD" });
    const hours = keyspace({ type: "hourly", start: "2025-01-01", format: "YYYYMMDDHH" });

    expect(days.keyAt(31)).toBe("year=2025/02/01");
    expect(days.indexOf("year=2025/02/01")).toBe(31);
    expect(days.indexOf("2025-02-01")).toBeNull();
    expect(hours.keyAt(25)).toBe("2025010201");
    expect(hours.indexOf("2025010201")).toBe(25);
  });

  test("has only keys in their exact form", () => {
    const days = keyspace({ type: "daily", start: "2025-01-01" });
    const hours = keyspace({ type: "hourly", start: "2025-01-01" });

    for (const key of ["2025-02-29", "2025-1-1", "2025-01-01 ", "2024-12-31", "2025-13-01", ""]) {
      expect(days.indexOf(key)).toBeNull();
    }
    for (const key of ["2025-01-01T00:00", "2025-01-01T00:00+00:00", "2025-01-01T24:00Z"]) {
      expect(hours.indexOf(key)).toBeNull();
    }
  });

  test("cuts the last range of integers off at the end", () => {
    const ranges = keyspace({ type: "integers", start: -5, end: 16, size: 10 });

    expect(ranges.slice(0, 9)).toEqual(["-5-4", "5-14", "15-15"]);
    expect(ranges.indexOf("15-15")).toBe(2);
    expect(ranges.indexOf("15-24")).toBeNull();
    expect(ranges.indexOf("6-15")).toBeNull();
  });

  test("addresses a billion integers without listing them", () => {
    const blocks = keyspace({ type: "integers", start: 0, end: 1_000_000_000 });

    expect(blocks.count).toBe(1_000_000_000);
    expect(blocks.slice(999_999_998, 10)).toEqual(["999999998", "999999999"]);
  });

  test("sorts dimensions by name, encodes values and lets the last dimension vary fastest", () => {
    const both = keyspace({
      type: "multi",
      dimensions: {
        region: { type: "static", keys: ["eu", "us, west=1"] },
        day: { type: "daily", start: "2025-06-29" },
      },
    });

    expect(both.slice(0, 9)).toEqual([
      "day=2025-06-29,region=eu",
      "day=2025-06-29,region=us%2C%20west%3D1",
      "day=2025-06-30,region=eu",
      "day=2025-06-30,region=us%2C%20west%3D1",
    ]);
    expect(both.valuesAt(3)).toEqual({ day: "2025-06-30", region: "us, west=1" });
    expect(both.windowAt(3)?.start).toBe("2025-06-30T00:00:00.000Z");
    expect(both.indexOf("region=eu,day=2025-06-29")).toBeNull();
  });

  test("finds many keys of several dimensions at once as it finds each", () => {
    const values = ["eu", "us, west=1", "ü%", "a=b"];
    const three = keyspace({
      type: "multi",
      dimensions: {
        region: { type: "static", keys: values },
        day: { type: "daily", start: "2025-06-27" },
        block: { type: "integers", start: 0, end: 25, size: 10 },
      },
    });
    const wrong = [
      "",
      "block=0-9",
      "day=2025-06-28,region=eu",
      "block=0-9,day=2025-06-28,region=",
      "block=0-9,day=2025-06-28,region=xx",
      "block=0-9,day=2024-06-28,region=eu",
      "block=1-9,day=2025-06-28,region=eu",
      "block=0-9,day=2025-06-28,region=us, west=1",
      "block=0-9,day=2025-06-28,region=%65u",
      "block=0-9,region=eu,day=2025-06-28",
      "block=0-9,day=2025-06-28,region=eu,",
    ];
    const right = three.slice(0, three.count);
    const key = fc.constantFrom(...right, ...wrong);

    expect(three.indexesOf(right)).toEqual(right.map((_, ordinal) => ordinal));
    expect(three.indexesOf(wrong)).toEqual(wrong.map(() => null));
    fc.assert(
      fc.property(fc.array(key), (keys) => {
        expect(three.indexesOf(keys)).toEqual(keys.map((each) => three.indexOf(each)));
      }),
    );
  });

  test("refuses more combinations than can be numbered exactly", () => {
    const dimensions = {
      a: { type: "integers", start: 0 },
      b: { type: "static", keys: ["x", "y"] },
    };

    expect(() => keyspace({ type: "multi", dimensions })).toThrow("more than 2^53 combinations");
  });

  test("passes on what dynamic keys throw, so that they can be loaded", () => {
    const missing: DynamicKeys = {
      ...noKeys,
      count: () => {
        throw new RangeError("load first");
      },
    };
    const definition = PartitionDefinition.parse({ type: "dynamic", name: "customers" });

    expect(() => keyspaceOf(definition, missing, NOW)).toThrow(RangeError);
  });

  test("says which dynamic keys it will ask for, also of scattered ordinals", () => {
    const asked: unknown[] = [];
    const keys: DynamicKeys = {
      count: () => 5,
      keyAt: (_name, ordinal) => `k${ordinal}`,
      indexOf: () => null,
      prefetch: (...args) => asked.push(args),
    };
    const definition = PartitionDefinition.parse({ type: "dynamic", name: "customers" });

    const customers = keyspaceOf(definition, keys, NOW);
    expect(customers.slice(2, 10)).toEqual(["k2", "k3", "k4"]);
    expect(customers.keysAt([4, 0, 4])).toEqual(["k4", "k0", "k4"]);
    expect(customers.keysAt([])).toEqual([]);
    expect(() => customers.keysAt([5])).toThrow("ordinal 5");
    expect(asked.splice(0)).toEqual([
      ["customers", [2, 3, 4]],
      ["customers", [4, 0, 4]],
    ]);

    const dimensions = { a: definition, b: { type: "static", keys: ["x,y", "z"] } };
    const grid = keyspaceOf(PartitionDefinition.parse({ type: "multi", dimensions }), keys, NOW);
    expect(grid.keysAt([9, 0, 8])).toEqual([9, 0, 8].map((ordinal) => grid.keyAt(ordinal)));
    expect(asked).toEqual([["customers", [4, 0]]]);
  });
});

describe("pinnedKeyspace", () => {
  test("keeps the ordinals of several dimensions when one of them has grown", () => {
    const definition = PartitionDefinition.parse({
      type: "multi",
      dimensions: {
        account: { type: "static", keys: ["a", "b"] },
        day: { type: "daily", start: "2025-06-29" },
      },
    });
    const then = keyspaceOf(definition, noKeys, NOW);
    const later = keyspaceOf(definition, noKeys, "2025-09-01T00:00:00.000Z");
    const pinned = pinnedKeyspace(definition, noKeys, boundOf(then), null);

    expect(boundOf(then)).toEqual([2, 2]);
    expect(pinned.keyAt(2)).toBe("account=b,day=2025-06-29");
    expect(later.keyAt(2)).not.toBe(pinned.keyAt(2));
  });
});
