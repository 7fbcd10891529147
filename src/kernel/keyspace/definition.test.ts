import { describe, expect, test } from "vitest";
import { PartitionDefinition } from "./definition.ts";

function faultOf(definition: Record<string, unknown>): string {
  const result = PartitionDefinition.safeParse(definition);
  return result.success ? "" : (result.error.issues[0]?.message ?? "");
}

describe("PartitionDefinition", () => {
  test("is in UTC with weeks from Monday unless it says otherwise", () => {
    expect(PartitionDefinition.parse({ type: "weekly", start: "2025-01-01" })).toEqual({
      type: "weekly",
      start: "2025-01-01",
      time_zone: "UTC",
      starts_on: "monday",
    });
  });

  test("refuses days that are not in the calendar and zones that do not exist", () => {
    expect(faultOf({ type: "daily", start: "2025-02-29" })).toContain("not a day of the calendar");
    expect(faultOf({ type: "daily", start: "01.02.2025" })).toContain("such as 2025-01-31");
    expect(faultOf({ type: "daily", start: "2025-01-01", time_zone: "Mars/Base" })).toContain(
      "IANA time zone",
    );
  });

  test("refuses formats that cannot be read back", () => {
    const daily = { type: "daily", start: "2025-01-01" };

    expect(faultOf({ ...daily, format: "YYYY-MM" })).toBe('"YYYY-MM" must contain DD');
    expect(faultOf({ ...daily, format: "YYYY-MM-DD-DD" })).toContain("once each");
    expect(faultOf({ ...daily, format: "YYYYMMDD" })).toBe("");
    expect(
      faultOf({ ...daily, type: "hourly", time_zone: "Europe/Berlin", format: "YYYYMMDDHH" }),
    ).toContain("UTC only");
    expect(faultOf({ type: "hourly", start: "2025-01-01T00:30", format: "YYYYMMDDHH" })).toContain(
      "must contain mm",
    );
  });

  test("refuses cron expressions that are wrong or name no day at all", () => {
    const cron = { type: "cron", start: "2025-01-01" };

    expect(faultOf({ ...cron, expression: "0 0 * *" })).toContain("five fields");
    expect(faultOf({ ...cron, expression: "61 0 * * *" })).toContain("minute that is not within");
    expect(faultOf({ ...cron, expression: "0 0 30 2 *" })).toContain("names no day of any year");
    expect(faultOf({ ...cron, expression: "0 0 * * mon-fri" })).toBe("");
    expect(faultOf({ ...cron, expression: "@daily" })).toBe("");
  });

  test("refuses repeated static keys, a single dimension and nested dimensions", () => {
    const one = { type: "static", keys: ["a"] };
    const nested = { type: "multi", dimensions: { a: one, b: one } };

    expect(faultOf({ type: "static", keys: ["a", "a"] })).toContain("must not repeat");
    expect(faultOf({ type: "multi", dimensions: { a: one } })).toContain("two or more");
    expect(faultOf({ type: "multi", dimensions: { a: one, b: nested } })).not.toBe("");
  });
});
