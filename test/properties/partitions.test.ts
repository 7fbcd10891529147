import fc from "fast-check";
import { Temporal } from "temporal-polyfill";
import { describe, expect, test } from "vitest";
import { epochMsOf, instantOf } from "../../src/kernel/instant.ts";
import { boundOf } from "../../src/kernel/keyspace/keyspace.ts";
import {
  decodeMultiKey,
  decodeValue,
  encodeValue,
  keyspaceOf,
  multiKeyOf,
  pinnedKeyspace,
} from "../../src/kernel/keyspace/keyspace-of.ts";
import {
  anyDefinition,
  day,
  dynamicKeys,
  keyspaceNow,
  NOW,
  parsed,
  shares,
  some,
  timeDefinition,
  zone,
} from "./partition-arbitraries.ts";

describe("keyspaces", () => {
  test("finds each key where keyAt put it", () => {
    fc.assert(
      fc.property(anyDefinition, shares, (definition, at) => {
        const keyspace = keyspaceNow(definition);
        for (const ordinal of some(keyspace, at)) {
          expect(keyspace.indexOf(keyspace.keyAt(ordinal))).toBe(ordinal);
        }
      }),
    );
  });

  test("slices to what keyAt gives one by one", () => {
    fc.assert(
      fc.property(anyDefinition, shares, fc.nat(150), (definition, at, limit) => {
        const keyspace = keyspaceNow(definition);
        for (const offset of some(keyspace, at.slice(0, 2))) {
          const size = Math.min(limit, keyspace.count - offset);
          const keys = Array.from({ length: size }, (_, next) => keyspace.keyAt(offset + next));
          expect(keyspace.slice(offset, limit)).toEqual(keys);
        }
      }),
    );
  });

  test("keeps every ordinal when pinned and the world grows", () => {
    fc.assert(
      fc.property(anyDefinition, shares, fc.nat(1_000_000_000), (definition, at, laterMs) => {
        const keyspace = keyspaceNow(definition);
        const later = instantOf(epochMsOf(NOW) + laterMs);
        const grown = keyspaceOf(definition, dynamicKeys, later);
        const pinned = pinnedKeyspace(definition, dynamicKeys, boundOf(keyspace), null);
        expect(pinned.count).toBe(keyspace.count);
        expect(grown.count).toBeGreaterThanOrEqual(keyspace.count);
        for (const ordinal of some(keyspace, at)) {
          expect(pinned.keyAt(ordinal)).toBe(keyspace.keyAt(ordinal));
        }
      }),
    );
  });

  test("puts time windows end to end, none backwards, all over by now", () => {
    fc.assert(
      fc.property(timeDefinition, shares, (definition, at) => {
        const keyspace = keyspaceNow(definition);
        for (const ordinal of some(keyspace, at)) {
          const window = keyspace.windowAt(ordinal);
          if (window === null) throw new Error("a time definition has windows");
          expect(window.start <= window.end).toBe(true);
          expect(window.end <= NOW).toBe(true);
          if (ordinal + 1 < keyspace.count) {
            expect(keyspace.windowAt(ordinal + 1)?.start).toBe(window.end);
          }
        }
      }),
    );
  });

  test("finds the window that holds an instant", () => {
    fc.assert(
      fc.property(timeDefinition, fc.integer({ min: -1e9, max: 1e11 }), (definition, ms) => {
        const { time } = keyspaceNow(definition);
        if (time === null) throw new Error("a time definition has a time axis");
        const at = time.startMsAt(0) + ms;
        const ordinal = time.ordinalAt(at);
        expect(time.startMsAt(ordinal)).toBeLessThanOrEqual(at);
        expect(time.startMsAt(ordinal + 1)).toBeGreaterThan(at);
      }),
    );
  });

  test("has the days, weeks and months that walking the calendar finds", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("daily" as const, "weekly" as const, "monthly" as const),
        day,
        zone,
        (type, start, time_zone) => {
          const keyspace = keyspaceNow(parsed({ type, start, time_zone }));
          expect(keyspace.slice(0, keyspace.count)).toEqual(walkCalendar(type, start, time_zone));
        },
      ),
    );
  });

  test("has the cron times that walking minute by minute finds", () => {
    fc.assert(
      fc.property(
        day,
        fc.constantFrom("*/20 1-3 * * *", "7 5 1,15 * mon", "0 0 * feb sun"),
        (start, cron) => {
          const until = Temporal.PlainDate.from(start).add({ days: 40 }).toString();
          const keyspace = keyspaceNow(
            parsed({ type: "cron", expression: cron, start, end: until }),
          );
          const walked = walkMinutes(start, until, CRON_RULES[cron] ?? (() => false));
          // The last time found begins a window that ends after `end`.
          expect(keyspace.slice(0, keyspace.count)).toEqual(walked.slice(0, keyspace.count));
          expect(walked.length - keyspace.count).toBeLessThanOrEqual(1);
        },
      ),
      { numRuns: 6 },
    );
  });
});

const CRON_RULES: Record<string, (time: Temporal.PlainDateTime) => boolean> = {
  "*/20 1-3 * * *": (time) => time.minute % 20 === 0 && time.hour >= 1 && time.hour <= 3,
  "7 5 1,15 * mon": (time) =>
    time.minute === 7 &&
    time.hour === 5 &&
    (time.day === 1 || time.day === 15 || time.dayOfWeek === 1),
  "0 0 * feb sun": (time) =>
    time.minute === 0 && time.hour === 0 && time.month === 2 && time.dayOfWeek === 7,
};

function walkMinutes(
  start: string,
  until: string,
  matches: (time: Temporal.PlainDateTime) => boolean,
): string[] {
  const keys: string[] = [];
  const last = Temporal.PlainDateTime.from(until);
  let time = Temporal.PlainDateTime.from(start);
  while (Temporal.PlainDateTime.compare(time, last) < 0) {
    if (matches(time)) keys.push(time.toString({ smallestUnit: "minute" }));
    time = time.add({ minutes: 1 });
  }
  return keys;
}

const isMonday = (date: Temporal.PlainDate): boolean => date.dayOfWeek === 1;
const isFirst = (date: Temporal.PlainDate): boolean => date.day === 1;

function walkCalendar(
  type: "daily" | "weekly" | "monthly",
  start: string,
  time_zone: string,
): string[] {
  const keys: string[] = [];
  let date = Temporal.PlainDate.from(start);
  const begins = { daily: () => true, weekly: isMonday, monthly: isFirst }[type];
  while (!begins(date)) date = date.add({ days: 1 });
  const step = type === "daily" ? { days: 1 } : type === "weekly" ? { days: 7 } : { months: 1 };
  for (;;) {
    const next = date.add(step);
    if (next.toZonedDateTime(time_zone).epochMilliseconds > epochMsOf(NOW)) return keys;
    keys.push(type === "monthly" ? date.toString().slice(0, 7) : date.toString());
    date = next;
  }
}

describe("keys of several dimensions", () => {
  const nasty = fc.oneof(
    fc.string({ minLength: 1, unit: "grapheme" }),
    fc.string({
      minLength: 1,
      unit: fc.constantFrom("%", ",", "=", " ", "\t", "é", "2", "C", "\u2028", "😀"),
    }),
  );

  test("gives back every value that was encoded, and keeps it on one word", () => {
    fc.assert(
      fc.property(nasty, (value) => {
        expect(decodeValue(encodeValue(value))).toBe(value);
        expect(encodeValue(value)).not.toMatch(/[\s,=]/);
      }),
    );
  });

  test("reads each text in one way only", () => {
    fc.assert(
      fc.property(nasty, (text) => {
        const value = decodeValue(text);
        if (value !== null) expect(encodeValue(value)).toBe(text);
      }),
    );
  });

  test("gives back the values of every dimension", () => {
    fc.assert(
      fc.property(nasty, nasty, (one, other) => {
        const key = multiKeyOf([
          { name: "a", value: one },
          { name: "b", value: other },
        ]);
        expect(decodeMultiKey(key)).toEqual({ a: one, b: other });
      }),
    );
  });
});
