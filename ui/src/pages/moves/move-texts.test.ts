import { describe, expect, test } from "vitest";
import { whyNot, whyNotSegment } from "./move-commands.ts";
import {
  bytesText,
  keysText,
  type ListedMove,
  phasesOf,
  type Segment,
  topologyText,
} from "./move-texts.ts";

const move = (fields: Partial<ListedMove>): ListedMove =>
  ({
    phase: "copy",
    state: "RUNNING",
    surveyed: true,
    dry_run: false,
    keep_source: false,
    segments_poisoned: 0,
    next: { text: "", commands: [] },
    ...fields,
  }) as unknown as ListedMove;

const placesOf = (fields: Partial<ListedMove>) =>
  phasesOf(move(fields)).map(({ name, place }) => `${name} ${place}`);

describe("phasesOf", () => {
  test("marks what it is busy with, and where something was quarantined", () => {
    expect(placesOf({})).toEqual([
      "survey done",
      "copy now",
      "remove ahead",
      "check ahead",
      "done ahead",
    ]);
    expect(placesOf({ segments_poisoned: 1 })[1]).toBe("copy failed");
    expect(placesOf({ state: "PLANNED" })[1]).toBe("copy ahead");
    expect(placesOf({ state: "CANCELLED" })[1]).toBe("copy skipped");
  });

  test("leaves out what will not be done", () => {
    expect(placesOf({ keep_source: true, phase: "check" })).toEqual([
      "survey done",
      "copy done",
      "check now",
      "done ahead",
    ]);
    expect(placesOf({ dry_run: true, phase: "survey", surveyed: false })).toEqual(["survey now"]);
  });
});

describe("what can be done", () => {
  test("says why a command makes no sense", () => {
    expect(whyNot(move({}), "start")).toBe("It is running.");
    expect(whyNot(move({ state: "PLANNED", dry_run: true }), "start")).toContain("dry run");
    expect(whyNot(move({ state: "COMPLETE" }), "pause")).toBe("The move is complete.");
    const commands = [{ command: "pause", effect: "stops it" }];
    expect(whyNot(move({ next: { text: "", commands } }), "pause")).toBeNull();
  });

  test("asks of a segment only what it can do", () => {
    const segment = (fields: Partial<Segment>) =>
      ({ state: "COPIED", running: false, run_id: null, ...fields }) as Segment;
    expect(whyNotSegment(move({}), segment({}), "recopy")).toBeNull();
    expect(whyNotSegment(move({}), segment({}), "exclude")).toBe("It is not quarantined.");
    expect(whyNotSegment(move({}), segment({ state: "POISONED" }), "exclude")).toBeNull();
    const running = segment({ state: "POISONED", running: true, run_id: "run" });
    expect(whyNotSegment(move({}), running, "retry")).toContain("under way");
    expect(whyNotSegment(move({ state: "COMPLETE" }), segment({}), "recopy")).toContain("complete");
  });
});

describe("texts", () => {
  test("tell layouts in a line", () => {
    expect(topologyText({ by: "tenant", tenants: {}, default: "a" })).toBe("all on a");
    expect(topologyText({ by: "tenant", tenants: { x: "b" }, default: "a" })).toBe(
      "x on b, all others on a",
    );
    expect(topologyText({ by: "hash", buckets: ["a", "b", "a"] })).toBe(
      "by hash, 3 buckets on a, b",
    );
    const ranges = [
      { below: "m", shard: "a" },
      { below: null, shard: "b" },
    ];
    expect(topologyText({ by: "range", ranges })).toBe("below m on a, the rest on b");
  });

  test("tell keys and bytes", () => {
    expect(keysText({ lower: null, upper: ["x", "7"] })).toBe("the first … x, 7");
    expect(bytesText(1_500_000)).toBe("1.5 MB");
    expect(bytesText(12)).toBe("12 B");
  });
});
