import { describe, expect, test } from "vitest";
import { zonedText } from "./zoned-text.ts";

describe("zonedText", () => {
  test("says what the clocks of a zone show", () => {
    expect(zonedText("2026-03-01T09:00:00Z", "Europe/Berlin")).toBe("2026-03-01 10:00");
    expect(zonedText("2026-07-01T22:30:15Z", "Europe/Berlin")).toBe("2026-07-02 00:30:15");
    expect(zonedText("2026-03-01T00:00:00Z", "UTC")).toBe("2026-03-01 00:00");
  });

  test("tells times apart that the clocks show twice", () => {
    expect(zonedText("2026-10-25T00:30:00Z", "Europe/Berlin")).toBe("2026-10-25 02:30 (UTC+02:00)");
    expect(zonedText("2026-10-25T01:30:00Z", "Europe/Berlin")).toBe("2026-10-25 02:30 (UTC+01:00)");
    expect(zonedText("2026-10-25T02:00:00Z", "Europe/Berlin")).toBe("2026-10-25 03:00");
    expect(zonedText("2026-04-04T14:45:00Z", "Australia/Lord_Howe")).toBe(
      "2026-04-05 01:45 (UTC+11:00)",
    );
  });

  test("is the time of UTC where the zone is unknown", () => {
    expect(zonedText("2026-03-01T09:00:00.000Z", "Mars/Olympus")).toBe(
      "2026-03-01 09:00:00 UTC, not",
    );
  });
});
