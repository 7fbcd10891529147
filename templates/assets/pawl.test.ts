import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { materialize } from "pawl/test";

// Before the project is loaded, so that the test leaves its data alone.
const folder = await mkdtemp(join(tmpdir(), "visits-"));
process.env["DATA_DIR"] = folder;
const { report, visits } = await import("./pawl.config.ts");
after(() => rm(folder, { recursive: true }));

test("makes the report of a day from its visits", async () => {
  const day = "2026-01-01";
  const { state, calls } = await materialize([visits, report], { partition: day });

  assert.equal(state, "SUCCEEDED");
  const text = await readFile(join(folder, "report", `${day}.txt`), "utf8");
  assert.match(text, /^\d+ visits\n$/);
  assert.deepEqual(calls[0]?.metadata, { count: Number.parseInt(text, 10) });
});
