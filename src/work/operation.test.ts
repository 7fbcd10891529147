import { describe, expect, test } from "vitest";
import { BACKFILL_ALIASES, SCHEDULE_ALIASES, underOwnNames } from "./operation.ts";

describe("underOwnNames", () => {
  test("puts what is said under another name under its own, at any depth", () => {
    const range = { type: "range", partition_start: "a", partition_end: "b" };
    expect(underOwnNames({ assets: ["x"], partition_selector: range }, BACKFILL_ALIASES)).toEqual({
      assets: ["x"],
      selector: { type: "range", start: "a", end: "b" },
    });
    const filter = { type: "filter", filters: { region: "eu" } };
    expect(underOwnNames({ selector: filter }, BACKFILL_ALIASES)).toEqual({
      selector: { type: "filter", dimensions: { region: "eu" } },
    });
  });

  test("takes two names that say the same, in whatever order their fields stand", () => {
    const body = {
      selector: { type: "range", start: "a", end: "b" },
      partition_selector: { partition_end: "b", partition_start: "a", type: "range" },
    };
    expect(underOwnNames(body, BACKFILL_ALIASES)).toEqual({ selector: body.selector });
  });

  test("refuses two names that say different things, with both", () => {
    const body = { cron: "0 1 * * *", cron_expression: "0 2 * * *" };
    expect(() => underOwnNames(body, SCHEDULE_ALIASES)).toThrow(
      "body.cron_expression is another name of body.cron, and the two say different things",
    );
  });

  test("leaves alone what is no object, and does not change what it is given", () => {
    for (const value of [null, 1, "text", [{ cron_expression: "x" }], { selector: [1] }]) {
      expect(underOwnNames(value, { ...BACKFILL_ALIASES, ...SCHEDULE_ALIASES })).toEqual(value);
    }
    const body = { cron_expression: "x" };
    underOwnNames(body, SCHEDULE_ALIASES);
    expect(body).toEqual({ cron_expression: "x" });
  });
});
