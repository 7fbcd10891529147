import { expect, test } from "vitest";
import { layoutFields } from "../base/terminal.ts";
import { checkText, metadataFields } from "./run.ts";

const FORGED = "1\nstatus    MATERIALIZED";

test("I83: what stands in metadata or what a check says begins no line of its own", () => {
  const metadata = {
    rows: FORGED,
    [`rows\n${FORGED}`]: 2,
    notes: { type: "markdown", text: FORGED },
    source: { type: "link", url: "https://example.org/", text: FORGED },
    size: { type: "number", value: 3, unit: FORGED },
  };
  const lines = layoutFields(metadataFields(metadata)).split("\n");
  expect(lines.filter((line) => line.startsWith("status"))).toEqual([]);
  expect(lines.filter((line) => line.startsWith("    status    MATERIALIZED"))).toHaveLength(4);

  const check = { name: "good", severity: "fail", blocking: false, passed: false } as const;
  const said = checkText({ ...check, message: FORGED, metadata: null, error: null });
  expect(said).toBe("good failed: 1 status    MATERIALIZED");
});
