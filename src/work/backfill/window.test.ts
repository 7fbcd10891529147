import { describe, expect, test } from "vitest";
import { afterOpenTime, openedAt, openingAt, windowText } from "./window.ts";

const NIGHT = "22:00-06:00 Europe/Berlin";

function at(window: string | null, now: string, start_at: string | null = null) {
  const { is_open, changes_at } = openingAt({ window, start_at }, now);
  return `${is_open ? "open" : "closed"} until ${changes_at}`;
}

describe("windowText", () => {
  test.each([
    ["22:00-06:00 Europe/Berlin", NIGHT],
    [" 9:30 - 17:00 ", "09:30-17:00 UTC"],
    ["12:00-24:00", "12:00-00:00 UTC"],
  ])("keeps %j as %j", (text, kept) => {
    expect(windowText(text)).toBe(kept);
    expect(windowText(kept)).toBe(kept);
  });

  test.each(["25:00-06:00", "24:00-06:00", "22:00-24:30", "22:00-06:60"])(
    "speaks of times of the day where %j has none",
    (text) => expect(() => windowText(text)).toThrow(new RegExp(`got "${text}"\\.$`)),
  );

  test.each([
    ["nights", 'got "nights".'],
    ["22-6", 'got "22-6".'],
    ["06:00-06:00", "It must not begin and end at the same time."],
    ["00:00-24:00", "It must not begin and end at the same time."],
    ["22:00-06:00 Mars/Base", '"Mars/Base" must be an IANA time zone such as Europe/Berlin.'],
  ])("refuses %j", (text, sentence) => {
    expect(() => windowText(text)).toThrow(sentence);
    expect(() => windowText(text)).toThrow('such as "22:00-06:00 Europe/Berlin"');
  });
});

describe("afterOpenTime", () => {
  test("counts only the time in which the window is open", () => {
    const now = "2026-01-10T23:00:00.000Z";
    const hours = (count: number) => afterOpenTime(NIGHT, now, count * 3_600_000);
    expect(hours(6)).toBe("2026-01-11T05:00:00.000Z");
    expect(hours(7)).toBe("2026-01-11T22:00:00.000Z");
    expect(hours(6 + 8 + 1)).toBe("2026-01-12T22:00:00.000Z");
    expect(hours(1e9)).toBeNull();
    expect(openedAt(NIGHT, now)).toBe("2026-01-10T21:00:00.000Z");
  });
});

describe("openingAt", () => {
  test("opens at the very instant of its start, and closes at that of its end", () => {
    expect(at(NIGHT, "2026-01-10T20:59:59.999Z")).toBe("closed until 2026-01-10T21:00:00.000Z");
    expect(at(NIGHT, "2026-01-10T21:00:00.000Z")).toBe("open until 2026-01-11T05:00:00.000Z");
    expect(at(NIGHT, "2026-01-11T04:59:59.999Z")).toBe("open until 2026-01-11T05:00:00.000Z");
    expect(at(NIGHT, "2026-01-11T05:00:00.000Z")).toBe("closed until 2026-01-11T21:00:00.000Z");
  });

  test("goes by the clocks of its zone when they are changed", () => {
    // The last Sunday of March has no 02:30 in Berlin, and that of October has it twice.
    const early = "02:30-04:00 Europe/Berlin";
    expect(at(early, "2026-03-29T00:59:59.999Z")).toBe("closed until 2026-03-29T01:00:00.000Z");
    expect(at(early, "2026-03-29T01:00:00.000Z")).toBe("open until 2026-03-29T02:00:00.000Z");
    expect(at(early, "2026-10-25T00:00:00.000Z")).toBe("closed until 2026-10-25T00:30:00.000Z");
    expect(at(early, "2026-10-25T00:30:00.000Z")).toBe("open until 2026-10-25T03:00:00.000Z");
  });

  test("is right where the clock jumps over both of its ends", () => {
    const jump = "2026-03-29T01:00:00.000Z";
    const within = "02:10-02:40 Europe/Berlin";
    expect(at(within, jump)).toBe("closed until 2026-03-30T00:10:00.000Z");
    const around = "02:30-02:00 Europe/Berlin";
    expect(at(around, "2026-03-29T00:59:59.999Z")).toBe("open until 2026-03-29T01:00:00.000Z");
    expect(at(around, jump)).toBe("open until 2026-03-30T00:00:00.000Z");
  });

  test("waits for its start, and then for its window", () => {
    const now = "2026-01-10T12:00:00.000Z";
    expect(at(null, now)).toBe("open until null");
    expect(at(null, now, "2026-01-10T11:00:00.000Z")).toBe("open until null");
    expect(at(null, now, "2026-01-12T23:00:00.000Z")).toBe("closed until 2026-01-12T23:00:00.000Z");
    expect(at(NIGHT, now, "2026-01-12T23:00:00.000Z")).toBe(
      "closed until 2026-01-12T23:00:00.000Z",
    );
    expect(at(NIGHT, now, "2026-01-12T08:00:00.000Z")).toBe(
      "closed until 2026-01-12T21:00:00.000Z",
    );
  });
});
