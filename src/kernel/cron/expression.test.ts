import { describe, expect, test } from "vitest";
import { cronDays } from "../keyspace/time-grid.ts";
import { parseCronExpression } from "./expression.ts";
import { cronTimes } from "./times.ts";

function fault(expression: string, zone = "UTC"): string {
  const times = cronTimes(expression, zone);
  return typeof times === "string" ? times : "";
}

function parsed(expression: string) {
  const cron = parseCronExpression(expression, "allowed");
  if (typeof cron === "string") throw new Error(cron);
  return cron;
}

describe("parseCronExpression", () => {
  test("reads five fields, or six with seconds first", () => {
    expect(parsed("5 6 7 8 *").seconds.values).toEqual([0]);
    expect(parsed("5 6 7 8 *").minutes.values).toEqual([5]);
    expect(parsed("4 5 6 7 8 *").seconds.values).toEqual([4]);
    expect(parsed("4 5 6 7 8 *").minutes.values).toEqual([5]);
  });

  test("reads lists, ranges, steps and names", () => {
    const cron = parsed("  40/10,1-3 8-18/5   * FEB,oct-Dec mon-wed ");
    expect(cron.minutes.values).toEqual([1, 2, 3, 40, 50]);
    expect(cron.hours.values).toEqual([8, 13, 18]);
    expect(cron.dayFields.months.values).toEqual([2, 10, 11, 12]);
    expect(cron.dayFields.weekdays.values).toEqual([1, 2, 3]);
  });

  test("takes hours for fixed unless they have a wildcard or a step", () => {
    const fixed = ["2", "2,3", "0-23", "1,4-6"].map((hour) => parsed(`0 ${hour} * * *`).hoursFixed);
    const stepped = ["*", "*/2", "8-18/2", "3,8/4"].map((hour) => parsed(`0 ${hour} * * *`));
    expect(fixed).toEqual([true, true, true, true]);
    expect(stepped.map((cron) => cron.hoursFixed)).toEqual([false, false, false, false]);
  });

  test("knows the usual nicknames and no others", () => {
    expect(parsed("@Weekly").dayFields.weekdays.values).toEqual([0]);
    expect(parsed("@annually").dayFields).toEqual(parsed("@yearly").dayFields);
    expect(parsed("@midnight").hoursFixed).toBe(true);
    expect(parsed("@hourly").hoursFixed).toBe(false);
    expect(fault("@minutely")).toBe(
      '"@minutely" is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly',
    );
  });

  test("says what is wrong with the offending part", () => {
    expect(fault("0 0 * *")).toBe(
      '"0 0 * *" must have five fields: minute, hour, day, month and weekday; ' +
        "or six, with seconds first",
    );
    expect(fault("60 * * * * *")).toContain('a second that is not within 0 to 59, ascending: "60"');
    expect(fault("1,61 0 * * *")).toContain('a minute that is not within 0 to 59, ascending: "61"');
    expect(fault("0 5-2 * * *")).toContain('an hour that is not within 0 to 23, ascending: "5-2"');
    expect(fault("0 0 1,,2 * *")).toContain('a day that is not understood: ""');
    expect(fault("0 0 15W * *")).toContain('a day that is not understood: "15w"');
    expect(fault("0 0 1 ? *")).toContain('a month that is not understood: "?"');
    expect(fault("0 0 * * fri#6")).toContain('a weekday that is not understood: "fri#6"');
    expect(fault("0 0 * * 8L")).toContain('a weekday that is not understood: "8l"');
    expect(fault("0 0 * * xyz#1")).toContain('a weekday that is not understood: "xyz#1"');
    expect(fault("0 0 * * L")).toContain('a weekday that is not understood: "l"');
    expect(fault("*/0 * * * *")).toContain('a minute that is not understood: "*/0"');
    expect(fault("constructor")).toContain("must have five fields");
    expect(fault("0 0 30 2 *")).toBe('"0 0 30 2 *" names no day of any year');
    expect(fault(`${"0,".repeat(200)}0 * * * *`)).toContain("is longer than 200 characters");
    expect(fault("@daily", "Mars/Base")).toBe(
      '"Mars/Base" must be an IANA time zone such as Europe/Berlin',
    );
  });

  test("keeps seconds out of partitions", () => {
    expect(cronDays("0 0 0 * * *")).toBe(
      '"0 0 0 * * *" must have five fields: minute, hour, day, month and weekday',
    );
    expect(cronDays("@minutely")).toContain("must have five fields");
  });
});
