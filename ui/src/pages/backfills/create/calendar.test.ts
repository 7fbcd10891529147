import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  PartitionDefinition,
  type TimeDefinition,
} from "../../../../../src/kernel/keyspace/definition.ts";
import { keyspaceOf } from "../../../../../src/kernel/keyspace/keyspace-of.ts";
import { instantOf } from "../../../../../src/kernel/instant.ts";
import { type Calendar, calendarOf } from "./calendar.ts";

const NOW = Date.parse("2026-11-15T21:10:00Z");
const NO_KEYS = { count: () => 0, keyAt: () => "", indexOf: () => null };

function made(definition: object, nowMs = NOW): { calendar: Calendar; keys: string[] } {
  const parsed = PartitionDefinition.parse(definition) as TimeDefinition;
  const keyspace = keyspaceOf(parsed, NO_KEYS, instantOf(nowMs));
  const calendar = calendarOf(parsed, keyspace.count, nowMs);
  if (calendar === null) throw new Error("There are no partitions.");
  return { calendar, keys: keyspace.slice(0, 100_000) };
}

function pick({ picks }: Calendar, wanted: string): [string, string] | null {
  const found = picks.find(({ text }) => text === wanted);
  return found === undefined ? null : [found.start, found.end];
}

describe("calendarOf", () => {
  test("counts days back from now", () => {
    const { calendar } = made({ type: "daily", start: "2025-01-01" });
    expect(calendar).toMatchObject({
      inputType: "date",
      min: "2025-01-01",
      max: "2026-11-14",
      endedAt: null,
    });
    expect(pick(calendar, "Last month")).toEqual(["2026-10-01", "2026-10-31"]);
    expect(pick(calendar, "This month")).toEqual(["2026-11-01", "2026-11-14"]);
    expect(pick(calendar, "Last 7 days")).toEqual(["2026-11-08", "2026-11-14"]);
    expect(pick(calendar, "Everything")).toEqual(["2025-01-01", "2026-11-14"]);
  });

  test("counts back from the end where that is past, and says where", () => {
    const { calendar } = made({ type: "daily", start: "2025-01-01", end: "2025-03-01" });
    expect(calendar.endedAt).toBe("2025-03-01");
    expect(pick(calendar, "Last month")).toEqual(["2025-02-01", "2025-02-28"]);
    expect(pick(calendar, "Last 7 days")).toEqual(["2025-02-22", "2025-02-28"]);
    expect(pick(calendar, "This month")).toBeNull();
  });

  test("leaves days to come out of what is last", () => {
    const { calendar } = made({ type: "daily", start: "2026-01-01", end: "2027-01-01" });
    expect(calendar.max).toBe("2026-12-31");
    expect(pick(calendar, "Last 7 days")).toEqual(["2026-11-08", "2026-11-14"]);
  });

  test("offers nothing that has no partition", () => {
    const { calendar } = made({ type: "daily", start: "2026-11-10" });
    expect(pick(calendar, "Last month")).toBeNull();
    expect(pick(calendar, "Last 7 days")).toEqual(["2026-11-10", "2026-11-14"]);
  });

  test("writes keys in the definition's own format", () => {
    const { calendar } = made({ type: "daily", start: "2026-01-01", format: "DD.MM.YYYY" });
    expect(calendar.keyOf("2026-02-03")).toBe("03.02.2026");
    expect(calendar.valueOf("03.02.2026")).toBe("2026-02-03");
    expect(calendar.valueOf("2026-02-03")).toBe("");
  });

  test("finds the week of a day, the month, the hour of a zone and the time of an expression", () => {
    expect(made({ type: "weekly", start: "2026-01-05" }).calendar.keyOf("2026-02-05")).toBe(
      "2026-02-02",
    );
    const months = made({ type: "monthly", start: "2025-01" }).calendar;
    expect([months.inputType, months.keyOf("2026-02"), months.max]).toEqual([
      "month",
      "2026-02",
      "2026-10",
    ]);
    const hours = made({
      type: "hourly",
      start: "2026-07-01",
      time_zone: "Europe/Berlin",
    }).calendar;
    expect(hours.keyOf("2026-07-02T05:30")).toBe("2026-07-02T05:00+02:00");
    const times = made({ type: "cron", expression: "0 6,18 * * *", start: "2026-07-01" }).calendar;
    expect(times.keyOf("2026-07-02T17:00")).toBe("2026-07-02T06:00");
  });

  test("shows each key so that the same key comes of it, and offers only keys there are", () => {
    const definition = fc.constantFrom(
      { type: "daily", start: "2026-01-01", time_zone: "America/New_York" },
      { type: "weekly", start: "2025-01-01", starts_on: "sunday" },
      { type: "monthly", start: "2020-01-15" },
      { type: "hourly", start: "2026-10-01T00:30" },
      { type: "hourly", start: "2026-10-01", end: "2026-10-20" },
      { type: "cron", expression: "30 2 * * 1-5", start: "2026-01-01", time_zone: "Europe/Paris" },
    );
    fc.assert(
      fc.property(definition, fc.nat(), (each, at) => {
        const { calendar, keys } = made(each);
        const key = keys[at % keys.length] ?? "";
        expect(calendar.keyOf(calendar.valueOf(key))).toBe(key);
        for (const { start, end } of calendar.picks) {
          expect(keys.indexOf(start)).toBeGreaterThanOrEqual(0);
          expect(keys.indexOf(end)).toBeGreaterThanOrEqual(keys.indexOf(start));
        }
      }),
    );
  });
});
