import { describe, expect, test } from "vitest";
import type { SegmentDocument } from "../../work/sync/documents.ts";
import { CELLS_MAX, stripText } from "./sync.ts";
import type { Terminal } from "../base/terminal.ts";

function terminal(columns: number, colours = false): Terminal {
  const stream = { columns, write: () => undefined };
  return { stdout: stream, stderr: stream, json: false, colours, now: () => 0 };
}

function segments(...statuses: SegmentDocument["status"][]): SegmentDocument[] {
  return statuses.map((status, index) => {
    return { status, excluded: null, from_block: index * 10 } as SegmentDocument;
  });
}

describe("stripText", () => {
  test("tells what a segment is by its shape, and says what the shapes mean", () => {
    const all = segments("COMPLETE", "COMPLETE", "RUNNING", "FAILED", "QUARANTINED", "PENDING");
    const excluded = { by: "me", reason: "gone", at: "" };
    const strip = stripText(terminal(80), [...all, { ...all[0], excluded } as SegmentDocument]);
    expect(strip).toBe(
      " 0  ██RFQ·x\n" +
        "█ complete 2   x excluded 1   · pending 1   R running 1   F failed 1   Q quarantined 1",
    );
  });

  test("begins each row that fits the terminal with its first block", () => {
    const strip = stripText(terminal(18), segments(...Array<"PENDING">(30).fill("PENDING")));
    expect(strip.split("\n").slice(0, 3)).toEqual([
      `  0  ${"·".repeat(12)}`,
      `120  ${"·".repeat(12)}`,
      `240  ${"·".repeat(6)}`,
    ]);
  });

  test("shows the worst of segments that share a cell", () => {
    const many = segments(...Array<"COMPLETE">(CELLS_MAX * 3).fill("COMPLETE"));
    many[1] = { ...many[1], status: "QUARANTINED" } as SegmentDocument;
    const strip = stripText(terminal(500), many);
    expect(strip).toMatch(/^ *0 {2}Q█{364}\n/);
    expect(strip).toContain("complete 1094   Q quarantined 1   (a cell is up to 3 segments)");
  });

  test("paints neighbours of a kind at once", () => {
    const strip = stripText(terminal(80, true), segments("COMPLETE", "COMPLETE"));
    expect(strip).toContain("██");
  });
});
