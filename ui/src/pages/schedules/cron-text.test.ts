import { describe, expect, test } from "vitest";
import { cronText } from "./cron-text.ts";

describe("cronText", () => {
  test.each([
    ["* * * * *", "every minute"],
    ["*/5 * * * *", "every 5 minutes"],
    ["*/10 * * * * *", "every 10 seconds"],
    ["0 * * * *", "every hour, on the hour"],
    ["@hourly", "every hour, on the hour"],
    ["30 */2 * * *", "every 2 hours at :30"],
    ["0 6 * * *", "every day at 06:00"],
    ["@daily", "every day at 00:00"],
    ["15 6,18 * * *", "every day at 06:15 and 18:15"],
    ["0 8 * * 1-5", "Monday to Friday at 08:00"],
    ["0 8 * * mon,thu", "every Monday and Thursday at 08:00"],
    ["0 0 1 * *", "on day 1 of every month at 00:00"],
    ["*/15 * * * sun", "every 15 minutes, every Sunday"],
    ["30 0 12 * * *", "every day at 12:00:30"],
  ])("says %s as %s", (cron, text) => {
    expect(cronText(cron)).toBe(text);
  });

  test.each([
    "0 8 1 1 *",
    "0 8-17 * * *",
    "1-5 * * * *",
    "0 0 1 * 1",
    "nonsense",
    "0 8 L * *",
    "5,35 * * * *",
    "*/7 * * * *",
  ])("leaves %s as it is", (cron) => {
    expect(cronText(cron)).toBeNull();
  });
});
