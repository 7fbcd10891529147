import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { materialize } from "pawl/test";

// Before the project is loaded, so that the test leaves its data alone.
const folder = await mkdtemp(join(tmpdir(), "orders-"));
process.env["DATA_DIR"] = folder;
const { orders, turnover } = await import("./pawl.config.ts");
const { fileOf, quoted, rowsOf } = await import("./warehouse.ts");
after(() => rm(folder, { recursive: true }));

test("counts each order of a day in its region", async () => {
  const day = "2026-01-01";
  const { state, calls } = await materialize([orders, turnover], { partition: day });

  assert.equal(state, "SUCCEEDED");
  assert.deepEqual(
    calls.map(({ metadata }) => metadata),
    [{ rows: 5_000 }, { rows: 3 }],
  );
  const totals = await rowsOf(`
    select (select sum(cents) from ${quoted(fileOf("orders", day))}) as ordered,
      (select sum(cents) from ${quoted(fileOf("turnover", day))}) as turned_over`);
  assert.equal(totals[0]?.["ordered"], totals[0]?.["turned_over"]);
});
