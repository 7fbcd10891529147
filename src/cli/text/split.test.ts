import { describe, expect, test } from "vitest";
import type { SplitDocument } from "../../work/split/api.ts";
import { phasesText, splitLine, tenantsText } from "./split.ts";
import type { Terminal } from "../base/terminal.ts";

const terminalOf = (columns: number): Terminal => ({
  stdout: { write: () => undefined },
  stderr: { columns, write: () => undefined },
  json: false,
  colours: false,
  now: () => 0,
});

const STEP = {
  n: 3,
  step: "copy",
  state: "RUNNING",
  run_id: "run_a",
  worker_id: "w",
  attempt: 1,
  retry_at: null,
  reported_at: null,
  lacks_worker: false,
} as const;

describe("phasesText", () => {
  test("shows which phases are behind, which one is on, and which are to come", () => {
    expect(phasesText(terminalOf(120), { phase: "backfill", step: STEP })).toBe(
      "✓ planning  ✓ dual_write  ▶ backfill  · tailing  · cutover_pending  · reversible  · completed",
    );
    expect(phasesText(terminalOf(120), { phase: "rolled_back", step: null })).toBe("rolled_back");
  });

  test("names only the present phase where there is little room, and shows that it failed", () => {
    const step = { ...STEP, state: "FAILED" } as const;
    expect(phasesText(terminalOf(80), { phase: "backfill", step })).toBe("✓ ✓ ✗ backfill · · · ·");
    expect(phasesText(terminalOf(80), { phase: "completed", step: null })).toBe(
      "✓ ✓ ✓ ✓ ✓ ✓ ✓ completed",
    );
  });
});

describe("tenantsText", () => {
  test("names some and counts the rest", () => {
    expect(tenantsText(["a", "b"])).toBe("a, b");
    expect(tenantsText(Array.from({ length: 1_000 }, (_, n) => `t${n}`))).toBe(
      "t0, t1, t2, t3, t4 and 995 more",
    );
  });
});

describe("splitLine", () => {
  test("tells the phase, the step, the rows and the lag", () => {
    const split = {
      phase: "tailing",
      step: { ...STEP, step: "tail" },
      wanted: "rollback",
      backfill: { total_rows_copied: 1_234 },
      tail: { lag_ms: 1_500 },
    } as SplitDocument;
    expect(splitLine(split)).toBe(
      "tailing, tail RUNNING, 1,234 rows copied, 1.5s behind, rollback wanted",
    );
  });
});
