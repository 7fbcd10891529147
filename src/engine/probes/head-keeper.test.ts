import { describe, expect, test } from "vitest";
import { addMs, msBetween } from "../../kernel/instant.ts";
import {
  anchorsFor,
  freeInMs,
  headMemoryOf,
  headProbeId,
  nextHeadAt,
  sourceOfProbe,
} from "./head-keeper.ts";

const NOW = "2026-03-10T00:00:00.000Z";
const anchor = (block: number) => ({ block, hash: `h${block}` });
const anchors = (count: number) => Array.from({ length: count }, (_, block) => anchor(block));

describe("a head's probe", () => {
  test("names its sync and its source, whatever is in them", () => {
    const probe_id = headProbeId("eth.transfers", "main:net:1");
    expect(sourceOfProbe({ probe_id, subject: "eth.transfers" })).toBe("main:net:1");
  });

  test("remembers nothing that it did not write", () => {
    const nothing = { looked_at: null, failures: 0, error: null };
    for (const value of [null, "text", { failures: -1 }]) {
      expect(headMemoryOf(value)).toEqual(nothing);
    }
  });

  test("waits twice as long after each failure, up to a minute", () => {
    const waits = [0, 1, 2, 3, 4, 5, 90].map((n) => msBetween(NOW, nextHeadAt(NOW, 5_000, n)));
    expect(waits).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
    expect(msBetween(NOW, nextHeadAt(NOW, 90_000, 3))).toBe(90_000);
  });

  test("can be leased when it is due and nobody has it", () => {
    const probe = (dueMs: number, leasedMs: number | null) => ({
      due_at: addMs(NOW, dueMs),
      leased_until: leasedMs === null ? null : addMs(NOW, leasedMs),
    });
    expect(freeInMs([], NOW, 2_000)).toBe(2_000);
    expect(freeInMs([probe(700, null), probe(9_000, null)], NOW, 2_000)).toBe(700);
    expect(freeInMs([probe(9_000, null)], NOW, 2_000)).toBe(2_000);
    // It fell due after the claim had looked for some.
    expect(freeInMs([probe(-3, null), probe(700, null)], NOW, 2_000)).toBe(0);
    expect(freeInMs([probe(-3, 900), probe(1_200, null)], NOW, 2_000)).toBe(900);
    expect(freeInMs([probe(-3, -1)], NOW, 2_000)).toBe(0);
  });

  test("is given the newest hashes first, and the oldest of all last", () => {
    expect(anchorsFor([])).toEqual([]);
    expect(anchorsFor(anchors(3))).toEqual([anchor(2), anchor(1), anchor(0)]);
    const many = anchorsFor(anchors(100));
    expect(many).toHaveLength(33);
    expect([many[0], many[31], many[32]]).toEqual([anchor(99), anchor(68), anchor(0)]);
  });
});
