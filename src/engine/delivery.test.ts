import { describe, expect, test } from "vitest";
import { addMs, msBetween } from "../core/instant.ts";
import { afterAttempt, type Delivery, deliveryOf, isTaken } from "./delivery.ts";

const NOW = "2026-03-01T09:30:00.000Z";
const DAY_MS = 86_400_000;

const FRESH: Delivery = {
  pos: 7,
  type: "run.failed",
  body: { type: "run.failed" },
  created_at: NOW,
  attempts: 0,
  last_attempt_at: null,
  last_status: null,
  last_error: null,
  failed_at: null,
};

const REFUSED = { status: 500, error: "no" };

describe("afterAttempt", () => {
  test("tries twelve times, ever less often, and then gives up for a week", () => {
    const delays: number[] = [];
    let delivery = FRESH;
    let now = NOW;
    while (delivery.failed_at === null) {
      const { value, due_at } = afterAttempt(delivery, REFUSED, now, 0.5);
      delays.push(msBetween(now, due_at) / 1_000);
      delivery = value;
      now = due_at;
    }
    const hours = [1, 2, 4, 8, 16, 24].map((hour) => hour * 3_600);
    expect(delays).toEqual([5, 30, 120, 600, 1_800, ...hours, 7 * 86_400]);
    expect(delivery).toMatchObject({ attempts: 12, last_status: 500, last_error: "no" });
  });

  test("spreads attempts by a fifth to either side", () => {
    const after = (random: number) =>
      msBetween(NOW, afterAttempt(FRESH, REFUSED, NOW, random).due_at);
    expect(after(0)).toBe(4_000);
    expect(after(1)).toBe(6_000);
  });

  test("gives up what would be told more than three days late", () => {
    const late = addMs(NOW, 3 * DAY_MS - 1_000);
    expect(afterAttempt(FRESH, REFUSED, late, 0.5).value.failed_at).toBe(late);
    const justInTime = addMs(NOW, 3 * DAY_MS - 6_000);
    expect(afterAttempt(FRESH, REFUSED, justInTime, 0.5).value.failed_at).toBeNull();
  });

  test("gives up at once where nobody is there any more", () => {
    const { value } = afterAttempt(FRESH, { status: 410, error: "gone" }, NOW, 0.5);
    expect(value).toMatchObject({ attempts: 1, failed_at: NOW, last_status: 410 });
  });
});

describe("a delivery", () => {
  test("is taken with any 2xx, and with nothing else", () => {
    const statuses = [200, 204, 299, 199, 301, 404, 500];
    const taken = statuses.filter((status) => isTaken({ status, error: null }));
    expect(taken).toEqual([200, 204, 299]);
    expect(isTaken({ status: null, error: "no answer came" })).toBe(false);
  });

  test("is told from other values of probes", () => {
    expect(deliveryOf(FRESH)).toEqual(FRESH);
    expect(deliveryOf({ pos: 7 })).toBeNull();
    expect(deliveryOf(null)).toBeNull();
  });
});
