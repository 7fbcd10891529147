import { describe, expect, test } from "vitest";
import type { BackfillDocument } from "../../work/backfill/documents.ts";
import { donePartitions, succeededText } from "./backfill.ts";

function ended(counts: Partial<BackfillDocument>): BackfillDocument {
  return {
    partitions_succeeded: 0,
    partitions_failed: 0,
    partitions_cancelled: 0,
    partitions_skipped: 0,
    ...counts,
  } as BackfillDocument;
}

describe("the counts of a backfill", () => {
  test("have skipped partitions among the succeeded, once", () => {
    const document = ended({ partitions_succeeded: 2, partitions_skipped: 2 });
    expect(donePartitions(document)).toBe(2);
    expect(succeededText(document)).toBe("2 succeeded (2 skipped)");
  });

  test("have nothing that was cancelled among what is done", () => {
    const document = ended({ partitions_succeeded: 2, partitions_cancelled: 98 });
    expect(donePartitions(document)).toBe(2);
  });

  test("say nothing of skips where there are none", () => {
    const document = ended({ partitions_succeeded: 3, partitions_failed: 1 });
    expect(donePartitions(document)).toBe(4);
    expect(succeededText(document)).toBe("3 succeeded");
  });
});
