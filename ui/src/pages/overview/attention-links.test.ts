import { describe, expect, test } from "vitest";
import { causeOf, listOf, splitAtTimes } from "./attention-links.ts";

describe("listOf", () => {
  test("leads to the list of a kind, filtered by what is wrong where that is a state", () => {
    expect(listOf({ kind: "backfill", what: "failed" })).toBe("/backfills?status=FAILED");
    expect(listOf({ kind: "sensor", what: "failed" })).toBe("/sensors?status=ERROR");
    expect(listOf({ kind: "move", what: "paused" })).toBe("/moves?status=PAUSED");
    expect(listOf({ kind: "schedule", what: "late" })).toBe("/schedules");
    expect(listOf({ kind: "worker", what: "stuck" })).toBe("/runs?status=PENDING,RUNNING");
  });
});

describe("causeOf", () => {
  test("leads to the page of what it is about, whatever its id holds", () => {
    expect(causeOf({ kind: "backfill", id: "01ABC" })).toBe("/backfills/01ABC");
    expect(causeOf({ kind: "asset", id: "sales/orders" })).toBe("/assets/sales%2Forders");
    expect(causeOf({ kind: "conflict", id: "run_1" })).toBe("/conflicts");
  });

  test("leads from a missing worker to the work that waits for it", () => {
    expect(causeOf({ kind: "worker", id: "sales/orders" })).toBe(
      "/runs?status=PENDING,RUNNING&asset=sales%2Forders",
    );
    expect(causeOf({ kind: "worker", id: "sync:transfers" })).toBe("/syncs?name=transfers");
  });
});

describe("splitAtTimes", () => {
  test("tells times from what stands around them", () => {
    expect(splitAtTimes("At 2026-03-01T13:00:00.000Z it was due.")).toEqual([
      "At ",
      "2026-03-01T13:00:00.000Z",
      " it was due.",
    ]);
    expect(splitAtTimes("none")).toEqual(["none"]);
  });
});
