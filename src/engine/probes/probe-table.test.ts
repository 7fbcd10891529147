import { expect, test } from "vitest";
import { addMs } from "../../kernel/instant.ts";
import { freeInMs } from "./probe-table.ts";

const NOW = "2026-03-10T00:00:00.000Z";

test("a probe can be leased when it is due and nobody has it", () => {
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
